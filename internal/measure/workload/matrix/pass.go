package matrix

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/record"
	"tare/internal/sys/clock"
)

// pass does one pass of an operation: it prepares the file, times the segments, and keeps the samples.
func (w *row) pass(ctx context.Context, o Op) (err error) {
	if w.Cold && !columns[o].writes && o != Reread && o != Freread {
		if cold, err := w.dropCache(o); err != nil || !cold {
			return err
		}
	}
	if o == Write {
		// A new file each time. A truncated file would have to wait for its old pages, which ext4 begins to write when
		// such a file is closed.
		if err := w.close(); err != nil {
			return err
		}
	}
	h, err := fileio.Open(w.path, fileio.Mode{Write: columns[o].writes || w.Fsync, Create: o == Write,
		Direct: w.Direct && !columns[o].stdio})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, h.Close())
		}
	}()
	w.begin(o, h)
	segments := max(1, w.shape.segments)
	for i := range segments {
		from, to := w.n*i/segments, w.n*(i+1)/segments
		start := clock.Now()
		if err = w.move(ctx, o, h, to-from); err == nil && i == segments-1 {
			closed, err = w.end(h)
		}
		took := clock.Since(start)
		if err != nil {
			return w.failed(o, err)
		}
		w.keep(o, to-from, took)
	}
	w.finished(o)
	return nil
}

// begin makes the operation's order and, for stdio, its buffer.
func (w *row) begin(o Op, h *fileio.Handle) {
	w.timed = w.orders[o]
	if w.timed == nil {
		w.timed = orderOf(o, w.n, w.Seed)
		w.orders[o] = w.timed
	}
	w.flushy = nil
	if columns[o].writes {
		w.gen++
		w.dirty = true
	}
	if o == Fwrite || o == Frewrite {
		w.flushy = w.stdioOn(h)
	}
}

// stdioOn makes the buffer of a file that is written through stdio.
func (w *row) stdioOn(h *fileio.Handle) *stdio {
	return &stdio{h: h, buf: w.data.stdio()}
}

// chunk is the number of records between two checks of the context.
const chunk = 1024

