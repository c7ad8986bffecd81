package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/suggest"
	"tare/internal/sys/setdiff"
	"tare/internal/unit"
)

// The kinds of failure that a worker reports, besides the failed phase: "setup", "measure", "report".
const (
	kindRefused = "refused"   // the request cannot be served here
	kindPanic   = "panic"     // the workload panicked
	kindNoDir   = "no-dir"    // the kind needs a writable directory and there is none
	kindNoSpace = "no-space"  // the directory's file system is too small
	kindGone    = "cancelled" // the agent has ended
)

// wrapUp bounds the time in which a trial cleans up after its agent has ended.
const wrapUp = 3 * time.Second

// worker serves the one request it was started for.
type worker struct {
	kinds   []workload.Kind
	dir     string
	home    string
	out     *wire.Writer
	trial   uint32
	passed  chan struct{} // Begin is on its way
	over    chan struct{} // what is done together with the trial has ended
	request wire.Frame
}

// work is the whole run of a worker: it reads one request, serves it and answers. It returns the exit code.
func work(kinds []workload.Kind, dir, home string, in io.Reader, out io.Writer) int {
	r := wire.NewReader(in)
	f, err := r.Read()
	if err != nil {
		return 1
	}
	w := &worker{kinds: kinds, dir: dir, home: home, out: wire.NewWriter(out), trial: f.Trial,
		passed: make(chan struct{}, 1), over: make(chan struct{}, 1), request: f}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	orphaned := make(chan struct{})
	go func() {
		defer close(orphaned)
		for {
			f, err := r.Read()
			if err != nil {
				cancel()
				return
			}
			switch f.Type {
			case wire.TypeBegin:
				w.passed <- struct{}{}
			case wire.TypeEnd:
				w.over <- struct{}{}
			}
		}
	}()
	done := make(chan error, 1)
	go func() {
		// One thread does the whole trial, so that its caches, affinity and accounting belong together.
		runtime.LockOSThread()
		done <- w.serve(ctx)
	}()
	select {
	case err = <-done:
	case <-orphaned:
		select {
		case err = <-done:
		case <-time.After(wrapUp):
			err = context.Canceled
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// serve answers the request. An error means that the agent is gone.
func (w *worker) serve(ctx context.Context) error {
	switch w.request.Type {
	case wire.TypeRun:
		var run wire.Run
		res := wire.Result{}
		if err := w.request.Decode(&run); err != nil {
			res.Error = &record.Failure{Kind: kindRefused, Message: err.Error()}
		} else {
			res = w.run(ctx, run)
		}
		return w.out.JSON(wire.TypeResult, w.trial, res)
	case wire.TypeCalibrate:
		var c wire.Calibrate
		if err := w.request.Decode(&c); err != nil {
			return w.fail(&record.Failure{Kind: kindRefused, Message: err.Error()})
		}
		got, fail := w.calibrate(ctx, c)
		if fail != nil {
			return w.fail(fail)
		}
		return w.out.JSON(wire.TypeCalibrated, w.trial, got)
	}
	return w.fail(&record.Failure{Kind: kindRefused,
		Message: fmt.Sprintf("a worker does not serve a %s frame", w.request.Type)})
}

func (w *worker) fail(f *record.Failure) error { return w.out.JSON(wire.TypeFailure, w.trial, f) }

// cell is a kind with checked parameters.
type cell struct {
	kind    *workload.Kind
	params  workload.Params
	metrics []unit.Metric
}

// look finds the job's kind and checks that it can run here.
func (w *worker) look(j wire.Job) (*cell, *record.Failure) {
	refuse := func(kind, format string, args ...any) (*cell, *record.Failure) {
		return nil, &record.Failure{Kind: kind, Message: fmt.Sprintf(format, args...)}
	}
	i := slices.IndexFunc(w.kinds, func(k workload.Kind) bool { return k.Name == j.Kind })
	if i < 0 {
		names := make([]string, len(w.kinds))
		for i := range w.kinds {
			names[i] = w.kinds[i].Name
		}
		return refuse(kindRefused, "there is no workload %q%s", j.Kind, suggest.DidYouMean(j.Kind, names))
	}
	k := &w.kinds[i]
	if os := k.Needs.OS; len(os) > 0 && !slices.Contains(os, runtime.GOOS) {
		return refuse(kindRefused, "%s runs on %s only, and this is %s", k.Name, strings.Join(os, ", "), runtime.GOOS)
	}
	p, err := k.Resolve(j.Params)
	if err != nil {
		return refuse(kindRefused, "%v", err)
	}
	if w.dir == "" && k.Needs.FS && (k.OnlyReads == nil || !k.OnlyReads(p)) {
		return refuse(kindNoDir, "%s needs a writable directory, but there is none", k.Name)
	}
	if k.NeedsPeer(p) && (j.Peer == nil || j.Peer.Missing != "") {
		why := "the controller did not name a peer"
		if j.Peer != nil {
			why = j.Peer.Missing
		}
		return refuse(kindRefused, "%s: %s", k.Name, why)
	}
	c := &cell{kind: k, params: p, metrics: k.MetricsFor(p)}
	if k.ServiceKey(p) == "" || w.request.Type == wire.TypeService {
		return c, c.roomFor(w.dir)
	}
	if j.Serving == nil {
		return refuse(kindRefused, "%s: the controller named no service", k.Name)
	}
	return c, nil
}

// bench returns the bench of a new trial or service. Its root is the directory that the cell's is below, or would be if
// it could be written.
func (w *worker) bench(j wire.Job) *workload.Bench {
	b := &workload.Bench{Dir: w.dir, Home: w.home, Root: j.Root, Files: filesOf(j, w.home),
		Seed: j.Seed, Held: j.Held, Listen: j.Listen, Over: w.over}
	if j.Root == "" && w.dir != "" {
		b.Root = filepath.Dir(filepath.Dir(w.dir)) // the agent's own directory is in between
	}
	if j.Peer != nil {
		b.Peer = workload.Peer{Address: j.Peer.Address, Token: j.Peer.Token}
	}
	if s := j.Serving; s != nil {
		b.Service = workload.Serving{Endpoint: s.Endpoint, Starts: s.Starts, Trials: s.Trials}
		for name, value := range s.State {
			b.Note(name, value)
		}
	}
	return b
}

// run is one trial.
func (w *worker) run(ctx context.Context, run wire.Run) wire.Result {
	c, fail := w.look(run.Job)
	if fail == nil && run.Work < 1 {
		fail = &record.Failure{Kind: kindRefused,
			Message: fmt.Sprintf("%s: the amount of work must be at least 1, not %d", run.Kind, run.Work)}
	}
	if fail != nil {
		return wire.Result{Error: fail}
	}
	b := w.bench(run.Job)
	b.Work, b.Warmup, b.Show, b.Parts, b.Part = run.Work, run.Warmup, run.Show, run.Parts, run.Part
	real := injected(b, run.Inject)
	b.Note("overhead_ns", fmt.Sprint(overhead()))
	s := &trialRun{worker: w, mark: true, bare: run.Bare, work: real}
	if fail = c.once(ctx, b, s); fail == nil {
		s.used.note(b, "")
		if s.children != (resources{known: true, counted: true}) {
			s.children.note(b, "children_")
		}
		fail = c.checkFigures(b)
	}
	if fail == nil {
		fail = w.sendSamples(b)
	}
	res := wire.Result{ElapsedNS: s.elapsed, SetupNS: s.setup, SlackNS: s.slack, Figures: b.Figures,
		Declared: c.metrics, Error: fail, Before: s.counters.before, After: s.counters.after}
	res.Samples = nil // they were sent in separate frames
	if fail != nil {
		res.Metrics = nil
	}
	return res
}

// injected returns the work including an extra share, and warns if whole units cannot express the share.
func injected(b *workload.Bench, share float64) int64 {
	if share == 0 {
		return b.Work
	}
	real := max(int64(math.Round(float64(b.Work)*(1+share))), 1)
	got := float64(real)/float64(b.Work) - 1
	if math.Abs(got-share) > 0.1*math.Abs(share) {
		b.Warn("inject-coarse", fmt.Sprintf("%d units of work cannot be increased by %.3g %%; %.3g %% was injected",
			b.Work,
			100*share, 100*got),
			"use longer trials, or a workload with smaller units")
	}
	return real
}

// checkFigures checks that a trial reports the metrics that its kind declares: an undeclared or a missing figure is a
// bug in the workload.
func (c *cell) checkFigures(b *workload.Bench) *record.Failure {
	bad := func(format string, args ...any) *record.Failure {
		return &record.Failure{Kind: "report", Message: c.kind.Name + ": " + fmt.Sprintf(format, args...)}
	}
	declared := map[string]bool{}
	for _, m := range c.metrics {
		declared[m.Name] = true
		if _, ok := b.Metrics[m.Name]; m.Primary && !ok && b.Offer == "" {
			return bad("the trial did not report %s", m.Name)
		}
	}
	for name, v := range b.Metrics {
		if !declared[name] {
			return bad("the trial reported %s, which the kind does not declare", name)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return bad("the trial reported %s = %v", name, v)
		}
	}
	if n := len(b.Groups); n > record.MaxGroups+1 {
		return bad("the trial reported %d groups, more than %d", n, record.MaxGroups+1)
	}
	if n := len(b.Shown); n > record.MostShown {
		return bad("the trial showed what came back from %d executions, more than %d", n, record.MostShown)
	}
	if n := len(b.Sketch); n > 0 && n != setdiff.Size {
		return bad("the trial reported a sketch of %d bytes, not %d", n, setdiff.Size)
	}
	return nil
}

// sendSamples sends the samples, thinned to what the protocol carries.
func (w *worker) sendSamples(b *workload.Bench) *record.Failure {
	names := make([]string, 0, len(b.Samples))
	for name := range b.Samples {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, err := wire.PackSamples(name, wire.Thin(b.Samples[name]))
		if err == nil {
			err = w.out.Write(wire.Frame{Type: wire.TypeSamples, Trial: w.trial, Payload: p})
		}
		if err != nil {
			return &record.Failure{Kind: "report", Message: err.Error()}
		}
	}
	return nil
}

// begin tells the controller that the clock is about to start, with what the trial offers to others, and waits until
// that is sent, or until the controller says so.
func (w *worker) begin(ctx context.Context, offer string) error {
	if err := w.out.Write(wire.Frame{Type: wire.TypeBegin, Trial: w.trial, Payload: []byte(offer)}); err != nil {
		return err
	}
	select {
	case <-w.passed:
		return nil
	case <-ctx.Done():
		return errors.New("the agent has ended")
	}
}
