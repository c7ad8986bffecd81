//go:build !linux || !(amd64 || arm64)

package syscalls

import (
	"fmt"
	"runtime"

	"tare/internal/sys/thread"
)

func newOperation(info opInfo) (operation, error) {
	return nil, fmt.Errorf("%s: %w: it is Linux on x86-64 or arm64 that can be measured, this is %s/%s", info.name,
		thread.ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
