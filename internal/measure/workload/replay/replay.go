// Package replay replays the sessions of a log against a server, whatever the server speaks: a kind of work brings the
// client.
//
// It is opinionated. A lane is a thread with one client at a time, which takes one session after the other, so that the
// order within sessions is kept. At the pace of a log, times are kept from the beginning of the replay: what is late
// does not move what comes behind it, and how late it was is counted, with the reason. What each event of the log gave
// is added up, for all and for each fingerprint, as the evidence of equal work.
package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/trace"
	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// MaxLanes bounds the clients of a trial.
const MaxLanes = 1024

// LanesSession stands for a lane for each session.
const LanesSession = "session"

// Lanes reads a number of lanes: "8", or "2x" for twice the processors that this process may use.
func Lanes(text string) (int, error) {
	digits, each := strings.CutSuffix(text, "x")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > MaxLanes {
		return 0, fmt.Errorf("lanes=%s: give a number from 1 to %d, or 2x for twice the processors", text, MaxLanes)
	}
	if each {
		n *= runtime.GOMAXPROCS(0)
	}
	return min(n, MaxLanes), nil
}

// Options say how a log is replayed.
type Options struct {
	Kind string // "sql.replay"
	// Item is the noun of the replayed things, "statement", and Rows that of their results, "rows", in the plural.
	Item, Rows     string
	Think, Connect float64 // the pace within sessions, and before them: seconds of the log per second, 0 for flat
	Idle           time.Duration
	Whole          bool
	Ordered        bool // by transactions
	Unstable       bool // what comes back depends on which lane was first, and is not compared
	Kept           bool // lanes keep their connections, so that few are made
	Lanes          string
	// Parts, where several hosts do the work together, are their shares, and Part is this one.
	Parts []int64
	Part  int
}

// Params are the parameters of a replay that do not depend on what is replayed. item is what is: "statement".
func Params(item string) []workload.Param {
	factor := func(name, def, doc string) workload.Param {
		return workload.Param{Name: name, Type: workload.Text, Default: def, Doc: doc}
	}
	return []workload.Param{
		{Name: "lanes", Type: workload.Text, Default: "2x", Doc: "connections at the same time: a " +
			"number, 2x for twice the processors, or session for one for each session of a trial"},
		factor("pace", PaceFlat, "flat: as fast as the server answers; original: at the log's times; or a factor, "+
			"2.0 for twice as fast"),
		factor("think", "", "pace within sessions; empty: as pace"),
		factor("connect", "", "pace at which sessions begin; empty: as pace"),
		{Name: "idle-wait", Type: workload.Duration, Default: "0s",
			Doc: "a time without any session is shortened to this; 0s: it is not"},
		{Name: "shard", Type: workload.Int, Default: "0", Max: 1 << 40,
			Doc: item + "s of a shard at least; 0: a 256th of the log's, from 64 to 4096"},
		{Name: "whole", Type: workload.Bool, Default: "no", Doc: "one unit of work is the whole log"},
	}
}

// Read reads these parameters.
func (o *Options) Read(p workload.Params) (err error) {
	o.Whole, o.Idle, o.Lanes = p.Bool("whole"), p.Duration("idle-wait"), p["lanes"]
	if err := o.ReadPaces(p); err != nil {
		return err
	}
	if o.Lanes != LanesSession {
		_, err = Lanes(o.Lanes)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w, or %s for one lane per session", err, LanesSession)
	case o.Idle > 0 && !o.Paced():
		return errors.New("idle-wait: it has no effect with pace=flat")
	}
	return nil
}

// ReadPaces reads the paces within sessions and before them.
func (o *Options) ReadPaces(p workload.Params) (err error) {
	for _, f := range []struct {
		name string
		pace *float64
	}{{"think", &o.Think}, {"connect", &o.Connect}} {
		name := f.name
		if p[name] == "" {
			name = "pace"
		}
		if *f.pace, err = ParsePace(name, p[name]); err != nil {
			return err
		}
	}
	return nil
}

// Paced tells whether times of the log are kept.
func (o *Options) Paced() bool { return o.Think > 0 || o.Connect > 0 }

// UnitTime bounds the time of a unit of work.
func (o *Options) UnitTime() time.Duration {
	if o.Paced() || o.Whole {
		return 24 * time.Hour
	}
	return 10 * time.Minute
}

// Metrics are the figures of a replay, but for the CPU time of the server. At the pace of the log the rate is the
// log's.
func Metrics(item string, paced, kept bool) []unit.Metric {
	lower := func(name, of, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: of, Better: unit.Lower, Timed: true, Doc: doc}
	}
	ms := []unit.Metric{
		{Name: item + "s_per_second", Unit: item + "s/s", Better: unit.Higher, Timed: true, Primary: !paced,
			Doc: item + "s per second over all lanes"},
		lower("seconds", "s", "time of a unit of work"),
		lower("latency_mean", "ns", "mean latency of a "+item),
		lower("latency_p50", "ns", "that percentile of the latencies"),
		lower("latency_p99", "ns", "that percentile of the latencies"),
		lower("client_cpu_us_per_"+item, "us",
			"CPU time of the client per "+item),
	}
	ms[2].Primary, ms[4].Tail = paced, true
	if !kept {
		ms = append(ms, lower("connect_p50", "ns", "median time until a new connection can be used"))
	}
	if paced {
		ms = append(ms, lower("behind_p99", "ns", "99th percentile of how much later than in the log "+item+"s were "+
			"sent"))
		ms[len(ms)-1].Tail = true
	}
	return ms
}

