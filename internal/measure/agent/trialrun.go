package agent

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
)

// trialRun runs a trial's Setup, Measure, Report and Cleanup and records their results.
type trialRun struct {
	worker *worker
	mark   bool  // tell the controller of Begin and End
	bare   bool  // read no counters
	work   int64 // units that Measure does; Bench.Work is the number that is reported
	// All in ns by the monotonic clock.
	setup, elapsed, cleanup, slack int64
	used, children                 resources
	counters                       counters
}

// once makes a trial of the cell and takes it through. Cleanup is called whenever Setup was.
func (c *cell) once(ctx context.Context, b *workload.Bench, s *trialRun) (fail *record.Failure) {
	var t workload.Trial
	if fail = c.guard("setup", func() (err error) { t, err = c.kind.New(c.params); return err }); fail != nil {
		return fail
	}
	defer func() {
		began := wire.Now()
		left := c.guard("cleanup", func() error { return t.Cleanup(b) })
		s.cleanup = wire.Now() - began
		if left != nil && fail == nil {
			b.Warn("cleanup", "the trial could not clean up after itself: "+left.Message,
				"check the environment before you trust its next trials")
		}
	}()
	reported := b.Work
	b.Work = s.work
	began := wire.Now()
	fail = c.guard("setup", func() error { return t.Setup(ctx, b) })
	s.setup = wire.Now() - began
	if fail != nil {
		return fail
	}
	fail = c.guard("measure", func() error { return s.measure(ctx, t, b) })
	b.Work = reported
	if fail != nil {
		return fail
	}
	b.Elapsed = time.Duration(s.elapsed)
	if r, ok := t.(workload.Reporter); ok {
		return c.guard("report", func() error { return r.Report(b) })
	}
	return nil
}

// quiet keeps the garbage collector out of Measure: the heap is collected before, and no new collection begins unless
// Measure allocates more than this, in bytes. It must be off, not only unlikely, because a collection takes a quarter
// of the CPUs while it runs.
const quiet = 256 << 20

// measure times Measure.
func (s *trialRun) measure(ctx context.Context, t workload.Trial, b *workload.Bench) error {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	limit := debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + quiet)
	percent := debug.SetGCPercent(-1)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	sent := wire.Now()
	if s.mark {
		if err := s.worker.begin(ctx, b.Offer); err != nil {
			return err
		}
		if !s.bare {
			s.counters.begin()
		}
	}
	children, before := usage(true), usage(false)
	t0 := wire.Now()
	err := t.Measure(ctx, b)
	t1 := wire.Now()
	s.used, s.children = usage(false).minus(before), usage(true).minus(children)
	s.elapsed = t1 - t0
	if s.mark {
		if !s.bare {
			s.counters.end()
		}
		s.slack = (t0 - sent) + (wire.Now() - t1)
		if e := s.worker.out.Mark(wire.TypeEnd, s.worker.trial); err == nil {
			err = e
		}
	}
	return err
}

// guard runs one phase of a trial and turns its error or panic into a failure. A phase may return a *record.Failure of
// its own.
func (c *cell) guard(phase string, f func() error) (fail *record.Failure) {
	defer func() {
		if r := recover(); r != nil {
			fail = &record.Failure{Kind: kindPanic,
				Message: fmt.Sprintf("%s panicked in %s: %v", c.kind.Name, phase, r), Evidence: string(debug.Stack())}
		}
	}()
	err := f()
	if err == nil {
		return nil
	}
	if own, ok := err.(*record.Failure); ok {
		return own
	}
	return &record.Failure{Kind: phase, Message: fmt.Sprintf("%s: %s: %v", c.kind.Name, phase, err)}
}

// roomFor checks that the file system of dir has space for the kind's files. A directory that is not empty passed this
// check before and already has some of the files.
func (c *cell) roomFor(dir string) *record.Failure {
	if c.kind.Space == nil || dir == "" || !isEmpty(dir) {
		return nil
	}
	need, free := c.kind.Space(c.params), sysinfo.Free(dir)
	if v, _ := fileio.Volume(dir); v.Free >= 0 && (free < 0 || v.Free < free) {
		free = v.Free // of memory
	}
	// A nearly full file system is slower, and filling it would disturb other programs.
	if free < 0 || float64(need)*1.05 <= float64(free) {
		return nil
	}
	return &record.Failure{Kind: kindNoSpace,
		Message: fmt.Sprintf("%s needs %d MiB in %s, but only %d MiB are free; free some space, use a smaller size=, "+
			"or another directory with dir=",
			c.kind.Name, need>>20, dir, free>>20)}
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// resources are the resources that a process used.
type resources struct {
	known, counted         bool  // counted: not only the CPU time
	voluntary, involuntary int64 // context switches
	minor, major           int64 // page faults
	user, system           int64 // CPU time, ns
}

func (u resources) minus(v resources) resources {
	return resources{
		known: u.known && v.known, counted: u.counted && v.counted,
		voluntary: u.voluntary - v.voluntary, involuntary: u.involuntary - v.involuntary,
		minor: u.minor - v.minor, major: u.major - v.major,
		user: u.user - v.user, system: u.system - v.system,
	}
}

// note records the resources as the trial's state, with a prefix to their names.
func (u resources) note(b *workload.Bench, prefix string) {
	if !u.known {
		return
	}
	for name, v := range map[string]int64{
		"switches_voluntary": u.voluntary, "switches_involuntary": u.involuntary,
		"faults_minor": u.minor, "faults_major": u.major,
		"cpu_user_ns": u.user, "cpu_system_ns": u.system,
	} {
		if u.counted || name[0] == 'c' {
			b.Note(prefix+name, strconv.FormatInt(v, 10))
		}
	}
}

// idle is a trial that does nothing.
type idle struct{}

func (idle) Setup(context.Context, *workload.Bench) error   { return nil }
func (idle) Measure(context.Context, *workload.Bench) error { return nil }
func (idle) Cleanup(*workload.Bench) error                  { return nil }

// overhead is the measured time of an empty trial, in ns, the median of several: every figure contains it.
func overhead() int64 {
	var t workload.Trial = idle{}
	ctx, b := context.Background(), &workload.Bench{}
	var took [51]int64
	for i := range took {
		t0 := wire.Now()
		t.Measure(ctx, b)
		took[i] = wire.Now() - t0
	}
	slices.Sort(took[:])
	return took[len(took)/2]
}
