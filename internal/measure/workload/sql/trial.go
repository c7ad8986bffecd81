package sql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/trace"
	"tare/internal/sys/thread"
)

// replay is a trial of sql.replay.
type replay struct {
	*options
	target  *target
	file    *os.File
	trace   *trace.Trace
	pass    *pass
	lanes   []*lane
	room    func()    // undoes the room for the lanes
	aside   client    // for questions to the server
	started time.Time // the server
	before  counters
	cpu     time.Duration // of this process in Measure; 0 if it is not known
}

// Setup opens the log and prepares the work, the lanes, and the server's caches.
func (r *replay) Setup(ctx context.Context, b *workload.Bench) (err error) {
	if err := r.open(b); err != nil {
		return err
	}
	if err := r.target.find(b); err != nil {
		return err
	}
	if err := r.prepare(b.Work); err != nil {
		return err
	}
	runtime.LockOSThread() // as connections want it
	defer runtime.UnlockOSThread()
	r.room = thread.Room(len(r.lanes) + 1)
	if r.started, err = r.target.started(ctx); err != nil {
		return r.explain(ctx, err)
	}
	if r.warm && (b.Warmup || r.target.private && b.Service.Trials == 0) {
		if err := r.heat(ctx, b); err != nil {
			return err
		}
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if r.aside, err = dial(ctx, r.target, true); err != nil {
		return r.explain(ctx, err)
	}
	r.before, err = r.target.count(r.aside, r.kept())
	return err
}

// open opens the log.
func (r *replay) open(b *workload.Bench) (err error) {
	path := b.Files["log"]
	if path == "" {
		return errors.New("sql.replay: the controller has sent no log")
	}
	if r.trace, r.file, err = openTrace(path); err != nil {
		return err
	}
	m := r.trace.Meta()
	if r.target.Database == "" {
		r.target.Database = m.Database
	}
	switch {
	case m.Dialect != r.dialect:
		return failed("the log is one of %s, and the server is %s", m.Dialect, r.target.product)
	case m.Start == 0 && (r.paced() || r.pinTime):
		return failed("the log tells no times, so that they cannot be kept: use pace=flat, without pin-time")
	}
	b.Check("trace", filepath.Base(path)) // its SHA-256
	if data := b.Files["data"]; data != "" {
		b.Note("data", filepath.Base(data))
	}
	return nil
}

// openTrace opens a trace. The caller closes the file.
func openTrace(path string) (t *trace.Trace, f *os.File, err error) {
	if f, err = os.Open(path); err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil {
		t, err = trace.Open(f, st.Size())
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return t, f, nil
}

// prepare makes the work of so many units, and the lanes for it.
func (r *replay) prepare(units int64) error {
	w, err := newWork(r.trace, units, r.options)
	if err != nil {
		return err
	}
	r.pass = r.newPass(w)
	n := len(w.jobs)
	if r.laneText != lanesSession {
		n, err = lanes(r.laneText)
	} else if n > maxLanes {
		err = failed("lanes=session: a trial has %d sessions, and there can be %d lanes: use shorter trials, or a "+
			"number of lanes", n, maxLanes)
	}
	if n = max(n, w.lanes); n > maxLanes && err == nil {
		err = failed("order=transactions: %d sessions of a trial have transactions at the same time, and there can "+
			"be %d lanes: use shorter trials", n, maxLanes)
	}
	if err != nil {
		return err
	}
	for range min(n, len(w.jobs)) - len(r.lanes) {
		r.lanes = append(r.lanes, newLane())
	}
	return nil
}

func (r *replay) newPass(w *work) *pass {
	return &pass{options: r.options, target: r.target, work: w, pacing: newPacing(w, r.options),
		groups: group(r.trace.Fingerprints(), w.executions), times: newLatencies(w.statements),
		turns: turns{waiting: make([]chan struct{}, w.turns)}}
}

// heat replays the work once, without its pauses.
func (r *replay) heat(ctx context.Context, b *workload.Bench) error {
	began := time.Now()
	timed := r.pass.pacing
	r.pass.pacing = pacing{trace: r.trace}
	if err := r.run(ctx); err != nil {
		return err
	}
	b.Note("warmed_in", strconv.FormatFloat(time.Since(began).Seconds(), 'f', 3, 64)+" s")
	w := r.pass.work
	for i := range w.jobs {
		w.jobs[i].connect = 0
	}
	r.pass = r.newPass(w)
	r.pass.pacing = timed
	return nil
}

// connect connects the lanes that keep their connections.
func (r *replay) connect(ctx context.Context) error {
	for _, l := range r.lanes {
		if !r.keep || l.client != nil {
			continue
		}
		l.pass = r.pass
		if err := l.open(ctx, r.target.Database); err != nil {
			return r.explain(ctx, err)
		}
	}
	return nil
}

// Measure replays.
func (r *replay) Measure(ctx context.Context, b *workload.Bench) error {
	before, _ := proc.CPUTime(os.Getpid())
	err := r.run(ctx)
	after, _ := proc.CPUTime(os.Getpid())
	r.cpu = after - before
	return err
}

// run lets the lanes do the pass.
func (r *replay) run(ctx context.Context) error {
	var all sync.WaitGroup
	var once sync.Once
	var first error
	end := func(err error) {
		once.Do(func() { first = err })
		r.pass.stop.Store(true)
		r.pass.turns.stop()
		for _, l := range r.lanes {
			l.interrupt()
		}
	}
	defer context.AfterFunc(ctx, func() { end(ctx.Err()) })()
	base := time.Now()
	for _, l := range r.lanes {
		l.begin(r.pass, base)
		all.Go(func() {
			if err := l.run(ctx); err != nil {
				end(err)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return r.explain(ctx, first)
}

// kept returns the connections that lanes keep.
func (r *replay) kept() (all []client) {
	for _, l := range r.lanes {
		if l.client != nil {
			all = append(all, l.client)
		}
	}
	return all
}

// Cleanup closes all connections.
func (r *replay) Cleanup(*workload.Bench) error {
	for _, l := range r.lanes {
		l.hang(nil)
	}
	if r.aside != nil {
		_ = r.aside.close() // there is nothing of it that could be lost
	}
	if r.room != nil {
		r.room()
	}
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}
