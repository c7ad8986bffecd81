package matrix

import (
	"context"
	"errors"
	"io"

	"tare/internal/measure/fileio"
	"tare/internal/sys/clock"
)

// How iozone opens its file: for reading; for writing in place; and as it does where the file might not be there yet.
// It makes the file with creat(2).
var (
	ioReads   = fileio.Mode{Atime: true}
	ioUpdates = fileio.Mode{Write: true}
	ioFinds   = fileio.Mode{Write: true, Create: true, Keep: true}
	ioCreates = fileio.Mode{Write: true, Only: true, Create: true}
)

// compat does the row as iozone 3.489 does it; the package's comment lists the differences.
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
				// iozone refuses to read a file that it has not written.
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

// sanity makes an empty file and removes it, to check that this works.
func (w *row) sanity() error {
	h, err := fileio.Open(w.path, fileio.Mode{Write: true, Only: true, Create: true, Keep: true})
	if err != nil {
		return err
	}
	if err := errors.Join(h.Truncate(0), h.Close()); err != nil {
		return fileio.Explain("empty", w.path, err)
	}
	return w.close()
}

// timedCompat opens the file, flushes it unless the operation skips that, and times body, together with the flush and
// the close if they are requested. Otherwise flush and close follow untimed.
func (w *row) timedCompat(o Op, m fileio.Mode, flush bool, before, body func(h *fileio.Handle) error) (err error) {
	m.Direct = w.Direct && !columns[o].stdio
	h, err := fileio.Open(w.path, m)
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
			return fileio.Explain("flush", w.path, err)
		}
	}
	if before != nil {
		if err := before(h); err != nil {
			return err
		}
	}
	start := clock.Now()
	err = body(h)
	if err == nil && w.Fsync && o != Fread && o != Freread {
		err = h.Sync()
	}
	if err == nil && w.Close {
		closed, err = true, h.Close()
	}
	took := clock.Since(start)
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
		h, err := fileio.Open(w.path, ioCreates)
		if err != nil {
			return err
		}
		if err := h.Close(); err != nil {
			return err
		}
	}
	w.gen++
	return w.timedCompat(o, ioUpdates, true, nil, func(h *fileio.Handle) error {
		return w.onward(h, true)
	})
}

// course is the order in which an operation visits a file: the seek before each record, and the record.
type course struct {
	write   bool
	n       int64
	offsets []int64 // nil for none, one for all, or one for each
	whence  int
	record  func(i int64) int64
}

// follow takes n records as c says.
func (w *row) follow(h *fileio.Handle, c course) error {
	b := fileio.Burst{Write: c.write, Buf: w.data.in, Offsets: c.offsets, Whence: c.whence}
	if !c.write || w.data.content == nil {
		done, got, err := b.Do(h, int(c.n))
		return c.trouble(int64(done), got, err)
	}
	for i := range c.n {
		if len(c.offsets) > 0 {
			if _, err := h.Seek(c.offsets[min(i, int64(len(c.offsets))-1)], c.whence); err != nil {
				return err
			}
		}
		b := fileio.Burst{Write: true, Buf: w.data.record(c.record(i), w.gen)}
		if done, got, err := b.Do(h, 1); done == 0 {
			return c.trouble(i, got, err)
		}
	}
	return nil
}

// trouble reports the record at which a course failed, or nil at its end.
func (c *course) trouble(done int64, got int, err error) error {
	if done == c.n {
		return nil
	}
	op := "read"
	if c.write {
		op = "write"
	}
	return &trouble{op, c.record(done), got, err}
}

func inOrder(i int64) int64 { return i }

// one is the course of a single record, at the file's position.
func one(write bool, r int64) course {
	return course{write: write, n: 1, record: func(int64) int64 { return r }}
}

func (w *row) ioRead(o Op) error {
	first := func(h *fileio.Handle) error {
		if err := w.follow(h, one(false, 0)); err != nil {
			return err
		}
		_, err := h.Seek(0, io.SeekStart)
		return err
	}
	return w.timedCompat(o, ioReads, true, first, w.readOn)
}

