package guest

import (
	"bufio"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const (
	maxArchive = 2 << 30  // bytes of an unpacked package; a generic kernel's is 400 MB
	maxDict    = 64 << 20 // bytes of history a decompressor may ask for; xz -9 asks for 64 MiB
)

// unpacker chooses a decompressor by the end of a file's name; what has none passes through.
func unpacker(name string, r io.Reader) (io.Reader, error) {
	switch path.Ext(name) {
	case ".xz":
		b := bufio.NewReaderSize(r, 64<<10)
		if err := checkXZ(b); err != nil {
			return nil, err
		}
		return xz.NewReader(b)
	case ".zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxDict))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case ".gz":
		return gzip.NewReader(r)
	}
	return r, nil
}

// checkXZ refuses an xz file whose first block asks for more history than any packager uses: the library would allocate
// what the file asks for, up to 4 GiB. See sections 2 and 3.1 of the .xz file format 1.0.4.
func checkXZ(b *bufio.Reader) error {
	const streamHeader = 12
	h, err := b.Peek(streamHeader + 1)
	if err != nil {
		return fmt.Errorf("read xz header: %w", err)
	}
	size := (int(h[streamHeader]) + 1) * 4
	if h, err = b.Peek(streamHeader + size); err != nil {
		return fmt.Errorf("read xz block header: %w", err)
	}
	block := h[streamHeader:]
	i := 2
	for _, sized := range []bool{block[1]&0x40 != 0, block[1]&0x80 != 0} {
		for more := sized; more && i < len(block); i++ {
			more = block[i]&0x80 != 0
		}
	}
	const lzma2 = 0x21
	if i+3 > len(block) || block[i] != lzma2 || block[i+1] != 1 {
		return nil // another filter; the library refuses what it does not know
	}
	// The size is 2 or 3 times a power of two: 4 KiB for 0, 6 KiB for 1, 8 KiB for 2, ...
	bits := block[i+2] & 0x3f
	if dict := uint64(2|bits&1) << (bits/2 + 11); bits >= 40 || dict > maxDict {
		return fmt.Errorf("the xz file asks for %d bytes of history, more than %d MiB", dict, maxDict>>20)
	}
	return nil
}
