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

// opener opens a compressed file for reading what is in it. The function that it returns must be called, after the last
// byte was read or instead; it tells whether the file was sound.
type opener interface {
	open(ctx context.Context, path string) (io.Reader, func() error, error)
	close() error
}

// ownTool is tare's own decompressor. What it needs is allocated once, outside the timed section.
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
		t.z.Reset(bytes.NewReader(nil)) // lets go of the file
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
			Message: fmt.Sprintf("restore: tools=%s needs %s, which is not in this environment (PATH is %s); "+
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
		r.Close() // a program that still writes is ended by it
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

// through opens a file, hands what is in it to use, and sees to it that it was sound.
func through(ctx context.Context, o opener, path string, use func(io.Reader) error) error {
	r, done, err := o.open(ctx, path)
	if err != nil {
		return err
	}
	err = use(r)
	// When the reading failed, how the program ended is a consequence; when the program failed, the reading is.
	if closed := done(); closed != nil {
		return errors.Join(err, closed)
	}
	return err
}
