package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tare/internal/measure/fileio"
	"tare/internal/record"
	"tare/internal/sys/bzip2"
	"tare/internal/sys/proc"
)

// opener opens a compressed file for reading its contents. The returned function must always be called, after the last
// byte or earlier; it returns an error if the file was damaged.
type opener interface {
	open(ctx context.Context, path string) (io.Reader, func() error, error)
	close() error
}

// ownTool is tare's own decompressor. Its memory is allocated once, outside the timed section.
type ownTool struct{ z *bzip2.Reader }

func newOwnTool(threads int) *ownTool {
	return &ownTool{bzip2.NewReader(bytes.NewReader(nil), threads)}
}

func (t *ownTool) open(_ context.Context, path string) (io.Reader, func() error, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fileio.Explain("open", path, err)
	}
	t.z.Reset(f)
	return t.z, func() error {
		t.z.Reset(bytes.NewReader(nil)) // releases the file
		return f.Close()
	}, nil
}

func (t *ownTool) close() error { return t.z.Close() }

// program is the environment's bzip2.
type program struct{ path string }

func findProgram(name, with string) (string, error) {
	path, err := proc.LookPath(name)
	if err != nil {
		return "", &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("restore: tools=%s needs %s, which this environment does not have (PATH is %s); "+
				"install it there (Debian: apt-get install %s), or use tools=%s", environment, name, os.Getenv("PATH"),
				with, own)}
	}
	return path, nil
}

func (t *program) open(ctx context.Context, path string) (io.Reader, func() error, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	said := proc.NewTail(4 << 10)
	cmd := proc.Command(ctx, t.path, "-dc", "--", path)
	cmd.Stdout, cmd.Stderr = w, said
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("start %s: %w", t.path, err)
	}
	return r, func() error {
		r.Close() // this ends a program that is still writing
		err := cmd.Wait()
		if text := bytes.TrimSpace(said.Bytes()); err != nil && len(text) > 0 {
			err = fmt.Errorf("%w: %s", err, proc.Printable(text))
		}
		if err != nil {
			return fmt.Errorf("%s -dc %s: %w", filepath.Base(t.path), filepath.Base(path), err)
		}
		return nil
	}, nil
}

func (t *program) close() error { return nil }

// through opens a file, passes its contents to use, and checks that it was not damaged.
func through(ctx context.Context, o opener, path string, use func(io.Reader) error) error {
	r, done, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	err = use(r)
	// If the reading failed, the program's failure is a consequence; if the program failed, the reading's is.
	if closed := done(); closed != nil {
		return errors.Join(err, closed)
	}
	return err
}
