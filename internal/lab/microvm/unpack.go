package microvm

import (
	"io"
	"path"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
)

const (
	maxArchive = 2 << 30  // largest unpacked package, bytes; a generic kernel has 400 MB
	maxDict    = 64 << 20 // largest history of a decompressor, bytes; xz -9 needs 64 MiB
)

// unpacker chooses a decompressor by the suffix of a file's name. Without a known suffix the data is returned as it is.
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
