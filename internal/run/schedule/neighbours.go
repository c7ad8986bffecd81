package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// The kinds of failure of a trial whose neighbour was not at work all the time.
const (
	kindNeighbourDied   = "neighbour-died"   // its environment is lost
	kindNeighbourFailed = "neighbour-failed" // anything else
)

// What a neighbour does is ordinary work of its own environment's agent, in rounds. A first, short round shows that it
// can, and measures its pace alone. The next is to last longer than the trial with everything around it, so that mostly
// no gap between two rounds falls into the trial; where one did, the rounds beside that cell become longer. It goes on
// until the trial has ended, and its last round is awaited: work counts that is done.
const (
	firstRound    = 200 * time.Millisecond
	leastRound    = 300 * time.Millisecond
	longestRound  = time.Minute
	leastReserve  = 1.5 // of the trial's length
	mostReserve   = 8.0
	lastRoundTime = 2 * time.Second
	lastRounds    = 4 // so many rounds more a last round may take
	// leastCovered is the share of a trial's timed part in which its neighbour must have been at work, wellCovered that
	// below which rounds become longer.
	leastCovered = 0.5
	wellCovered  = 0.95
)

// neighbours runs the neighbours of targets while trials are timed.
type neighbours struct {
	plan  *plan.Plan
	kinds func(name string) (*workload.Kind, bool)
	table *table
	// timeout returns the bound on the first round of a workload.
	timeout  func(w *plan.Workload) time.Duration
	units    map[neighbourKey]float64  // how long a unit of work took at the least, ns
	spans    map[cellKey]time.Duration // how long the last trial took with its preparation
	reserves map[cellKey]float64       // how much longer than that a round is to be
}

// neighbourKey names a neighbour where it runs, in an agent that is another one for each opening.
type neighbourKey struct {
	neighbour, place string
	agent            Agent
}

// of is the neighbour of a target and the place in which it runs; nil for a target without one.
func (b *neighbours) of(target string) (n *plan.Neighbour, number int, place string) {
	e, ok := b.plan.Target(target)
	if !ok || e.Beside == "" {
		return nil, 0, ""
	}
	for i := range b.plan.Beside {
		if n := &b.plan.Beside[i]; n.Name == e.Beside {
			return n, i, n.In[e.Like]
		}
	}
	return nil, 0, ""
}

// start has the neighbour of a target begin, and returns when it is at work. The result is nil for a target without a
// neighbour. The error is a *record.Failure, or that of ctx.
func (b *neighbours) start(ctx context.Context, w *plan.Workload, target string) (*neighbourRun, error) {
	n, number, place := b.of(target)
	if n == nil {
		return nil, nil
	}
	at := b.table.targets[place]
	if at == nil || at.dead != nil || !at.Agent.Alive() {
		why := "it is not open"
		if at != nil && at.dead != nil {
			why = at.dead.Message
		}
		return nil, b.newFailure(n, place, kindNeighbourDied, why)
	}
	limit := b.timeout(n.Work())
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := neighbourKey{n.Name, place, at.Agent}
	job := b.job(n, number, at)
	first, err := b.first(bounded, key, job)
	if err != nil {
		return nil, b.startFailure(ctx, n, place, at, err)
	}
	work := &neighbourRun{neighbour: n, place: place, agent: at.Agent, key: key, begun: make(chan struct{}),
		done: make(chan struct{}), report: record.Beside{Name: n.Name, In: place, First: first}}
	reserve := max(b.reserves[cellKey{w.Label, target}], leastReserve)
	work.round = min(max(time.Duration(reserve*float64(b.span(w, target))), leastRound), longestRound)
	run := wire.Run{Job: job, Work: b.within(job, float64(work.round)/b.units[key])}
	own, stop := context.WithCancel(ctx)
	work.stop = stop
	go work.loop(own, run)
	select {
	case <-work.begun:
		return work, nil
	case <-work.done:
	case <-bounded.Done():
	}
	stop()
	<-work.done
	if work.err == nil {
		work.err = fmt.Errorf("it had not begun after %v", limit.Round(time.Second))
	}
	return nil, b.startFailure(ctx, n, place, at, work.err)
}

