//go:build !linux

package thread

import (
	"fmt"
	"runtime"
)

func alloc(size, align int, huge Huge) (*Buffer, error) {
	if huge != HugeAuto {
		return nil, fmt.Errorf("set huge pages %s: %w on %s; use hugepages=auto", huge, ErrUnsupported, runtime.GOOS)
	}
	m := make([]byte, size+align)
	return &Buffer{Bytes: aligned(m, size, align), mapping: m}, nil
}

// Free frees the memory. Freeing twice is harmless.
func (b *Buffer) Free() error {
	if b != nil {
		b.mapping, b.Bytes = nil, nil
	}
	return nil
}

// HugeShare is not known here.
func HugeShare([]byte) (float64, error) {
	return 0, fmt.Errorf("read huge page state: %w on %s", ErrUnsupported, runtime.GOOS)
}
