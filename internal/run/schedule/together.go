package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/unit"
)

// kindCopiesApart is the failure of a trial in which the copies did not work at the same time.
const kindCopiesApart = "copies-apart"

// copyAgents are the agents of several copies of an environment, as one agent: the copies do each trial at the same
// time. Each copy prepares its trial and waits; when the last one is ready, all begin. One copy alone is measured in
// the same way, so that its trials begin as those of the others, which are compared with them.
type copyAgents struct {
	set    *copySet
	copies int // so many of the set
}

// members are the copies that are needed, as far as they are open.
func (c *copyAgents) members() []*Target {
	return c.set.open[:min(c.copies, len(c.set.open))]
}

// Alive implements Agent: all of them are needed.
func (c *copyAgents) Alive() bool {
	return !slices.ContainsFunc(c.members(), func(t *Target) bool { return !t.Agent.Alive() })
}

// Calibrate implements Agent with the calibration of one copy alone.
func (c *copyAgents) Calibrate(ctx context.Context, q wire.Calibrate) (wire.Calibrated, error) {
	return c.set.open[0].Agent.Calibrate(ctx, q)
}

// Supply implements Agent.
func (c *copyAgents) Supply(ctx context.Context, f deploy.File) error {
	for _, t := range c.members() {
		if err := t.Agent.Supply(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// HostPeer implements Agent.
func (c *copyAgents) HostPeer(ctx context.Context, token string) ([]string, error) {
	return c.set.open[0].Agent.HostPeer(ctx, token)
}

// FindPeer implements Agent.
func (c *copyAgents) FindPeer(ctx context.Context, addresses []string, token string) (string, error) {
	return c.set.open[0].Agent.FindPeer(ctx, addresses, token)
}

// Run implements Agent.
func (c *copyAgents) Run(ctx context.Context, run wire.Run) (deploy.Outcome, error) {
	return c.run(ctx, run, func(rtt int64) (int64, error) { return soon(rtt), nil }, nil)
}

// RunTold implements Agent. The end is told when all have ended.
func (c *copyAgents) RunTold(ctx context.Context, run wire.Run, mark func(begins bool)) (deploy.Outcome, error) {
	begun := false
	defer func() {
		if begun {
			mark(false)
		}
	}()
	return c.run(ctx, run, func(rtt int64) (int64, error) { begun = true; mark(true); return soon(rtt), nil }, nil)
}

// RunHeld implements Agent. A worker's offer to others is for one of them, and copies offer nothing. They begin when h
// says, but not before all of them can know when that is.
func (c *copyAgents) RunHeld(ctx context.Context, run wire.Run, h deploy.Held) (deploy.Outcome, error) {
	return c.run(ctx, run, func(rtt int64) (int64, error) {
		at, err := h.Ready(ctx, "", rtt)
		return max(at, soon(rtt)), err
	}, h.Ended)
}

// run does a trial in all copies. It calls ready when all of them wait for their beginning, with the longest round trip
// to one of them; ready says when that is, by wire.Now. It calls ended, if not nil, when the last one's timed part has
// ended.
func (c *copyAgents) run(ctx context.Context, run wire.Run, ready func(rtt int64) (int64, error),
	ended func()) (deploy.Outcome, error) {
	members := c.members()
	if len(members) < c.copies {
		return deploy.Outcome{}, fmt.Errorf("%d of %d copies of %s are open", len(members), c.copies, c.set.of)
	}
	own, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	memory := make([]record.Memory, len(members))
	meet := newBarrier(len(members), func(rtt int64) (int64, error) {
		for i, t := range members {
			if t.HostMemory != nil {
				memory[i], _ = t.HostMemory() // 0: not known
			}
		}
		return ready(rtt)
	})
	outs := make([]deploy.Outcome, len(members))
	var working atomic.Int64
	working.Store(int64(len(members)))
	one := func() {
		if working.Add(-1) == 0 && ended != nil {
			ended()
		}
	}
	var all sync.WaitGroup
	for i, t := range members {
		all.Go(func() {
			out, err := t.Agent.RunHeld(own, run, deploy.Held{Ready: meet.wait, Ended: one})
			if err == nil && out.Result.Error != nil {
				err = out.Result.Error
			}
			if outs[i] = out; err != nil {
				stop(c.failed(i, err)) // the first one counts; the others' work would be of fewer copies
			}
		})
	}
	all.Wait()
	if err := context.Cause(own); err != nil {
		return deploy.Outcome{Start: outs[0].Start}, err
	}
	return c.outcome(outs, memory)
}

// failed says which copy failed.
func (c *copyAgents) failed(which int, err error) error {
	if c.copies == 1 {
		return err
	}
	f := *failure("measure", err)
	f.Message = fmt.Sprintf("copy %d of %d of %s: %s", which+1, c.copies, c.set.of, f.Message)
	return &f
}

// barrier lets several begin together.
type barrier struct {
	mu      sync.Mutex
	missing int
	rtt     int64                                 // the longest that was said, ns
	last    func(rtt int64) (at int64, err error) // called by the last one that comes
	all     chan struct{}
	at      int64 // of last, as err; valid once all is closed
	err     error
}

func newBarrier(n int, last func(rtt int64) (int64, error)) *barrier {
	return &barrier{missing: n, last: last, all: make(chan struct{})}
}

// wait returns when all have come, with the time at which they begin. The error is that of ctx, if it has ended before,
// or of the last one's call.
func (m *barrier) wait(ctx context.Context, _ string, rtt int64) (at int64, err error) {
	m.mu.Lock()
	m.rtt = max(m.rtt, rtt)
	m.missing--
	if m.missing == 0 {
		m.at, m.err = m.last(m.rtt)
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return m.at, m.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// outcome merges the outcomes of all copies into one: the mean of the cost in each.
func (c *copyAgents) outcome(outs []deploy.Outcome, memory []record.Memory) (deploy.Outcome, error) {
	one := outs[0]
	one.Result.Histograms = nil // they are for merged trials, and copies are not merged
	one.Copies = &record.Copies{Covered: overlap(outs)}
	for i := range outs {
		one.Copies.Each = append(one.Copies.Each, record.Copy{NS: outs[i].ControllerNS,
			Metrics: maps.Clone(outs[i].Result.Metrics), Memory: memory[i]})
	}
	if len(outs) == 1 {
		return one, nil
	}
	if one.Copies.Covered < leastCovered {
		one.Result.Figures, one.Account = record.Figures{}, nil
		return one, &record.Failure{Kind: kindCopiesApart, Message: fmt.Sprintf("the %d copies of %s were all at work "+
			"for only %.0f %% of the trial; longer trials (trial=) bring them closer together", c.copies, c.set.of,
			100*one.Copies.Covered)}
	}
	mean := func(of func(o *deploy.Outcome) int64) int64 {
		sum := 0.0
		for i := range outs {
			sum += float64(of(&outs[i]))
		}
		return int64(sum / float64(len(outs)))
	}
	one.ControllerNS = mean(func(o *deploy.Outcome) int64 { return o.ControllerNS })
	one.Result.ElapsedNS = mean(func(o *deploy.Outcome) int64 { return o.Result.ElapsedNS })
	one.RTTNS = mean(func(o *deploy.Outcome) int64 { return o.RTTNS })
	for i := range outs {
		one.RTTSpreadNS = max(one.RTTSpreadNS, outs[i].RTTSpreadNS)
	}
	one.Result.Figures, one.Account = figures(outs), account(outs)
	return one, nil
}

// overlap is the share of the time from the first copy's beginning to the last one's end in which all were at work.
func overlap(outs []deploy.Outcome) float64 {
	var first, lastBegin, firstEnd, last time.Time
	for i := range outs {
		begin, end := timed(&outs[i])
		if i == 0 || begin.Before(first) {
			first = begin
		}
		if begin.After(lastBegin) {
			lastBegin = begin
		}
		if i == 0 || end.Before(firstEnd) {
			firstEnd = end
		}
		if end.After(last) {
			last = end
		}
	}
	if length := last.Sub(first); length > 0 {
		return min(1, max(0, firstEnd.Sub(lastBegin).Seconds()/length.Seconds()))
	}
	return 1
}

// figures are the figures of one copy out of those of all: for each metric the mean of its cost, all samples, and the
// state of the first. Checks are evidence of equal work, so one that differs is none.
func figures(outs []deploy.Outcome) record.Figures {
	f := record.Figures{Metrics: map[string]float64{}, Checks: maps.Clone(outs[0].Result.Checks),
		State: outs[0].Result.State}
	declared := map[string]unit.Metric{}
	for _, m := range outs[0].Result.Declared {
		declared[m.Name] = m
	}
	for name := range outs[0].Result.Metrics {
		m := declared[name] // the cost of an undeclared metric is its value
		if cost, ok := meanCost(outs, name, m); ok {
			f.Metrics[name] = m.Value(cost)
		}
	}
	said := map[string]bool{}
	for i := range outs {
		r := &outs[i].Result
		for name, values := range r.Samples {
			if f.Samples == nil {
				f.Samples = map[string][]float64{}
			}
			f.Samples[name] = append(f.Samples[name], values...)
		}
		for name, value := range r.Checks {
			if f.Checks[name] != value {
				f.Checks[name] = fmt.Sprintf("copy %d differs: %s", i+1, value)
			}
		}
		for _, w := range r.Warnings {
			if !said[w.Code] {
				said[w.Code] = true
				f.Warnings = append(f.Warnings, w)
			}
		}
	}
	for name, values := range f.Samples {
		f.Samples[name] = wire.Thin(values)
	}
	return f
}

// meanCost returns the mean of a metric's cost over the copies. A metric that one of them does not report has none.
func meanCost(outs []deploy.Outcome, name string, m unit.Metric) (float64, bool) {
	sum := 0.0
	for i := range outs {
		v, ok := outs[i].Result.Metrics[name]
		if !ok || m.Better == unit.Higher && v <= 0 {
			return 0, false
		}
		sum += m.Cost(v)
	}
	return sum / float64(len(outs)), true
}

// account is the mean of the accounts of several trials of equal work; nil where one of them has none, or they had
// different numbers of lanes, which cannot be added.
func account(outs []deploy.Outcome) *record.Account {
	mean := &record.Account{Counts: map[string]int64{}, Unmeasured: map[string]string{}}
	for i := range outs {
		a := outs[i].Account
		if a == nil || outs[0].Account == nil || a.Lanes != outs[0].Account.Lanes {
			return nil
		}
		mean.Lanes = a.Lanes
		for name, why := range a.Unmeasured {
			mean.Unmeasured[name] = cmp.Or(mean.Unmeasured[name], why)
		}
	}
	for name := range outs[0].Account.Counts {
		sum := 0.0
		for i := range outs {
			v, ok := outs[i].Account.Counts[name]
			if !ok {
				mean.Unmeasured[name] = cmp.Or(mean.Unmeasured[name], "not measured in every copy")
			}
			sum += float64(v)
		}
		if mean.Unmeasured[name] == "" {
			mean.Counts[name] = int64(sum / float64(len(outs)))
		}
	}
	return mean
}

// closeAll calls all functions, some at a time, and joins their errors.
func closeAll(all []func() error) error {
	errs := make([]error, len(all))
	room := make(chan struct{}, closedAtOnce)
	var closing sync.WaitGroup
	for i, end := range all {
		closing.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			errs[i] = end()
		})
	}
	closing.Wait()
	return errors.Join(errs...)
}