// readOn reads the whole file from its position.
func (w *row) readOn(h *fileio.Handle) error { return w.onward(h, false) }

// onward transfers n records from the file's position.
func (w *row) onward(h *fileio.Handle, write bool) error {
	return w.follow(h, course{write: write, n: w.n, record: inOrder})
}

func (w *row) ioRandom(o Op) error {
	if w.permutation == nil {
		w.permutation = Permutation(w.n)
	}
	if o == RandWrite {
		w.gen++
	}
	c := course{write: o == RandWrite, n: w.n, offsets: w.offsets(w.permutation), whence: io.SeekStart,
		record: func(i int64) int64 { return w.permutation[i] }}
	return w.timedCompat(o, ioFinds, false, nil, func(h *fileio.Handle) error { return w.follow(h, c) })
}

// offsets are the offsets of records.
func (w *row) offsets(records []int64) []int64 {
	offsets := make([]int64, len(records))
	for i, r := range records {
		offsets[i] = r * w.Rec
	}
	return offsets
}

// ioBackward reads backwards twice; iozone reports the first pass.
func (w *row) ioBackward(o Op) error {
	n, back := w.n, -2*w.Rec
	c := course{n: n - 1, offsets: []int64{back}, whence: io.SeekCurrent,
		record: func(i int64) int64 { return n - 2 - i }}
	body := func(h *fileio.Handle) error {
		if _, err := h.Seek(-w.Rec, io.SeekEnd); err != nil {
			return err
		}
		if err := w.follow(h, one(false, n-1)); err != nil {
			return err
		}
		if err := w.follow(h, c); err != nil {
			return err
		}
		// The last seek would go before the beginning, and fails.
		_, _ = h.Seek(back, io.SeekCurrent)
		return nil
	}
	if err := w.timedCompat(o, ioReads, true, nil, body); err != nil {
		return err
	}
	told := w.cells[o]
	err := w.timedCompat(o, ioReads, true, nil, body)
	w.cells[o] = told
	return err
}

func (w *row) ioRecord(o Op) error {
	w.gen++
	c := course{write: true, n: w.n - 1, offsets: []int64{0}, whence: io.SeekStart,
		record: func(int64) int64 { return 0 }}
	return w.timedCompat(o, ioFinds, true, nil, func(h *fileio.Handle) error {
		return w.goAndReturn(h, one(true, 0), c, 0)
	})
}

func (w *row) ioStride(o Op) error {
	s := strided{n: w.n}
	records := make([]int64, w.n) // offsets of the records after the first, then of the last seek
	for i := range records {
		s.at = s.jump()
		records[i] = s.at
	}
	offsets := w.offsets(records)
	c := course{n: w.n - 1, offsets: offsets[:w.n-1], whence: io.SeekStart,
		record: func(i int64) int64 { return records[i] }}
	return w.timedCompat(o, ioReads, true, nil, func(h *fileio.Handle) error {
		return w.goAndReturn(h, one(false, 0), c, offsets[w.n-1])
	})
}

// goAndReturn does a first record and a course after it, and ends with a seek.
func (w *row) goAndReturn(h *fileio.Handle, first, c course, last int64) error {
	if err := w.follow(h, first); err != nil {
		return err
	}
	if err := w.follow(h, c); err != nil {
		return err
	}
	_, err := h.Seek(last, io.SeekStart)
	return err
}

func (w *row) ioFwrite(o Op) error {
	// An existing file is opened for update, a missing one made: under -a this overwrites in place.
	fresh := !w.there && o == Fwrite
	w.gen++
	s := w.stdioOn(nil)
	w.flushy = s
	defer func() { w.flushy = nil }()
	// Data still in stdio's buffer at the end is written by the flush or the close, and timed only if that is timed.
	return w.timedCompat(o, fileio.Mode{Write: true, Create: fresh}, !fresh, nil, func(h *fileio.Handle) error {
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
	return w.timedCompat(o, ioReads, false, func(*fileio.Handle) error {
		h, err := fileio.Open(w.path, ioReads)
		if err != nil {
			return err
		}
		return errors.Join(h.Sync(), h.Close())
	}, w.readOn)
}
