package matrix

import (
	"context"
	"errors"
	"io"
	"time"

	"tare/internal/workload/file"
)

// compat does the row as iozone 3.489 does it: see the package's comment for what differs.
func (w *row) compat(ctx context.Context) error {
	syncAll()
	syncAll()
	if err := w.sanity(); err != nil {
		return err
	}
	steps := []struct {
		ops []Op
		do  func(o Op) error
	}{
		{[]Op{Write, Rewrite}, w.ioWrite},
		{[]Op{Read, Reread}, w.ioRead},
		{[]Op{RandRead, RandWrite}, w.ioRandom},
		{[]Op{BkwdRead}, w.ioBackward},
		{[]Op{RecRewrite}, w.ioRecord},
		{[]Op{StrideRead}, w.ioStride},
		{[]Op{Fwrite, Frewrite}, w.ioFwrite},
		{[]Op{Fread, Freread}, w.ioFread},
	}
	for _, s := range steps {
		for _, o := range s.ops {
			if !w.asked(o) {
				continue
			}
			if !w.there && o != Write && o != Fwrite {
				// iozone refuses to read what it has not written.
				if err := w.fill(ctx); err != nil {
					return err
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.do(o); err != nil {
				return w.failed(o, err)
			}
		}
	}
	return nil
}

func (w *row) asked(o Op) bool {
	for _, a := range w.Ops {
		if a == o {
			return true
		}
	}
	return false
}

// sanity makes an empty file and removes it, to see that it can.
func (w *row) sanity() error {
	h, err := file.Open(w.path, file.Mode{Write: true, Create: true})
	if err != nil {
		return err
	}
	if err := errors.Join(h.Truncate(0), h.Close()); err != nil {
		return file.Explain("empty", w.path, err)
	}
	return w.close()
}

// timedCompat opens the file, flushes it unless the operation leaves that out, and times body with the flush and the
// close that were asked for; the rest of both follows untimed.
func (w *row) timedCompat(o Op, m file.Mode, flush bool, before, body func(h *file.Handle) error) (err error) {
	m.Direct = w.Direct && !columns[o].stdio
	h, err := file.Open(w.path, m)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, h.Close())
		}
	}()
	if flush {
		if err := h.Sync(); err != nil {
			return file.Explain("flush", w.path, err)
		}
	}
	if before != nil {
		if err := before(h); err != nil {
			return err
		}
	}
	start := time.Now()
	err = body(h)
	if err == nil && w.Fsync && o != Fread && o != Freread {
		err = h.Sync()
	}
	if err == nil && w.Close {
		closed, err = true, h.Close()
	}
	took := time.Since(start)
	if err != nil {
		return err
	}
	w.keep(o, w.n, took)
	w.finished(o, true)
	if w.flushy != nil {
		if err := w.flushy.flush(); err != nil {
			return err
		}
	}
	if closed || o == Fread || o == Freread {
		return nil
	}
	return h.Sync()
}

func (w *row) ioWrite(o Op) error {
	if o == Write {
		h, err := file.Open(w.path, file.Mode{Write: true, Create: true})
		if err != nil {
			return err
		}
		if err := h.Close(); err != nil {
			return err
		}
	}
	w.gen++
	return w.timedCompat(o, file.Mode{Write: true}, true, nil, func(h *file.Handle) error {
		return w.onward(h, true)
	})
}

// cursor moves one record after another through a file's own position. It is a value for a loop's stack, with a copy of
// the handle in it: where the kernel forgets the processor's address cache at each call (a guest without hardware help),
// every page that a loop touches costs as much as the lookup of it, about 30 ns.
type cursor struct {
	h     file.Handle
	p     []byte
	data  *payload // nil when each record is the same
	gen   uint64
	write bool
}

func (w *row) cursor(h *file.Handle, write bool) cursor {
	c := cursor{h: *h, p: w.data.in, gen: w.gen, write: write}
	if w.data.content != nil {
		c.data = w.data
	}
	return c
}

