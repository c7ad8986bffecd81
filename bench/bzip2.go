package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tare/internal/sys/bzip2"
	"tare/internal/sys/proc"
)

const (
	// bzip2Bytes is how much is decompressed: three dozen blocks.
	bzip2Bytes   = 32 << 20
	bzip2Workers = 2
)

// bzip2Row compares decompressing, which is most of unpacking a backup.
func bzip2Row() row {
	return row{
		name: "bzip2", what: "decompress 32 MiB of Go's own source, compressed by bzip2 -9", peer: "bzip2 -dc",
		programs: []string{"bzip2"}, open: func(ctx context.Context,
			b *bench) (*contest, error) {
			return openBzip2(ctx, b, bzip2Bytes)
		},
		figures: []figure{{unit: "B/s", goal: 1.5}},
	}
}

func openBzip2(ctx context.Context, b *bench, size int) (*contest, error) {
	plain := filepath.Join(b.dir, "source")
	sum, err := writeSource(ctx, plain, size)
	if err != nil {
		return nil, fmt.Errorf("collect Go's source: %w", err)
	}
	packed := plain + ".bz2"
	if _, err := program(ctx, "bzip2", "-9", "-f", plain); err != nil {
		return nil, err
	}
	f, err := os.Open(packed)
	if err != nil {
		return nil, err
	}
	z := bzip2.NewReader(f, bzip2Workers)
	shut := func() error { return errors.Join(z.Close(), f.Close(), os.Remove(packed)) }
	if err := checkBzip2(z, int64(size), sum); err != nil {
		return nil, errors.Join(err, shut())
	}
	return &contest{
		tare: func(context.Context) ([]float64, error) {
			start := time.Now()
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return nil, err
			}
			z.Reset(f)
			n, err := z.WriteTo(io.Discard)
			return rateOf(n, time.Since(start)), err
		},
		peer: func(ctx context.Context) ([]float64, error) {
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			defer null.Close()
			cmd := proc.Command(ctx, "bzip2", "-dc", packed)
			cmd.Stdout = null
			start := time.Now()
			err = proc.Wait(cmd)
			return rateOf(int64(size), time.Since(start)), err
		},
		notes: []string{
			fmt.Sprintf("tare: internal/sys/bzip2 with %d workers, as the restore does it, in this process; "+
				"checksums of blocks and stream verified, the whole compared with the original's MD5 beforehand",
				bzip2Workers),
			"bzip2: `bzip2 -dc FILE >/dev/null`, start of the process included (1 to 3 ms)",
		},
		close: shut,
	}, nil
}

func rateOf(n int64, took time.Duration) []float64 {
	return []float64{float64(n) / took.Seconds()}
}

// checkBzip2 makes sure that all comes out as it went in.
func checkBzip2(r io.Reader, size int64, want []byte) error {
	h := md5.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return err
	}
	if n != size || !bytes.Equal(h.Sum(nil), want) {
		return fmt.Errorf("decompressed %d bytes with the MD5 digest %x, and %d with %x were compressed", n, h.Sum(nil),
			size, want)
	}
	return nil
}

// writeSource writes left bytes of the Go files of the toolchain, one behind the other, again from the beginning when
// they do not suffice, and returns the digest.
func writeSource(ctx context.Context, path string, left int) ([]byte, error) {
	out, err := program(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "src")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := md5.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, h), 256<<10)
	for left > 0 {
		before := left
		err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(at) != ".go" || left == 0 {
				return err
			}
			text, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			text = text[:min(left, len(text))]
			left -= len(text)
			_, err = w.Write(text)
			return err
		})
		if err != nil {
			return nil, err
		}
		if left == before {
			return nil, fmt.Errorf("there are no Go files below %s", root)
		}
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
