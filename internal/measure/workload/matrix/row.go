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
)

// Cell is what an operation of a row gave.
type Cell struct {
	Op      Op
	Mark    Mark      // why there is no figure; empty when there is one
	Why     string    // what was seen, for a mark that was not known beforehand
	Samples []float64 // KiB/s
	Passes  int64
	Bytes   int64         // moved in all
	Time    time.Duration // of all passes, timed parts only
}

// Rate returns the throughput over all passes in KiB/s, 0 without a figure.
func (c *Cell) Rate() float64 {
	if c.Time <= 0 || c.Mark != "" {
		return 0
	}
	return float64(c.Bytes) / 1024 / c.Time.Seconds()
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
	// verified says that nothing was written since the file was compared with what was.
	verified bool
}

// sample is one that is not complete yet: small files need several passes.
type sample struct {
	passes, bytes int64
	time          time.Duration
}

// maxKept bounds the samples of a cell.
const maxKept = 4096

// newRow makes a row over the file "row" in a directory that belongs to it, with a payload that was made before or nil.
func newRow(c Config, dir string, have *payload) (*row, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := fileio.CheckRoom(dir, c.space(), 2); err != nil {
		return nil, err
	}
	w := &row{Config: c, path: filepath.Join(dir, "row"), n: c.Records(), shape: c.shape(), data: have}
	if w.data == nil {
		w.data = newPayload(c.Data, c.Rec, c.Seed, c.Pages)
	}
	w.gen = uint64(time.Now().UnixNano())
	for _, o := range c.Ops {
		w.cells[o] = Cell{Op: o, Mark: c.marked(o)}
		if w.cells[o].Mark != "" {
			w.cells[o].Why = w.cells[o].Mark.Text()
		}
	}
	return w, nil
}

// results returns the cells of the operations asked for, in order.
func (w *row) results() []Cell {
	var cells []Cell
	for _, o := range w.Ops {
		cells = append(cells, w.cells[o])
	}
	return cells
}

// close removes the file.
func (w *row) close() error {
	if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fileio.Explain("remove", w.path, err)
	}
	return nil
}

// Series measures rows one after another, all with the same data and seed, in the same memory: making data of 16 MiB for
// each row would take longer than many a row. It is not safe for concurrent use. The zero value is ready.
type Series struct {
	// MaxRec is the largest record to come, in bytes, so that memory for all is made at once; 0 when it is not known.
	MaxRec int64
	have   *payload
}

// maxHeld bounds the records whose payload a series keeps, in bytes: the largest of the automatic mode.
const maxHeld = 16 << 20

// payload returns the payload of a row.
func (s *Series) payload(c *Config) *payload {
	if s.have == nil || int64(len(s.have.in)) < c.Rec {
		s.have = newPayload(c.Data, max(c.Rec, min(s.MaxRec, maxHeld)), c.Seed, c.Pages)
	}
	p := s.have.resized(c.Rec)
	if p == nil {
		p = newPayload(c.Data, c.Rec, c.Seed, c.Pages)
	}
	if len(s.have.in) > maxHeld {
		s.have = nil
	}
	return p
}

// Measure does a row by itself: see Series.Measure.
func Measure(ctx context.Context, c Config, dir string) ([]Cell, error) {
	var s Series
	return s.Measure(ctx, c, dir)
}

// Measure does a row in a directory that belongs to the caller alone, operation by operation, as often as the samples
// need, and verifies the file at the end. The file is removed. A refusal of direct I/O is a mark on the cell, not an
// error; an error ends the row.
func (s *Series) Measure(ctx context.Context, c Config, dir string) (cells []Cell, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	w, err := newRow(c, dir, s.payload(&c))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var thread fileio.Thread
	err = thread.Run(func(bool) error {
		if c.Compat {
			if err := w.compat(ctx); err != nil {
				return err
			}
			return w.verify(ctx)
		}
		ops := w.meaningful()
		reads := len(ops) // where nothing is written any more
		for reads > 0 && !columns[ops[reads-1]].writes {
			reads--
		}
		for i, o := range ops {
			if i == reads && !w.Cold && !w.Direct {
				if err := w.settleAndVerify(ctx); err != nil {
					return err
				}
			}
			if err := w.operate(ctx, o, w.passes()); err != nil {
				return err
			}
		}
		if w.verified {
			return nil
		}
		return w.verify(ctx)
	})
	return w.results(), err
}

// settleAndVerify does both at once: the one waits for the device, the other uses the processor. It brings the file into the
// page cache, where reads that are not cold expect it.
func (w *row) settleAndVerify(ctx context.Context) error {
	verified := make(chan error, 1)
	go func() { verified <- w.verify(ctx) }()
	err := errors.Join(w.settle(), <-verified)
	w.verified = err == nil && w.there
	return err
}

// operate does an operation's passes, given as how many segments of each, and turns a refusal into a mark.
func (w *row) operate(ctx context.Context, o Op, passes []int64) error {
	cell := &w.cells[o]
	if cell.Mark != "" {
		return nil
	}
	if o != Write && !w.there { // nobody wrote it: not asked for, or refused
		if err := w.fill(ctx); err != nil {
			return err
		}
	}
	if err := w.settle(); err != nil {
		return err
	}
	for _, part := range passes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.pass(ctx, o, part); err != nil {
			f, ok := errors.AsType[*record.Failure](err)
			if !ok || f.Kind != "refused" {
				return err
			}
			*cell = Cell{Op: o, Mark: Refused, Why: f.Message}
		}
		if cell.Mark != "" {
			return nil
		}
	}
	w.judge(cell)
	return nil
}

// judge marks a cell whose samples are too short for the clock.
func (w *row) judge(cell *Cell) {
	if w.Compat || cell.Mark != "" || len(cell.Samples) == 0 {
		return
	}
	each := cell.Time / time.Duration(len(cell.Samples))
	if least := ticksNeeded * clockStep(); each < least {
		why := fmt.Sprintf("a sample takes %v and the clock needs at least %v to be right within one per cent", each, least)
		*cell = Cell{Op: cell.Op, Mark: Ticks, Why: why}
	}
}

// ticksNeeded is how many steps of the clock a sample must have: one per cent of error.
const ticksNeeded = 100

// clockStep returns the least time that the clock tells apart, or that looking at it takes.
func clockStep() time.Duration {
	least := time.Hour
	for range 20 {
		t := time.Now()
		d := time.Since(t)
		for d <= 0 {
			d = time.Since(t)
		}
		least = min(least, d)
	}
	return least
}

// prepare makes the file when the operations do not.
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
	w.first, w.whole, w.there, w.verified = w.gen, w.gen, true, false
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
			err = fmt.Errorf("record %d has %d of %d bytes", r, n, w.Rec)
		} else {
			err = w.data.verify(r, gen)
		}
		if err != nil {
			return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify %s: %v; the storage did not give back what was written to it", w.path, err)}
		}
	}
	return nil
}

// verifyPart is how much of a large record is read at once to be compared: it stays in the processor's cache, which a
// record of 16 MiB does not, and halves the time.
const verifyPart = 128 << 10

// sameInParts tells whether a large record of the file is what generation gen wrote. It does not say what is wrong.
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
