package durability

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"tare/internal/measure/workload"
	"tare/internal/sys/clock"
	"tare/internal/sys/histogram"
	"tare/internal/unit"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	latency := func(name, doc string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "s", Better: unit.Lower, Timed: true, Primary: primary,
			Doc: doc}
	}
	return []workload.Kind{{
		Name: "durability.fsync", Family: workload.FamilyFiles, WorkUnit: "flush",
		Doc: "Overwrites 4 KiB of a preallocated file and flushes it to stable storage (fdatasync, if " +
			"the system has it), again and again. If a flush costs less in an environment than on its host, it " +
			"does not reach the host's disk.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "1MiB", Min: slot, Max: 1 << 30,
				Doc: "size of the file; its pages are overwritten in turn"},
		},
		Metrics: []unit.Metric{
			latency("flush_p50", "that percentile of the time of a write and its flush", true),
			latency("flush_p1", "that percentile of the time of a write and its flush", false),
			latency("flush_p99", "that percentile of the time of a write and its flush", false),
		},
		Needs:   workload.Needs{FS: true},
		MaxWork: 1 << 20,
		Space:   func(p workload.Params) int64 { return p.Int("size") },
		Lasts: func(workload.Params) workload.Lasting {
			return workload.Lasting{Flush: workload.FlushEach, Metrics: workload.AllMetrics}
		},
		New: func(p workload.Params) (workload.Trial, error) {
			return &flushes{size: p.Int("size") / slot * slot}, nil
		},
	}}
}

// flushes is a trial of durability.fsync.
type flushes struct {
	size  int64
	file  *os.File
	page  []byte
	times histogram.Histogram
}

func (t *flushes) Setup(_ context.Context, b *workload.Bench) error {
	path := filepath.Join(b.Dir, "flushed")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("make file to flush: %w", err)
	}
	t.file = f
	t.page = make([]byte, slot)
	fill(t.page, &Record{Class: Overwrite, Seq: 1}, origin{seed: b.Seed})
	// Written in full, so that the only metadata of a flush is the time.
	for off := int64(0); off < t.size; off += slot {
		if _, err := f.WriteAt(t.page, off); err != nil {
			return fmt.Errorf("fill file to flush: %w", err)
		}
	}
	return f.Sync()
}

func (t *flushes) Measure(_ context.Context, b *workload.Bench) error {
	off := int64(0)
	for n := range b.Work {
		t.page[0] = byte(n)
		began := clock.Now()
		if _, err := t.file.WriteAt(t.page, off); err != nil {
			return err
		}
		if err := syncData(t.file); err != nil {
			return err
		}
		t.times.Record(int64(clock.Since(began)))
		if off += slot; off == t.size {
			off = 0
		}
	}
	return nil
}

func (t *flushes) Report(b *workload.Bench) error {
	if got := t.times.Count(); got == 0 {
		return fmt.Errorf("only %d of %d flushes were timed", got, b.Work)
	}
	for name, q := range map[string]float64{"flush_p50": 0.5, "flush_p1": 0.01, "flush_p99": 0.99} {
		b.Report(name, math.Max(float64(t.times.Quantile(q)), 1)/1e9)
	}
	b.Check("bytes", fmt.Sprint(slot))
	return nil
}

// p1 is the 1st percentile of the flushes, in seconds.
func (t *flushes) p1() float64 { return math.Max(float64(t.times.Quantile(0.01)), 1) / 1e9 }

func (t *flushes) Cleanup(*workload.Bench) error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
