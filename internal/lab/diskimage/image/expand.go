package image

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Each decompresses a block to exactly size bytes. Other bytes may follow the packed ones.

func deflated(packed []byte, size int64) ([]byte, error) {
	r := flate.NewReader(bytes.NewReader(packed))
	defer r.Close()
	return whole(r, size)
}

func zlibbed(packed []byte, size int64) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decompress a block: %w", err)
	}
	defer r.Close()
	return whole(r, size)
}

func zstandard(packed []byte, size int64) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, fmt.Errorf("decompress a block: %w", err)
	}
	defer r.Close()
	return whole(r, size)
}

func whole(r io.Reader, size int64) ([]byte, error) {
	plain := make([]byte, size)
	if _, err := io.ReadFull(r, plain); err != nil {
		return nil, fmt.Errorf("decompress a block: %w", err)
	}
	return plain, nil
}