// job returns the wire.Job of a neighbour.
func (b *neighbours) job(n *plan.Neighbour, number int, at *target) wire.Job {
	j := wire.Job{Kind: n.Kind, Params: n.Params, Cell: fmt.Sprintf("beside%03d", number), Seed: b.plan.Seed,
		Root: at.Root}
	if k, ok := b.kinds(n.Kind); ok {
		j.Service = k.ServiceKey(n.Params)
	}
	return j
}

// first has a neighbour do its first work before a trial, alone, and returns its pace.
func (b *neighbours) first(ctx context.Context, key neighbourKey, job wire.Job) (record.Pace, error) {
	if b.units[key] <= 0 {
		got, err := key.agent.Calibrate(ctx, wire.Calibrate{Job: job, TargetNS: int64(firstRound)})
		if err == nil && (got.Work <= 0 || got.ElapsedNS <= 0) {
			err = fmt.Errorf("its pace is not known: %d units of work in %d ns", got.Work, got.ElapsedNS)
		}
		if err != nil {
			return record.Pace{}, err
		}
		b.pace(key, record.Pace{Work: got.Work, NS: got.ElapsedNS})
	}
	work := b.within(job, float64(firstRound)/b.units[key])
	out, err := key.agent.Run(ctx, wire.Run{Job: job, Work: work})
	if err == nil && out.Result.ElapsedNS <= 0 {
		err = fmt.Errorf("its first work took no time")
	}
	if err != nil {
		return record.Pace{}, err
	}
	pace := record.Pace{Work: work, NS: out.Result.ElapsedNS}
	b.pace(key, pace)
	return pace, nil
}

// pace takes a pace of a neighbour into account: the fastest counts, so that no round is too short.
func (b *neighbours) pace(key neighbourKey, p record.Pace) {
	if p.Work <= 0 || p.NS <= 0 {
		return
	}
	if u := float64(p.NS) / float64(p.Work); b.units[key] <= 0 || u < b.units[key] {
		b.units[key] = u
	}
}

// within is an amount of work that one trial of a kind can do, 1 at the least.
func (b *neighbours) within(job wire.Job, work float64) int64 {
	units := max(1, int64(work))
	if k, ok := b.kinds(job.Kind); ok {
		if most := k.WorkLimit(job.Params); most > 0 {
			units = min(units, most)
		}
	}
	return units
}

// span returns the expected time of a cell's trial with its preparation; 0 if it is not known.
func (b *neighbours) span(w *plan.Workload, target string) time.Duration {
	k := cellKey{w.Label, target}
	if d := b.spans[k]; d > 0 {
		return d
	}
	if e, ok := b.plan.Target(target); ok {
		if c := b.table.cells[cellKey{w.Label, e.Like}]; c != nil {
			return c.expected
		}
	}
	return 0
}

// startFailure is the failure of a neighbour that could not start; if the run was cancelled, that is the error.
func (b *neighbours) startFailure(ctx context.Context, n *plan.Neighbour, place string, at *target, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return b.failure(n, place, at.Agent, err)
}

func (b *neighbours) failure(n *plan.Neighbour, place string, agent Agent, err error) *record.Failure {
	kind := kindNeighbourFailed
	if !agent.Alive() {
		kind = kindNeighbourDied
	}
	f := b.newFailure(n, place, kind, err.Error())
	f.Evidence = failure(kind, err).Evidence
	return f
}

func (b *neighbours) newFailure(n *plan.Neighbour, place, kind, why string) *record.Failure {
	return &record.Failure{Kind: kind, Message: fmt.Sprintf("the neighbour %s (%s in %s) was not at work: %s", n.Name,
		n.Label, place, why)}
}