// Client does what sessions say, on one connection after the other. A lane has one, and all calls but Interrupt come
// from the lane's thread. An error that is a *Refusal is one of the server's, after which the session goes on; any
// other ends the replay.
type Client interface {
	// Begin begins a session. It tells whether a connection was made.
	Begin(ctx context.Context, e *trace.Event) (connected bool, err error)
	// Before is called before a statement. It tells whether it took time.
	Before(e *trace.Event) (took bool, err error)
	// Do carries out a statement. Its time is measured.
	Do(e *trace.Event, r *Result) error
	// Sum is called behind Do, and not measured. It completes the result.
	Sum(r *Result)
	// Other does what is no statement.
	Other(e *trace.Event) error
	// End ends a session.
	End() error
	// Interrupt makes the call that waits for the server fail, and all later ones. Any goroutine may call it.
	Interrupt()
	Close()
}

// Shower is a client that can show what came back from the last statement, as far as it is compared.
type Shower interface{ Shown() string }

// Result is the result of a statement. Do begins it anew.
type Result struct {
	Rows uint64 // that came back, or were changed
	Mark uint32 // tells results apart with the sum, such as rows or a status
	// Ordered and Unordered are checksums of what came back, in its order and in any.
	Ordered, Unordered uint64
	// Mistake is the reason why the statement counts as one with an error, though its result is compared; "" for none.
	Mistake string
}

// Refusal is an error that the server reported. The connection is as good as before.
type Refusal struct{ Code, Text string }

func (r *Refusal) Error() string { return fmt.Sprintf("error %s: %s", r.Code, r.Text) }

// Replay is a trial. Its kind embeds it.
type Replay struct {
	*Options
	// Client makes the client of a lane.
	Client func() Client
	// Explain adds its meaning to an error that ended the replay.
	Explain func(context.Context, error) error

	Trace *trace.Trace
	file  *os.File
	pass  *pass
	lanes []*lane
	room  func()        // undoes the room for the lanes
	CPU   time.Duration // of this process in Measure; 0 if it is not known
}

// Failed is a trial without figures.
func (o *Options) Failed(format string, args ...any) *record.Failure {
	return &record.Failure{Kind: "measure", Message: o.Kind + ": " + fmt.Sprintf(format, args...)}
}

// Open opens the log that the controller has sent.
func (r *Replay) Open(path string) (err error) {
	if path == "" {
		return errors.New(r.Kind + ": the controller has sent no log")
	}
	r.Trace, r.file, err = OpenTrace(path)
	return err
}

// OpenTrace opens a trace. The caller closes the file.
func OpenTrace(path string) (t *trace.Trace, f *os.File, err error) {
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

// Survey looks at the work of so many units, for who does not do it.
func (r *Replay) Survey(units int64) error {
	w, err := newWork(r.Trace, units, r.Options)
	r.pass = &pass{work: w}
	return err
}

// Prepare makes the work of a trial, or this host's part of it, and the lanes for it.
func (r *Replay) Prepare(b *workload.Bench) error {
	r.Parts, r.Part = b.Parts, b.Part
	w, err := newWork(r.Trace, b.Work, r.Options)
	if err != nil {
		return err
	}
	r.pass = r.newPass(w)
	n := len(w.jobs)
	if r.Lanes != LanesSession {
		n, err = Lanes(r.Lanes)
	} else if n > MaxLanes {
		err = r.Failed("lanes=session: a trial has %d sessions, and there can be %d lanes: use shorter trials, or a "+
			"number of lanes", n, MaxLanes)
	}
	if n = max(n, w.lanes); n > MaxLanes && err == nil {
		err = r.Failed("order=transactions: %d sessions of a trial have transactions at the same time, and there can "+
			"be %d lanes: use shorter trials", n, MaxLanes)
	}
	if err != nil {
		return err
	}
	for range min(n, len(w.jobs)) - len(r.lanes) {
		r.lanes = append(r.lanes, newLane(r.Client()))
	}
	if r.room == nil {
		r.room = thread.Room(len(r.lanes) + 1)
	}
	return nil
}

func (r *Replay) newPass(w *work) *pass {
	return &pass{Options: r.Options, work: w, pacing: newPacing(w, r.Options),
		groups: group(r.Trace.Fingerprints(), w.executions), times: newLatencies(w.statements),
		turns: turns{waiting: make([]chan struct{}, w.turns)}}
}

// Heat replays the work once, without its pauses.
func (r *Replay) Heat(ctx context.Context, b *workload.Bench) error {
	began := time.Now()
	timed := r.pass.pacing
	r.pass.pacing = pacing{trace: r.Trace}
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

// Statements is the number of statements of the work.
func (r *Replay) Statements() int64 { return r.pass.work.statements }

// Clients are those of the lanes.
func (r *Replay) Clients() (all []Client) {
	for _, l := range r.lanes {
		all = append(all, l.client)
	}
	return all
}

// Measure replays.
func (r *Replay) Measure(ctx context.Context, b *workload.Bench) error {
	r.pass.show = b.Show[:min(len(b.Show), record.MostShown)]
	before, _ := proc.CPUTime(os.Getpid())
	err := r.run(ctx)
	after, _ := proc.CPUTime(os.Getpid())
	r.CPU = after - before
	return err
}

// run lets the lanes do the pass.
func (r *Replay) run(ctx context.Context) error {
	var all sync.WaitGroup
	var once sync.Once
	var first error
	end := func(err error) {
		once.Do(func() { first = err })
		r.pass.stop.Store(true)
		r.pass.turns.stop()
		for _, l := range r.lanes {
			l.client.Interrupt()
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
	return r.Explain(ctx, first)
}

// Close closes the clients and the log.
func (r *Replay) Close() error {
	for _, l := range r.lanes {
		l.client.Close()
	}
	if r.room != nil {
		r.room()
	}
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}
