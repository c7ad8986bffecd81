package matrix

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/record"
	"tare/internal/sys/clock"
)

// Cell is the result of an operation of a row.
type Cell struct {
	Op      Op
	Mark    Mark          // why there is no figure; empty when there is one
	Why     string        // details of a mark that was not known in advance
	Samples []float64     // KiB/s
	Time    time.Duration // of all passes, timed parts only
}

// row is a row at work. It is not safe for concurrent use.
type row struct {
	Config
	path  string
	n     int64
	data  *payload
	cells [numOps]Cell
	shape shape

	orders [numOps]fileio.Order
	timed  fileio.Order // of the operation at work
	flushy *stdio       // its buffer, for fwrite
	// permutation is the random order with compat.
	permutation []int64
	open        [numOps]sample

	gen   uint64 // of the last pass that wrote
	first uint64 // of record 0
	whole uint64 // of the other records
	there bool   // the file exists in full
	dirty bool   // written since it was flushed
}

// sample is one that is not complete yet: small files need several passes.
type sample struct {
	passes, bytes int64
	time          time.Duration
}

// maxKept bounds the samples of a cell.
const maxKept = 4096

// newRow makes a row over the file "row" in a directory that belongs to it.
func newRow(c Config, dir string) (*row, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := fileio.CheckFreeSpace(dir, c.space(), 2); err != nil {
		return nil, err
	}
	w := &row{Config: c, path: filepath.Join(dir, "row"), n: c.Records(), shape: c.shape(),
		data: newPayload(c.Data, c.Rec, c.Seed, c.Pages)}
	w.gen = uint64(time.Now().UnixNano())
	for _, o := range c.Ops {
		w.cells[o] = Cell{Op: o, Mark: c.marked(o)}
		if w.cells[o].Mark != "" {
			w.cells[o].Why = w.cells[o].Mark.Text()
		}
	}
	return w, nil
}

// close removes the file.
func (w *row) close() error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fileio.Explain("remove", w.path, err)
	}
	return nil
}

// operate does a pass of an operation and turns a refusal into a mark.
func (w *row) operate(ctx context.Context, o Op) error {
	cell := &w.cells[o]
	if cell.Mark != "" {
		return nil
	}
	if o != Write && !w.there { // not written: not requested, or refused
		if err := w.fill(ctx); err != nil {
			return err
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.pass(ctx, o); err != nil {
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != "refused" {
			return err
		}
		*cell = Cell{Op: o, Mark: Refused, Why: f.Message}
	}
	return nil
}

// judge marks a cell whose samples are too short for the clock.
func (w *row) judge(cell *Cell) {
	if w.Compat || cell.Mark != "" || len(cell.Samples) == 0 {
		return
	}
	each := cell.Time / time.Duration(len(cell.Samples))
	if least := ticksNeeded * clockStep(); each < least {
		why := fmt.Sprintf("a sample takes %v, but the clock needs at least %v for an error below one per cent", each,
			least)
		*cell = Cell{Op: cell.Op, Mark: Ticks, Why: why}
	}
}

// ticksNeeded is the least number of clock steps of a sample, for an error of one per cent.
const ticksNeeded = 100

// clockStep returns the resolution of the clock, or the time that one reading takes.
func clockStep() time.Duration {
	least := time.Hour
	for range 20 {
		t := clock.Now()
		d := clock.Since(t)
		for d <= 0 {
			d = clock.Since(t)
		}
		least = min(least, d)
	}
	return least
}

// prepare makes the file if the operations do not.
func (w *row) prepare(ctx context.Context) error {
	if w.Ops[0] == Write {
		return nil
	}
	return w.fill(ctx)
}

// fill writes the file, untimed.
func (w *row) fill(ctx context.Context) (err error) {
	h, err := fileio.Open(w.path, fileio.Mode{Write: true, Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	w.gen++
	for r := range w.n {
		if r%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := fileio.WriteFull(h, w.data.record(r, w.gen), r*w.Rec); err != nil {
			return fileio.Explain("write", w.path, err)
		}
	}
	w.first, w.whole, w.there = w.gen, w.gen, true
	if err := h.Sync(); err != nil {
		return fileio.Explain("flush", w.path, err)
	}
	return nil
}

// verify reads the whole file, untimed, and compares it with what was written.
func (w *row) verify(ctx context.Context) (err error) {
	if !w.there {
		return nil
	}
	h, err := fileio.Open(w.path, fileio.Mode{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	for r := range w.n {
		if r%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		gen := w.whole
		if r == 0 {
			gen = w.first
		}
		if w.sameInParts(h, r, gen) {
			continue
		}
		n, err := h.ReadAt(w.data.in, r*w.Rec)
		if err != nil {
			return fileio.Explain("read", w.path, err)
		}
		if int64(n) != w.Rec {
			err = fmt.Errorf("record %d has only %d of %d bytes", r, n, w.Rec)
		} else {
			err = w.data.verify(r, gen)
		}
		if err != nil {
			return &record.Failure{Kind: "measure",
				Message: fmt.Sprintf("verify %s: %v; the storage returned other data than was written", w.path,
					err)}
		}
	}
	return nil
}

// verifyPart is the part of a large record that is read at once to be compared, in bytes: it stays in the processor's
// cache, which a record of 16 MiB does not, and halves the time.
const verifyPart = 128 << 10

// sameInParts tells whether a large record of the file is equal to what generation gen wrote, without details.
func (w *row) sameInParts(h *fileio.Handle, r int64, gen uint64) bool {
	if w.Rec <= verifyPart || w.data.content == nil {
		return false
	}
	want := w.data.record(r, gen)
	for at := int64(0); at < w.Rec; at += verifyPart {
		part := want[at:min(at+verifyPart, w.Rec)]
		got := w.data.in[:len(part)]
		if n, err := h.ReadAt(got, r*w.Rec+at); err != nil || n != len(part) || !bytes.Equal(got, part) {
			return false
		}
	}
	return true
}
