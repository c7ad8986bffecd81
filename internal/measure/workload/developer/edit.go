package developer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/clock"
	"tare/internal/sys/histogram"
)

// The ways an editor saves.
const (
	saveRename  = "rename"
	saveInplace = "inplace"
)

// editedFiles is the number of files that are edited in turn.
const editedFiles = 64

// growths is the number of different sizes that edits give a file, so that an outdated size is noticed.
const growths = 16

// edit is one trial of dev.edit.
type edit struct {
	site
	how        string
	size       int
	dependants int
	fsync      bool
	names      []name
	temporary  []name
	data, in   []byte
	status     status
	edits      uint64 // number of the last edit; the first of file f is number f and made by Setup
	stale      int64  // stats by dependants that returned another size than was just written
	took       *histogram.Histogram
	samples    []float64 // ns
}

// Setup makes the files.
func (e *edit) Setup(_ context.Context, b *workload.Bench) error {
	if err := e.fresh(b, "edit", editedFiles*2*int64(e.size+8192), 2*editedFiles+1); err != nil {
		return err
	}
	e.data, e.in = fileio.Aligned(e.size+growths), fileio.Aligned(e.size+growths+1)
	fileio.FillRandom(e.data, b.Seed)
	clear(e.in)
	for i := range editedFiles {
		at := fmt.Sprintf("%s_%s%02d.c", stems[i%len(stems)], stems[(i/len(stems)+i)%len(stems)], i)
		if err := e.write(at, e.version(uint64(i))); err != nil {
			return err
		}
		e.names = append(e.names, e.root.name(at))
		e.temporary = append(e.temporary, e.root.name("."+at+".tmp"))
	}
	if err := settle(e.path); err != nil {
		return fileio.Explain("flush", e.path, err)
	}
	e.edits = editedFiles - 1
	b.Check("data", fileio.Digest(e.version(0)))
	e.took = &histogram.Histogram{}
	e.samples = make([]float64, 0, workload.MaxSamples)
	return nil
}

// version is the content of a file after edit number n, valid until the next call.
func (e *edit) version(n uint64) []byte {
	binary.LittleEndian.PutUint64(e.data, n)
	return e.data[:e.size+int(n/editedFiles%growths)]
}

// Measure does b.Work edits and takes the time of each.
func (e *edit) Measure(ctx context.Context, b *workload.Bench) error {
	leave, err := e.alone()
	if err != nil {
		return err
	}
	defer leave()
	stride := (b.Work + workload.MaxSamples - 1) / workload.MaxSamples
	last := clock.Now()
	for i := range b.Work {
		if i%256 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		e.edits++
		if err := e.once(int(e.edits%editedFiles), e.version(e.edits)); err != nil {
			return err
		}
		now := clock.Now()
		ns := now.Sub(last).Nanoseconds()
		last = now
		e.took.Record(ns)
		if i%stride == 0 && len(e.samples) < cap(e.samples) {
			e.samples = append(e.samples, float64(ns))
		}
	}
	return nil
}

// once saves file f, stats it for each dependant, and reads it back.
func (e *edit) once(f int, p []byte) error {
	if err := e.save(f, p); err != nil {
		return fileio.Explain(fmt.Sprintf("save file %d (%s) below", f, e.how), e.path, err)
	}
	for range e.dependants {
		if err := e.root.lstat(e.names[f], &e.status); err != nil {
			return fileio.Explain(fmt.Sprintf("stat file %d below", f), e.path, err)
		}
		if e.status.size() != int64(len(p)) {
			e.stale++
		}
	}
	h, err := e.root.open(e.names[f], forReading)
	if err != nil {
		return fileio.Explain(fmt.Sprintf("open file %d below", f), e.path, err)
	}
	n, err := h.read(e.in)
	if c := h.close(); err == nil {
		err = c
	}
	if err != nil {
		return fileio.Explain(fmt.Sprintf("read file %d below", f), e.path, err)
	}
	if n != len(p) || binary.LittleEndian.Uint64(e.in) != binary.LittleEndian.Uint64(p) {
		return &record.Failure{Kind: "measure",
			Message: fmt.Sprintf("reading file %d below %s returned %d bytes of edit %d just after %d bytes of edit "+
				"%d were written: readers get old content here",
				f, e.path, n, binary.LittleEndian.Uint64(e.in), len(p), binary.LittleEndian.Uint64(p))}
	}
	return nil
}

func (e *edit) save(f int, p []byte) error {
	n, how := e.names[f], emptied
	if e.how == saveRename {
		n, how = e.temporary[f], onlyNew
	}
	h, err := e.root.open(n, how)
	if err != nil {
		return err
	}
	err = h.write(p)
	if err == nil && e.fsync {
		err = h.flush()
	}
	if c := h.close(); err == nil {
		err = c
	}
	if err == nil && e.how == saveRename {
		err = e.root.rename(n, e.names[f])
	}
	return err
}

// Report compares every file with its last edit.
func (e *edit) Report(b *workload.Bench) error {
	if err := e.verify(); err != nil {
		return &record.Failure{Kind: "measure", Message: fmt.Sprintf("verify edited files: %v", err)}
	}
	if e.stale > 0 {
		b.Warn("stale-attributes", fmt.Sprintf("%d of %d stat calls just after a save returned the old size", e.stale,
			(e.edits-editedFiles+1)*uint64(e.dependants)),
			"build tools will miss changes here; check the mount's option for the attribute cache")
	}
	b.Report("edit_ns", float64(b.Elapsed.Nanoseconds())/float64(b.Work))
	b.Report("edit_p50_ns", float64(e.took.Quantile(0.5)))
	b.Report("edit_p99_ns", float64(e.took.Quantile(0.99)))
	b.Sample("edit_ns", e.samples)
	return nil
}

func (e *edit) verify() error {
	list, err := os.ReadDir(e.path)
	if err != nil {
		return err
	}
	if len(list) != editedFiles {
		return fmt.Errorf("%[2]s has %[1]d files, but %[3]d were edited", len(list), e.path, editedFiles)
	}
	seen := map[uint64]bool{}
	for _, d := range list {
		got, err := os.ReadFile(filepath.Join(e.path, d.Name()))
		if err != nil {
			return err
		}
		if len(got) < 8 {
			return errors.New(d.Name() + " is cut short")
		}
		n := binary.LittleEndian.Uint64(got)
		if string(got) != string(e.version(n)) || n > e.edits || n+editedFiles <= e.edits {
			return fmt.Errorf("%s does not contain its last edit", d.Name())
		}
		seen[n] = true
	}
	if len(seen) != editedFiles {
		return errors.New("two files contain the same edit")
	}
	return nil
}

// Cleanup removes the files.
func (e *edit) Cleanup(*workload.Bench) error { return e.remove() }
