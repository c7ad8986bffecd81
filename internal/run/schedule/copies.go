package schedule

import (
	"context"
	"fmt"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/thread"
)

// kindBelowFloor marks a number of copies that was not tried, because fewer of them were far below the floor.
const kindBelowFloor = "below-floor"

// farBelow is the share of the floor below which the fastest of some warm-up trials is enough to try no more copies.
const (
	farBelow     = 0.75
	warmUpsBelow = 3
)

// Memory of this machine that must be left when another copy is opened: a fixed part, and as much as the largest copy
// before it took, with room to work.
const (
	spareMemory = 256 << 20
	roomToWork  = 1.5
)

// copySet are the copies of one environment that are open. The first one is the environment itself. Further ones are
// opened when work is to be done in so many, so that none is there that nobody needs.
type copySet struct {
	of     string
	open   []*Target
	failed *record.Failure // why there are no more
	took   int64           // most memory of this machine that a copy took when it was opened
}

// beginCopies makes the targets of copies, once all environments are open. They hold no copy yet but the first.
func (o *envOpener) beginCopies() {
	o.sets = map[string]*copySet{}
	for i := range o.plan.Targets {
		e := &o.plan.Targets[i]
		if e.Copies == 0 {
			continue
		}
		like := o.table.targets[e.Like]
		if like == nil || like.dead != nil {
			f := notOpen(e.Name, e.Like, like)
			o.table.targets[e.Name] = &target{dead: f}
			o.journal.envs = append(o.journal.envs, o.copiesRecord(e, f))
			continue
		}
		set := o.sets[e.Like]
		if set == nil {
			first := like.Target
			set = &copySet{of: e.Like, open: []*Target{&first}}
			o.sets[e.Like] = set
			like.Agent = &copyAgents{set, 1}
			like.Target.Close = func() error {
				var all []func() error
				for _, t := range set.open {
					all = append(all, t.Close)
				}
				return closeAll(all)
			}
		}
		t := like.Target
		t.Close, t.Mounts, t.HostThreads, t.HostProcesses, t.Record.Name = nil, nil, nil, nil, e.Name
		t.HostExits, t.HostAgent = nil, nil
		t.Agent = &copyAgents{set, e.Copies}
		if t.DropHostCache != nil {
			t.DropHostCache = set.dropHostCaches(e.Copies)
		}
		o.table.targets[e.Name] = &target{Target: t}
	}
}

func (o *envOpener) copiesRecord(e *plan.Target, f *record.Failure) record.Environment {
	return record.Environment{Session: o.journal.session, Target: record.Target{Name: e.Name, Spec: e.Text,
		Like: e.Like, Copies: e.Copies,
		Error: f}}
}