// move does the next n records of the operation.
func (w *row) move(ctx context.Context, o Op, h *fileio.Handle, n int64) error {
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		k := min(n, chunk)
		var err error
		switch {
		case w.flushy != nil:
			err = w.put(k)
		case columns[o].writes:
			err = w.write(h, k)
		case columns[o].stdio:
			err = w.get(h, k)
		default:
			err = w.read(h, k)
		}
		if err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func (w *row) write(h *fileio.Handle, k int64) error {
	order, data, rec, gen := w.timed, w.data, w.Rec, w.gen
	for range k {
		r := order.Next()
		n, err := h.WriteAt(data.record(r, gen), r*rec)
		if err != nil || int64(n) != rec {
			return &trouble{"write", r, n, err}
		}
	}
	return nil
}

func (w *row) read(h *fileio.Handle, k int64) error {
	order, data, rec, stamped := w.timed, w.data, w.Rec, w.data.stamped()
	for range k {
		r := order.Next()
		n, err := h.ReadAt(data.in, r*rec)
		if err != nil || int64(n) != rec {
			return &trouble{"read", r, n, err}
		}
		if stamped && data.numberOf() != r {
			return w.wrong(r)
		}
	}
	return nil
}

// put is fwrite.
func (w *row) put(k int64) error {
	order, data, gen, out := w.timed, w.data, w.gen, w.flushy
	for range k {
		r := order.Next()
		if err := out.put(data.record(r, gen)); err != nil {
			return &trouble{"fwrite", r, 0, err}
		}
	}
	return nil
}

// get is fread.
func (w *row) get(h *fileio.Handle, k int64) error {
	order, data, rec, stamped := w.timed, w.data, w.Rec, w.data.stamped()
	for range k {
		r := order.Next()
		n, err := h.Read(data.in)
		if err != nil || int64(n) != rec {
			return &trouble{"fread", r, n, err}
		}
		if stamped && data.numberOf() != r {
			return w.wrong(r)
		}
	}
	return nil
}

// end is the timed end of a pass: it writes stdio's buffer, then flushes and closes the file if that is requested.
func (w *row) end(h *fileio.Handle) (closed bool, err error) {
	if w.flushy != nil {
		if err := w.flushy.flush(); err != nil {
			return false, err
		}
	}
	if w.Fsync {
		if err := h.Sync(); err != nil {
			return false, fileio.Explain("flush", w.path, err)
		}
		w.dirty = false
	}
	if w.Close {
		return true, h.Close()
	}
	return false, nil
}

// keep adds a time to the sample that is open, and closes it when it is complete.
func (w *row) keep(o Op, records int64, took time.Duration) {
	cell := &w.cells[o]
	cell.Time += took
	w.open[o].time += took
	w.open[o].bytes += records * w.Rec
	if w.shape.segments == 0 {
		if w.open[o].passes++; w.open[o].passes < w.shape.group {
			return
		}
	}
	if s := w.open[o]; len(cell.Samples) < maxKept && s.time > 0 {
		cell.Samples = append(cell.Samples, float64(s.bytes)/1024/s.time.Seconds())
	}
	w.open[o] = sample{}
}

// finished records the file's state after a pass.
func (w *row) finished(o Op) {
	if !columns[o].writes {
		return
	}
	w.first, w.there = w.gen, true
	if o != RecRewrite {
		w.whole = w.gen
	}
}

// settle flushes the file, untimed, so that no operation pays for the dirty pages of another.
func (w *row) settle() error {
	if !w.dirty {
		return nil
	}
	h, err := fileio.Open(w.path, fileio.Mode{Write: true})
	if err != nil {
		return err
	}
	w.dirty = false
	if err := errors.Join(h.Sync(), h.Close()); err != nil {
		return fileio.Explain("flush", w.path, err)
	}
	return nil
}

// residue is the share of a file that may be in the cache at a cold read.
const residue = 0.01

// dropCache drops the file from the page cache and asks the kernel whether it is gone. If not, the cell is marked.
func (w *row) dropCache(o Op) (cold bool, err error) {
	share, err := drop(w.path)
	if err == nil && share > residue {
		w.cells[o] = Cell{Op: o, Mark: NotCold,
			Why: fmt.Sprintf("%.0f %% of the file is still in the cache after it was dropped", 100*share)}
	}
	return err == nil && share <= residue, err
}

// drop flushes a file, asks the kernel to drop its pages, and returns the share that is still cached. If the system
// cannot do that or does not report it, the error is a *record.Failure of kind "refused".
func drop(path string) (share float64, err error) {
	h, err := fileio.Open(path, fileio.Mode{Write: true})
	if err != nil {
		return 0, err
	}
	if err := h.Sync(); err != nil { // dirty pages are not dropped
		return 0, errors.Join(fileio.Explain("flush", path, err), h.Close())
	}
	err = errors.Join(h.DropCache(), h.Close())
	if err == nil {
		share, err = fileio.Resident(path)
	}
	if err != nil {
		return 0, &record.Failure{Kind: "refused",
			Message: fmt.Sprintf("drop %s from the cache and check that it is gone: %v; use cache=warm", path, err)}
	}
	return share, nil
}

// trouble is a call on a record that failed or transferred too little.
type trouble struct {
	op  string
	rec int64
	got int
	err error
}

func (t *trouble) Error() string {
	if t.err == nil {
		return fmt.Sprintf("%s record %d: only %d bytes", t.op, t.rec, t.got)
	}
	return fmt.Sprintf("%s record %d: %v", t.op, t.rec, t.err)
}

// failed adds the remedy to an error of a pass.
func (w *row) failed(o Op, err error) error {
	t, ok := errors.AsType[*trouble](err)
	if !ok {
		return err
	}
	if t.err == nil {
		return fmt.Errorf("%s: %s record %d of %s: %d of %d bytes", o, t.op, t.rec, w.path, t.got, w.Rec)
	}
	if w.Direct && fileio.IsRefusal(t.err) {
		return fileio.Refused(w.path, int(w.Rec), t.err)
	}
	return fileio.Explain(fmt.Sprintf("%s: %s record %d of", o, t.op, t.rec), w.path, t.err)
}

func (w *row) wrong(r int64) error {
	return &record.Failure{Kind: "measure",
		Message: fmt.Sprintf("record %d of %s was read back as record %d: the storage returned other data than was "+
			"written", r, w.path, w.data.numberOf())}
}
