package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// prepared is a file of known content that outlives a trial, so that a session pays for it once. Beside it lies a marker
// that is written after the file is on stable storage; a file without the right marker and size is made again.
type prepared struct {
	path    string
	content *content
	records int64
	key     string // the marker's text: everything the content depends on
}

func (p *prepared) marker() string { return p.path + ".ok" }

func (p *prepared) size() int64 { return p.records * int64(p.content.bs) }

// ensure makes the file unless it is there already, and tells which.
func (p *prepared) ensure(ctx context.Context) (reused bool, err error) {
	if p.present() {
		return true, nil
	}
	for _, name := range []string{p.marker(), p.path} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, explain("remove", name, err)
		}
	}
	if err := checkRoom(parent(p.path), p.size(), 2); err != nil {
		return false, err
	}
	if err := p.make(ctx); err != nil {
		os.Remove(p.path)
		return false, err
	}
	if err := os.WriteFile(p.marker(), []byte(p.key), 0o600); err != nil {
		return false, explain("write", p.marker(), err)
	}
	return false, nil
}

func (p *prepared) present() bool {
	text, err := os.ReadFile(p.marker())
	if err != nil || string(text) != p.key {
		return false
	}
	st, err := os.Stat(p.path)
	return err == nil && st.Mode().IsRegular() && st.Size() == p.size()
}

// make writes all records as generation 0 and brings them to stable storage, so that neither dirty pages nor delayed
// allocation reach into the timed section. It leaves no page of the file in the cache where the system lets it.
func (p *prepared) make(ctx context.Context) (err error) {
	h, err := openHandle(p.path, openMode{write: true, create: true})
	if err != nil {
		return explain("create", p.path, err)
	}
	defer func() { err = errors.Join(err, h.close()) }()
	c := p.content
	for r := int64(0); r < p.records; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(c.slots, p.records-r)
		for i := range n {
			c.record(r+i, 0)
		}
		if err := writeFull(h, c.pool[:n*int64(c.bs)], r*int64(c.bs)); err != nil {
			return explain("write", p.path, err)
		}
		r += n
	}
	if err := h.sync(); err != nil {
		return explain("flush", p.path, err)
	}
	if err := h.dropCache(); err != nil && !errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("drop %s from the cache: %w", p.path, err)
	}
	return nil
}

// writeFull writes all of b at off; preparing a file may take the kernel more than one call per buffer.
func writeFull(h *handle, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := h.writeAt(b, off)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("the system wrote nothing and told no reason")
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}