func (s *copySet) dropHostCaches(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, t := range s.open[:min(n, len(s.open))] {
			if err := t.DropHostCache(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// openCopies opens the copies that a target lacks. If that is not possible, the target is given up, and the reason is
// on record. An error ends the run: a full disk, a spent budget or the end of the context.
func (o *envOpener) openCopies(ctx context.Context, e *plan.Target) error {
	set, at := o.sets[e.Like], o.table.targets[e.Name]
	if set == nil || at == nil || at.dead != nil || len(set.open) >= e.Copies {
		return nil
	}
	like, ok := o.plan.Target(e.Like)
	if !ok {
		return nil
	}
	before := set.failed
	bctx, end := o.budget.context(ctx)
	defer end()
	began := time.Now()
	if before == nil {
		o.reporter.tell(Event{Kind: Opening, Target: e.Name})
	}
	for len(set.open) < e.Copies && set.failed == nil {
		if o.budget.overrun(0) {
			return errBudget
		}
		err := o.another(bctx, set, like)
		if err == nil {
			continue
		}
		if err := ended(bctx); err != nil {
			return err
		}
		f := *failure("open", err)
		f.Message = fmt.Sprintf("copy %d of %s did not open: %s", len(set.open)+1, set.of, f.Message)
		set.failed = &f
	}
	rec := o.copiesRecord(e, set.failed)
	rec.OpenNS = int64(time.Since(began))
	o.journal.envs = append(o.journal.envs, rec)
	switch {
	case set.failed == nil:
		o.reporter.tell(Event{Kind: Opened, Target: e.Name, Elapsed: time.Since(began)})
	case before == nil: // it is told once
		o.reporter.keep(fmt.Sprintf("%s-%d-open.txt", e.Name, o.journal.session), set.failed)
		o.reporter.tell(Event{Kind: OpenFailed, Target: e.Name, Failure: set.failed})
		at.dead = set.failed
	default:
		at.dead = set.failed
	}
	return o.journal.sink.Environments(o.journal.envs)
}

// another opens one more copy, if there is memory for it.
func (o *envOpener) another(ctx context.Context, set *copySet, like *plan.Target) error {
	before, err := thread.Available()
	known := err == nil
	if known && before.Bytes < spareMemory+int64(roomToWork*float64(set.took)) {
		return fmt.Errorf("no memory for it: %d MiB are available (%s), and the copies before it took up to %d MiB "+
			"each; "+
			"end other programs, or give each copy less", before.Bytes>>20, before.Limit, set.took>>20)
	}
	copied := *like
	copied.Name = fmt.Sprintf("%s-copy%d", like.Name, len(set.open)+1)
	copied.Spec.Name, copied.Like = copied.Name, like.Name
	t, err := o.opener.Open(ctx, &copied, nil, o.journal.session)
	if err != nil {
		return err
	}
	set.open = append(set.open, &t)
	if after, err := thread.Available(); err == nil && known {
		set.took = max(set.took, before.Bytes-after.Bytes)
	}
	return nil
}

// withCopies gives the targets of copies the work of a single one and warms them up, fewer copies first. When some are
// far below the floor, more of them are not tried, nor opened for that.
func (k *calibrator) withCopies(ctx context.Context, w *plan.Workload) error {
	below := map[string]*record.Failure{} // by environment
	for j := range k.plan.Targets {
		e := &k.plan.Targets[j]
		c := k.table.cells[cellKey{w.Label, e.Name}]
		if e.Copies == 0 || c == nil || c.dead != nil {
			continue
		}
		if f := below[e.Like]; f != nil {
			c.dead = f
			if err := k.journal.append(&record.Trial{Workload: w.Label, Target: e.Name, Start: time.Now(),
				Error: f}); err != nil {
				return err
			}
			continue
		}
		alone := k.asAlone(w, e, c)
		if alone == nil {
			continue
		}
		if err := k.environments.openCopies(ctx, e); err != nil {
			return err
		}
		kept, least := 0.0, farBelow*k.plan.Copies.Floor
		for n := 0; n < warmUpsBelow && kept < least && k.table.alive(w, e.Name); n++ {
			if k.budget.overrun(c.expected) {
				return errBudget
			}
			if err := k.trials.trial(ctx, w, record.Trial{Target: e.Name}); err != nil {
				return err
			}
			if kept = share(alone, c); kept == 0 {
				break // it failed
			}
		}
		if kept > 0 && kept < least {
			below[e.Like] = &record.Failure{Kind: kindBelowFloor, Message: fmt.Sprintf("not tried: with %d copies "+
				"each "+
				"did %.0f %% of what one does alone, far below the floor of %.4g %%", e.Copies, 100*kept,
				100*k.plan.Copies.Floor)}
		}
	}
	return nil
}

// share returns the pace of a copy as a fraction of the pace of one that works alone, by the fastest trials of both; 0
// if one is not known.
func share(alone, c *cell) float64 {
	if alone.unit <= 0 || c.unit <= 0 {
		return 0
	}
	return alone.unit / c.unit
}

// asAlone gives a cell the work of the target that it is like, and returns the cell of that; nil if there is no work.
func (k *calibrator) asAlone(w *plan.Workload, e *plan.Target, c *cell) *cell {
	alone := k.table.cells[cellKey{w.Label, e.Like}]
	if alone == nil || alone.dead != nil || alone.work <= 0 {
		if alone != nil && c.dead == nil {
			c.dead = alone.dead
		}
		return nil
	}
	if !c.frozen {
		c.work, c.frozen = alone.work, true
		w.Work[e.Name] = c.work
	}
	c.expected = max(c.expected, alone.expected)
	return alone
}
