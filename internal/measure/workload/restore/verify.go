package restore

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"tare/internal/measure/fileio"
	"tare/internal/record"
)

// store is a folder of files that are named by their digests, with the source of missing ones.
type store struct {
	cache, source string
	sum           hash.Hash
	buf           []byte
	hits, fetched int
}

func newStore(cache, source string) *store {
	return &store{cache: cache, source: source, sum: md5.New(), buf: make([]byte, 1<<20)}
}

// ready makes sure that the cache has a complete part with the right digest, and returns the number of bytes read. A
// damaged file in the cache is replaced; a damaged file in the source is an error.
func (s *store) ready(ctx context.Context, p *part) (int64, error) {
	path := filepath.Join(s.cache, p.name())
	n, got, err := s.read(ctx, path, nil)
	if err == nil && got == p.MD5 {
		s.hits++
		return n, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return n, err
	}
	more, err := s.fetch(ctx, p, path)
	s.fetched++
	return n + more, err
}

// fetch copies a part into the cache under a temporary name and renames it when it is complete and flushed.
func (s *store) fetch(ctx context.Context, p *part, path string) (n int64, err error) {
	tmp := path + ".new"
	f, err := os.Create(tmp)
	if err != nil {
		return 0, fileio.Explain("create", tmp, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(tmp)
		}
	}()
	from := filepath.Join(s.source, p.name())
	n, got, err := s.read(ctx, from, f)
	if err != nil {
		return n, err
	}
	if got != p.MD5 {
		return n, &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("restore: %s has the MD5 digest %s: the file is damaged and was not used", from,
				got)}
	}
	if err := f.Sync(); err != nil {
		return n, fileio.Explain("flush", tmp, err)
	}
	if err := f.Close(); err != nil {
		return n, fileio.Explain("close", tmp, err)
	}
	return n, os.Rename(tmp, path)
}

// read reads a file, writes it to a copy that may be nil, and returns its digest.
func (s *store) read(ctx context.Context, path string, copied io.Writer) (n int64, digest string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", fileio.Explain("open", path, err)
	}
	defer f.Close()
	s.sum.Reset()
	for {
		if err := ctx.Err(); err != nil {
			return n, "", err
		}
		k, err := f.Read(s.buf)
		n += int64(k)
		s.sum.Write(s.buf[:k])
		if copied != nil {
			if _, err := copied.Write(s.buf[:k]); err != nil {
				return n, "", fileio.Explain("write a copy of", path, err)
			}
		}
		if err == io.EOF {
			return n, hex.EncodeToString(s.sum.Sum(nil)), nil
		}
		if err != nil {
			return n, "", fileio.Explain("read", path, err)
		}
	}
}
