package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Deadlines. A trial may take far longer than expected, because a stalled environment is a measurement and not an
// error; but not for ever.
const (
	leastTrialDeadline   = 2 * time.Minute
	trialDeadlineFactor  = 20
	maxDiscardedShare    = 5 // at most one block in this many is discarded for what the host did
	discardSteal         = 0.10
	ruleSteal            = "host steal above 10 % of a block"
	ruleThrottle         = "thermal throttling of the host during a block"
	kindEnvironmentDied  = "environment-died"
	kindDeadlineExceeded = "timeout"
	kindServerDied       = "server-died"
)

// giveUp drops a cell, and its whole target when the agent there is gone.
func (r *runner) giveUp(w *plan.Workload, e string, c *cell, f *record.Failure) {
	c.dead = f
	if t := r.targets[e]; t.Agent != nil && !t.Agent.Alive() || f.Kind == kindServerDied {
		r.lose(e, f)
		return
	}
	r.keep(fmt.Sprintf("%s-%d-%s.txt", e, r.session, r.cellName(w)), f)
	r.Events(Event{Kind: Dropped, Workload: w.Label, Target: e, Failure: f})
}

// cellName names the cell's directory in every target.
func (r *runner) cellName(w *plan.Workload) string {
	for i := range r.Plan.Workloads {
		if r.Plan.Workloads[i].Label == w.Label {
			return fmt.Sprintf("cell%03d", i)
		}
	}
	return "cell"
}

func (r *runner) job(ctx context.Context, w *plan.Workload, target string) wire.Job {
	return wire.Job{Kind: w.Kind, Params: w.Params, Cell: r.cellName(w), Seed: r.Plan.Seed, Root: r.targets[target].Root, Peer: r.peer(ctx, w, target)}
}

// block runs one block of a workload: one trial in each living target and the null control, in the block's order.
func (r *runner) block(ctx context.Context, w *plan.Workload) error {
	r.blocks[w.Label]++
	n := r.blocks[w.Label]
	slots := []record.Trial{{Target: r.Plan.Baseline}}
	for _, base := range r.Plan.Bases(w) {
		if r.alive(w, base) {
			slots = append(slots, record.Trial{Target: base, Slot: record.NullSlot})
		}
	}
	for j := range r.Plan.Targets {
		if e := r.Plan.Targets[j].Name; e != r.Plan.Baseline && w.On(e) && r.alive(w, e) {
			slots = append(slots, record.Trial{Target: e})
		}
	}
	r.Quiet.reset()
	stopped := r.stops.sofar()
	order := Orders(r.Plan.Seed, fmt.Sprintf("%s/%d", w.Label, r.session), len(slots))(n)
	for position, slot := range order {
		t := slots[slot]
		if !r.alive(w, t.Target) {
			continue
		}
		t.Block, t.Position = n, position
		if err := r.trial(ctx, w, t); err != nil {
			return err
		}
	}
	rule := r.stops.since(stopped).rule()
	if rule == "" {
		rule = r.noisy()
	}
	if rule != "" {
		r.Events(Event{Kind: BlockLost, Workload: w.Label, Block: n, Text: rule})
		return r.append(&record.Trial{Workload: w.Label, Block: n, Start: time.Now(), Discarded: rule})
	}
	r.kept[w.Label]++
	r.Events(Event{Kind: BlockDone, Workload: w.Label, Block: r.kept[w.Label], Left: r.left()})
	return nil
}

// noisy is the rule by which the host spoilt the block that just ended; "" when it did not, or did so too often: then the
// host is noisy, and the figures say so.
func (r *runner) noisy() string {
	rule := r.Quiet.verdict()
	if rule == "" || (r.discards+1)*maxDiscardedShare > r.totalBlocks() {
		return ""
	}
	r.discards++
	return rule
}

// totalBlocks is the number of blocks begun in the whole run.
func (r *runner) totalBlocks() int {
	n := r.past
	for _, b := range r.blocks {
		n += b
	}
	return n
}

