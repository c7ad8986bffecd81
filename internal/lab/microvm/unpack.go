package microvm

import (
	"io"
	"path"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

const (
	maxArchive = 2 << 30  // bytes of an unpacked package; a generic kernel's is 400 MB
	maxDict    = 64 << 20 // bytes of history a decompressor may ask for; xz -9 asks for 64 MiB
)

// unpacker chooses a decompressor by the end of a file's name; what has none passes through.
func unpacker(name string, r io.Reader) (io.Reader, error) {
	switch path.Ext(name) {
	case ".xz":
		return xz.NewReader(r, maxDict)
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