// end stops a neighbour after a trial that began, with its preparation, at began. It returns the work that the
// neighbour did, and a *record.Failure if that was too little for the trial to count. A nil neighbour did nothing.
func (b *neighbours) end(ctx context.Context, w *plan.Workload, target string, n *neighbourRun, began time.Time,
	out *deploy.Outcome) (*record.Beside, error) {
	if n == nil {
		return nil, nil
	}
	took := time.Since(began)
	n.await(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if n.err != nil {
		return nil, b.failure(n.neighbour, n.place, n.agent, fmt.Errorf("it ended during the trial: %w", n.err))
	}
	if out.ControllerNS <= 0 {
		return nil, nil // the trial itself has failed
	}
	cell := cellKey{w.Label, target}
	b.spans[cell] = took
	for _, r := range n.finished {
		b.pace(n.key, r.pace)
	}
	begin, end := timed(out)
	report := n.during(begin, end)
	if report.Covered < wellCovered {
		b.reserves[cell] = min(2*max(b.reserves[cell], leastReserve), mostReserve)
	}
	switch {
	case report.During.Work == 0:
		return nil, b.newFailure(n.neighbour, n.place, kindNeighbourFailed,
			"its count of work did not grow while the trial was timed")
	case report.Covered < leastCovered:
		return nil, b.newFailure(n.neighbour, n.place, kindNeighbourFailed,
			fmt.Sprintf("it worked for %.0f %% of the time in which the trial was timed", 100*report.Covered))
	}
	return &report, nil
}

// timed returns the begin and the end of the timed part of a trial, by the controller's clock.
func timed(o *deploy.Outcome) (begin, end time.Time) {
	begin = o.Start.Add(time.Duration(o.SetupNS))
	return begin, begin.Add(time.Duration(o.ControllerNS))
}

// neighbourRun is a neighbour that works.
type neighbourRun struct {
	neighbour *plan.Neighbour
	place     string
	agent     Agent
	key       neighbourKey
	round     time.Duration // how long a round takes at the least
	report    record.Beside
	begun     chan struct{} // closed when it is at work
	done      chan struct{} // closed when it has ended
	stop      context.CancelFunc

	mu       sync.Mutex
	last     bool // this round is the last
	finished []round

	err error // why it ended, if not because it was told to; valid once done
}

// round is a round of work that has ended.
type round struct {
	begin, end time.Time
	pace       record.Pace
}

// loop works until it is told to end.
func (n *neighbourRun) loop(ctx context.Context, run wire.Run) {
	defer close(n.done)
	var once sync.Once
	for {
		out, err := n.agent.RunTold(ctx, run, func(bool) { once.Do(func() { close(n.begun) }) })
		if err != nil {
			if ctx.Err() == nil || !n.agent.Alive() {
				n.err = err
			}
			return
		}
		if n.add(&out, run.Work) || ctx.Err() != nil {
			return
		}
	}
}

// add notes a round, and tells whether it was the last.
func (n *neighbourRun) add(out *deploy.Outcome, work int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	begin, end := timed(out)
	n.finished = append(n.finished, round{begin, end, record.Pace{Work: work, NS: out.Result.ElapsedNS}})
	return n.last
}

// await lets the round that is under way end, for a bounded time, and then ends the neighbour. When it returns, nothing
// of it works any more.
func (n *neighbourRun) await(ctx context.Context) {
	n.mu.Lock()
	n.last = true
	n.mu.Unlock()
	defer n.stop()
	late := time.NewTimer(lastRoundTime + lastRounds*n.round)
	defer late.Stop()
	select {
	case <-n.done:
		return
	case <-ctx.Done():
	case <-late.C:
	}
	n.stop()
	<-n.done
}

// during returns the work that the neighbour did between two times.
func (n *neighbourRun) during(begin, end time.Time) record.Beside {
	n.mu.Lock()
	defer n.mu.Unlock()
	report := n.report
	covered := time.Duration(0)
	for _, r := range n.finished {
		if !r.end.After(begin) || !r.begin.Before(end) {
			continue
		}
		report.During.Work += r.pace.Work
		report.During.NS += r.pace.NS
		from, to := r.begin, r.end
		if from.Before(begin) {
			from = begin
		}
		if to.After(end) {
			to = end
		}
		covered += to.Sub(from)
	}
	if length := end.Sub(begin); length > 0 {
		report.Covered = min(1, covered.Seconds()/length.Seconds())
	}
	return report
}

// starved warns of a trial during which tare itself waited so long for a processor.
func starved(waited time.Duration) []record.Warning {
	if waited <= 0 {
		return nil
	}
	return []record.Warning{{Code: "controller-starved",
		Text: fmt.Sprintf("tare itself waited %.1f s for a processor while this trial ran beside its neighbour, so "+
			"what it timed itself, and how much of the trial the neighbour worked, is that uncertain",
			waited.Seconds()),
		Remedy: "leave tare a processor: limit the neighbour (nice=, cpus=), or give it fewer threads"}}
}

// loseNeighbours gives up all targets whose neighbours are in an environment that is lost, as a trial of one of them
// shows. It is told once.
func (x *trialRunner) loseNeighbours(t *record.Trial) {
	_, _, place := x.neighbours.of(t.Target)
	lost, ok := x.plan.Target(place)
	if !ok {
		return
	}
	for i := range x.plan.Targets {
		name := x.plan.Targets[i].Name
		_, _, in := x.neighbours.of(name)
		e, ok := x.plan.Target(in)
		if o := x.table.targets[name]; ok && e.Place() == lost.Place() && o != nil && o.dead == nil {
			o.dead = t.Error
		}
	}
	x.reporter.keep(fmt.Sprintf("%s-%d-lost.txt", place, x.journal.session), t.Error)
	x.reporter.tell(Event{Kind: Dropped, Target: place, Failure: t.Error})
}

// openBeside makes the targets with neighbours of those without, once all environments are open. They share all that
// is open. One whose neighbour has nowhere to run is not opened, and says why.
func (o *envOpener) openBeside() {
	for i := range o.plan.Targets {
		e := &o.plan.Targets[i]
		n, ok := o.plan.Neighbour(e.Beside)
		if !ok {
			continue
		}
		rec := record.Environment{Target: record.Target{Name: e.Name, Spec: e.Text, Of: e.Of, Like: e.Like,
			Beside: e.Beside},
			Session: o.journal.session}
		like, in := o.table.targets[e.Like], o.table.targets[n.In[e.Like]]
		switch {
		case like == nil || like.dead != nil:
			rec.Error = notOpen(e.Name, e.Like, like)
		case in == nil || in.dead != nil:
			rec.Error = notOpen(e.Name, n.In[e.Like], in)
		}
		o.journal.envs = append(o.journal.envs, rec)
		if rec.Error != nil {
			o.table.targets[e.Name] = &target{dead: rec.Error}
			continue
		}
		same := like.Target
		same.Close, same.Mounts, same.Record.Name = nil, nil, e.Name
		o.table.targets[e.Name] = &target{Target: same}
	}
}

func notOpen(name, needed string, t *target) *record.Failure {
	why := "it is not in the plan"
	if t != nil && t.dead != nil {
		why = t.dead.Message
	}
	return &record.Failure{Kind: "open", Message: fmt.Sprintf("%s: %s did not open: %s", name, needed, why)}
}

// withNeighbours gives the targets that have a neighbour the work of those without, and warms them up.
func (k *calibrator) withNeighbours(ctx context.Context, w *plan.Workload) error {
	for j := range k.plan.Targets {
		e := &k.plan.Targets[j]
		c := k.table.cells[cellKey{w.Label, e.Name}]
		if e.Beside == "" || c == nil {
			continue
		}
		if k.asAlone(w, e, c) == nil || !k.table.alive(w, e.Name) {
			continue
		}
		if k.budget.overrun(c.expected) {
			return errBudget
		}
		if err := k.trials.trial(ctx, w, record.Trial{Target: e.Name}); err != nil {
			return err
		}
	}
	return nil
}