// trial runs one trial and puts it on disk, whatever came of it. An error means that the run cannot go on.
func (r *runner) trial(ctx context.Context, w *plan.Workload, t record.Trial) error {
	c := r.cells[cellKey{w.Label, t.Target}]
	t.Workload, t.Work, t.Inject = w.Label, c.work, r.Inject[t.Target]
	t.Host = r.Quiet.wait(ctx)
	r.Events(Event{Kind: TrialBegin, Workload: w.Label, Target: t.Target, Block: t.Block, Warmup: t.Warmup()})
	began, before := time.Now(), r.stops.sofar()
	deadline := max(leastTrialDeadline, trialDeadlineFactor*c.expected)
	if !c.known { // its work comes from the plan: in a run that is repeated or resumed
		deadline = max(deadline, r.patience(w))
	}
	at := r.targets[t.Target]
	tctx, cancel := at.whileServed(ctx, deadline)
	var out deploy.Outcome
	err := r.dropHostCache(tctx, w, t.Target)
	if err == nil {
		out, err = at.Agent.Run(tctx, wire.Run{Job: r.job(tctx, w, t.Target), Work: c.work, Inject: t.Inject, Warmup: t.Warmup()})
	}
	cancel()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.Start, t.AgentNS, t.ControllerNS = out.Start, out.Result.ElapsedNS, out.ControllerNS
	t.RTTNS, t.RTTSpreadNS, t.SetupNS = out.RTTNS, out.RTTSpreadNS, out.SetupNS
	t.Metrics, t.Checks, t.State, t.Warnings = out.Result.Metrics, out.Result.Checks, out.Result.State, out.Result.Warnings
	t.Samples, t.Error = out.Samples, out.Result.Error
	t.Warnings = append(t.Warnings, r.doubtCold(w, t.Target)...)
	if t.Start.IsZero() {
		t.Start = began
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = &record.Failure{Kind: kindDeadlineExceeded, Message: fmt.Sprintf("the trial had not ended after %v", deadline.Round(time.Second))}
		}
		t.Error = failure(kindEnvironmentDied, err)
	}
	t.Error = r.blamePeer(w, at.blame(t.Error))
	if err := r.append(&t); err != nil {
		return err
	}
	r.Events(Event{Kind: TrialDone, Workload: w.Label, Target: t.Target, Block: t.Block, Warmup: t.Warmup(), Elapsed: time.Since(began), Trial: &t})
	stopped := r.stops.since(before)
	if t.Error == nil {
		c.failures, c.known = 0, true
		c.seen(t.Work, t.AgentNS)
		c.expected = (c.expected + time.Since(began) - stopped.total) / 2
		return nil
	}
	if stopped.times > 0 && r.targets[t.Target].Agent.Alive() {
		return nil // its deadline may have passed meanwhile, which says nothing of the cell
	}
	c.failures++
	if c.failures >= verdict.GivenUp || !at.Agent.Alive() || t.Warmup() || t.Error.Kind == kindServerDied || t.Error.Kind == kindPeerDied {
		r.giveUp(w, t.Target, c, t.Error)
	}
	if d := r.targets[r.Plan.Baseline].dead; d != nil {
		return fmt.Errorf("%w: %s: %s", ErrBaseline, r.Plan.Baseline, d.Message)
	}
	return nil
}

// kindCacheState is the failure of a cache that could not be brought into the state the plan asks for.
const kindCacheState = "cache-state"

// dropHostCache drops the host's caches where the workload begins cold.
func (r *runner) dropHostCache(ctx context.Context, w *plan.Workload, target string) error {
	t := r.targets[target]
	if !r.hostCold(w) || t.DropHostCache == nil {
		return nil
	}
	if err := t.DropHostCache(ctx); err != nil {
		return &record.Failure{Kind: kindCacheState, Message: fmt.Sprintf("drop the host's caches of %s: %v; use cache=guest-cold, which leaves them", target, err)}
	}
	return nil
}

func (r *runner) hostCold(w *plan.Workload) bool {
	k, ok := r.Kinds(w.Kind)
	return ok && k.HostCold != nil && k.HostCold(w.Params)
}

// here is what the controller's own machine is.
var here = sync.OnceValue(func() record.Facts { return sysinfo.Collect(context.Background(), "") })

// doubtCold doubts a trial that is to begin cold in an environment with another kernel than the controller's, where no
// driver can drop what lies beneath it: its agent dropped what its own kernel cached, and sees no more.
func (r *runner) doubtCold(w *plan.Workload, target string) []record.Warning {
	t := r.targets[target]
	if !r.hostCold(w) || t.DropHostCache != nil {
		return nil
	}
	in := t.Record.Inside
	if of := r.targets[t.Record.Of]; of != nil { // a mount's kernel is its environment's
		in = of.Record.Inside
	}
	if in.Kernel == here().Kernel && in.Extra["hypervisor.vm"] == here().Extra["hypervisor.vm"] {
		return nil
	}
	return []record.Warning{{Code: "host-not-cold", Text: "the environment's own caches were dropped before the trial; what a host or a server beneath it caches was not, and may answer for the disk",
		Remedy: "drop that machine's caches yourself before each run, or weigh with cache=guest-cold, which does not promise it"}}
}

func printable(b []byte) string { return proc.Printable(b) }
