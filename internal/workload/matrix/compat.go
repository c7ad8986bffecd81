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
	w.finished(o)
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
		for r := range w.n {
			if err := w.writeNext(h, r); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *row) writeNext(h *file.Handle, r int64) error {
	n, err := h.Write(w.data.record(r, w.gen))
	if err != nil || int64(n) != w.Rec {
		return &trouble{"write", r, n, err}
	}
	return nil
}

func (w *row) readNext(h *file.Handle, r int64) error {
	n, err := h.Read(w.data.in)
	if err != nil || int64(n) != w.Rec {
		return &trouble{"read", r, n, err}
	}
	return nil
}

func (w *row) ioRead(o Op) error {
	first := func(h *file.Handle) error {
		if err := w.readNext(h, 0); err != nil {
			return err
		}
		_, err := h.Seek(0, io.SeekStart)
		return err
	}
	return w.timedCompat(o, file.Mode{}, true, first, w.readOn)
}

// readOn reads the whole file from where it stands.
func (w *row) readOn(h *file.Handle) error {
	for r := range w.n {
		if err := w.readNext(h, r); err != nil {
			return err
		}
	}
	return nil
}

func (w *row) ioRandom(o Op) error {
	if w.permutation == nil {
		w.permutation = Permutation(w.n)
	}
	move := w.readNext
	if o == RandWrite {
		move = w.writeNext
		w.gen++
	}
	return w.timedCompat(o, file.Mode{Write: true}, false, nil, func(h *file.Handle) error {
		for _, r := range w.permutation {
			if _, err := h.Seek(r*w.Rec, io.SeekStart); err != nil {
				return err
			}
			if err := move(h, r); err != nil {
				return err
			}
		}
		return nil
	})
}

// ioBackward reads backwards twice, of which iozone tells the first.
func (w *row) ioBackward(o Op) error {
	body := func(h *file.Handle) error {
		if _, err := h.Seek(-w.Rec, io.SeekEnd); err != nil {
			return err
		}
		for r := range w.n {
			if err := w.readNext(h, w.n-1-r); err != nil {
				return err
			}
			// The last one would go before the beginning, and fails.
			if _, err := h.Seek(-2*w.Rec, io.SeekCurrent); err != nil && r != w.n-1 {
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
		for range w.n {
			if err := w.writeNext(h, 0); err != nil {
				return err
			}
			if _, err := h.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *row) ioStride(o Op) error {
	return w.timedCompat(o, file.Mode{}, true, nil, func(h *file.Handle) error {
		s := strided{n: w.n}
		for range w.n {
			if err := w.readNext(h, s.at); err != nil {
				return err
			}
			s.at = s.jump()
			if _, err := h.Seek(s.at*w.Rec, io.SeekStart); err != nil {
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