func (c *cursor) next(r int64) error {
	p, op := c.p, "read"
	var n int
	var err error
	if c.write {
		op = "write"
		if c.data != nil {
			p = c.data.record(r, c.gen)
		}
		n, err = c.h.Write(p)
	} else {
		n, err = c.h.Read(p)
	}
	if err != nil || n != len(p) {
		return &trouble{op, r, n, err}
	}
	return nil
}

func (w *row) ioRead(o Op) error {
	first := func(h *file.Handle) error {
		c := w.cursor(h, false)
		if err := c.next(0); err != nil {
			return err
		}
		_, err := h.Seek(0, io.SeekStart)
		return err
	}
	return w.timedCompat(o, file.Mode{}, true, first, w.readOn)
}

// readOn reads the whole file from where it stands.
func (w *row) readOn(h *file.Handle) error { return w.onward(h, false) }

// onward moves n records from where the file stands.
func (w *row) onward(h *file.Handle, write bool) error {
	c := w.cursor(h, write)
	for r := range w.n {
		if err := c.next(r); err != nil {
			return err
		}
	}
	return nil
}

func (w *row) ioRandom(o Op) error {
	if w.permutation == nil {
		w.permutation = Permutation(w.n)
	}
	if o == RandWrite {
		w.gen++
	}
	return w.timedCompat(o, file.Mode{Write: true}, false, nil, func(h *file.Handle) error {
		c, rec := w.cursor(h, o == RandWrite), w.Rec
		for _, r := range w.permutation {
			if _, err := c.h.Seek(r*rec, io.SeekStart); err != nil {
				return err
			}
			if err := c.next(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// ioBackward reads backwards twice, of which iozone tells the first.
func (w *row) ioBackward(o Op) error {
	body := func(h *file.Handle) error {
		c, n, rec := w.cursor(h, false), w.n, w.Rec
		if _, err := c.h.Seek(-rec, io.SeekEnd); err != nil {
			return err
		}
		for r := range n {
			if err := c.next(n - 1 - r); err != nil {
				return err
			}
			// The last one would go before the beginning, and fails.
			if _, err := c.h.Seek(-2*rec, io.SeekCurrent); err != nil && r != n-1 {
				return err
			}
		}
		return nil
	}
	if err := w.timedCompat(o, file.Mode{}, true, nil, body); err != nil {
		return err
	}
	told := w.cells[o]
	err := w.timedCompat(o, file.Mode{}, true, nil, body)
	w.cells[o] = told
	return err
}

func (w *row) ioRecord(o Op) error {
	w.gen++
	return w.timedCompat(o, file.Mode{Write: true}, true, nil, func(h *file.Handle) error {
		c := w.cursor(h, true)
		for range w.n {
			if err := c.next(0); err != nil {
				return err
			}
			if _, err := c.h.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *row) ioStride(o Op) error {
	return w.timedCompat(o, file.Mode{}, true, nil, func(h *file.Handle) error {
		c, s, rec := w.cursor(h, false), strided{n: w.n}, w.Rec
		for range s.n {
			if err := c.next(s.at); err != nil {
				return err
			}
			s.at = s.jump()
			if _, err := c.h.Seek(s.at*rec, io.SeekStart); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *row) ioFwrite(o Op) error {
	// An existing file is opened for update, a missing one made: under -a this overwrites in place.
	fresh := !w.there && o == Fwrite
	w.gen++
	s := w.stdioOn(nil)
	w.flushy = s
	defer func() { w.flushy = nil }()
	// What stdio still holds at the end goes out with the flush or the close, inside the time only when that is.
	return w.timedCompat(o, file.Mode{Write: true, Create: fresh}, !fresh, nil, func(h *file.Handle) error {
		s.h = h
		for r := range w.n {
			if err := s.put(w.data.record(r, w.gen)); err != nil {
				return &trouble{"fwrite", r, 0, err}
			}
		}
		if w.Fsync || w.Close {
			return s.flush()
		}
		return nil
	})
}

// ioFread opens the file a second time to flush it, as iozone does.
func (w *row) ioFread(o Op) error {
	return w.timedCompat(o, file.Mode{}, false, func(*file.Handle) error {
		h, err := file.Open(w.path, file.Mode{})
		if err != nil {
			return err
		}
		return errors.Join(h.Sync(), h.Close())
	}, w.readOn)
}
