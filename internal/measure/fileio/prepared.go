package fileio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Prepared is a file of known content that outlives a trial, so that a session makes it once. A marker beside it is
// written after the file is flushed; a file without the right marker and size is made again.
type Prepared struct {
	Path    string
	Content *Content
	Records int64
	Key     string // the marker's text: everything the content depends on
}

func (p *Prepared) marker() string { return p.Path + ".ok" }

// Size returns the size of the file in bytes.
func (p *Prepared) Size() int64 { return p.Records * int64(p.Content.bs) }

// Ensure makes the file unless it exists, and tells whether it made it.
func (p *Prepared) Ensure(ctx context.Context) (reused bool, err error) {
	if p.present() {
		return true, nil
	}
	for _, name := range []string{p.marker(), p.Path} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, Explain("remove", name, err)
		}
	}
	if err := CheckFreeSpace(filepath.Dir(p.Path), p.Size(), 2); err != nil {
		return false, err
	}
	if err := p.make(ctx); err != nil {
		os.Remove(p.Path)
		return false, err
	}
	if err := os.WriteFile(p.marker(), []byte(p.Key), 0o600); err != nil {
		return false, Explain("write", p.marker(), err)
	}
	return false, nil
}

func (p *Prepared) present() bool {
	text, err := os.ReadFile(p.marker())
	if err != nil || string(text) != p.Key {
		return false
	}
	st, err := os.Stat(p.Path)
	return err == nil && st.Mode().IsRegular() && st.Size() == p.Size()
}

// make writes all records as generation 0 and flushes them, so that neither dirty pages nor delayed allocation affect
// the timed section. If the system can, it drops the file's pages from the cache.
func (p *Prepared) make(ctx context.Context) (err error) {
	h, err := open(p.Path, Mode{Write: true, Create: true})
	if err != nil {
		return Explain("create", p.Path, err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	c := p.Content
	for r := int64(0); r < p.Records; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(c.slots, p.Records-r)
		for i := range n {
			c.Record(r+i, 0)
		}
		if err := WriteFull(h, c.pool[:n*int64(c.bs)], r*int64(c.bs)); err != nil {
			return Explain("write", p.Path, err)
		}
		r += n
	}
	if err := h.Sync(); err != nil {
		return Explain("flush", p.Path, err)
	}
	if err := h.DropCache(); err != nil && !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("drop %s from the cache: %w", p.Path, err)
	}
	return nil
}

// WriteFull writes all of b at off; preparing a file may take the kernel more than one call per buffer.
func WriteFull(h *Handle, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := h.WriteAt(b, off)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the system wrote nothing and returned no error")
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}
