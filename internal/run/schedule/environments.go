package schedule

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
)

// envOpener opens the plan's environments and closes them.
type envOpener struct {
	plan     *plan.Plan
	opener   Opener
	table    *table
	journal  *journal
	budget   *budget
	reporter *reporter
	costs    *openingCosts
	sets     map[string]*copySet // by environment
}

// openAll opens every environment of the plan. Only a lost baseline, a full disk, a spent budget or the end of the
// context is an error.
func (o *envOpener) openAll(ctx context.Context) error {
	ctx, end := o.budget.context(ctx)
	defer end()
	o.costs.open = 0
	for i := range o.plan.Targets {
		e := &o.plan.Targets[i]
		if !e.Opens() {
			continue // opened with the environment it is in
		}
		if o.budget.overrun(0) {
			return errBudget
		}
		mounts := o.plan.Mounts(e.Name)
		o.reporter.tell(Event{Kind: Opening, Target: e.Name})
		began, before := time.Now(), o.budget.spent()
		t, err := o.opener.Open(ctx, e, mounts, o.journal.session)
		o.costs.open += o.budget.spent() - before
		o.journal.envs = append(o.journal.envs, t.Record)
		if err != nil {
			f := failure("open", err)
			if err := ended(ctx); err == errBudget {
				o.journal.envs[len(o.journal.envs)-1].Error, o.budget.cut = f, true
				return cmp.Or(o.journal.sink.Environments(o.journal.envs), err)
			} else if err != nil {
				return err
			}
			o.journal.envs[len(o.journal.envs)-1].Error = f
			if err := o.unopened(e, f); err != nil {
				return err
			}
			for _, m := range mounts {
				f := &record.Failure{Kind: "open",
					Message: fmt.Sprintf("%s: its environment did not open: %s", m.Name, f.Message)}
				o.journal.envs = append(o.journal.envs,
					record.Environment{Session: o.journal.session, Target: record.Target{Name: m.Name, Spec: m.Text,
						Of: m.Of, Error: f}})
				if err := o.unopened(m, f); err != nil {
					return err
				}
			}
			continue
		}
		for n, retry := range t.Record.Retries {
			o.reporter.keep(fmt.Sprintf("%s-%d-retry%d.txt", e.Name, o.journal.session, n+1), &retry)
		}
		o.table.targets[e.Name] = &target{Target: t}
		o.reporter.tell(Event{Kind: Opened, Target: e.Name, Elapsed: time.Since(began)})
		for n, m := range mounts {
			mt := &t.Mounts[n]
			if err := o.tryOut(ctx, m, mt); err != nil {
				return err
			}
			o.journal.envs = append(o.journal.envs, mt.Record)
			if mt.Err != nil {
				f := failure("open", mt.Err)
				o.journal.envs[len(o.journal.envs)-1].Error = f
				if err := o.unopened(m, f); err != nil {
					return err
				}
				continue
			}
			o.table.targets[m.Name] = &target{Target: Target{Agent: t.Agent, Root: mt.Root, Record: mt.Record,
				DropHostCache: t.DropHostCache, HostThreads: t.HostThreads, HostProcesses: t.HostProcesses,
				HostAgent: t.HostAgent, HostMemory: t.HostMemory, HostExits: t.HostExits, Served: mt.Served}}
			o.reporter.tell(Event{Kind: Opened, Target: m.Name, Elapsed: time.Duration(mt.Record.OpenNS)})
		}
	}
	o.openBeside()
	o.beginCopies()
	return o.journal.sink.Environments(o.journal.envs)
}

// tryOut makes a mount's card where the plan asks for cards: once, since it is the same in every session. A card that
// cannot be made is no reason not to measure.
func (o *envOpener) tryOut(ctx context.Context, m *plan.Target, mt *MountTarget) error {
	if !o.plan.Cards || mt.Err != nil || mt.Card == nil || o.journal.session > 1 {
		return nil
	}
	o.reporter.tell(Event{Kind: Trying, Target: m.Name})
	card, err := mt.Card(ctx)
	if err := ended(ctx); err != nil {
		return err
	}
	if err != nil {
		o.reporter.log.Warn("make semantics card", "target", m.Name, "error", err)
	}
	mt.Record.Card = card
	return nil
}

// unopened notes a target that cannot be had. It is an error only for the baseline.
func (o *envOpener) unopened(e *plan.Target, f *record.Failure) error {
	o.table.targets[e.Name] = &target{dead: f}
	o.reporter.keep(fmt.Sprintf("%s-%d-open.txt", e.Name, o.journal.session), f)
	o.reporter.tell(Event{Kind: OpenFailed, Target: e.Name, Failure: f})
	if e.Name == o.plan.Baseline {
		o.journal.sink.Environments(o.journal.envs)
		return fmt.Errorf("%w: %s", ErrBaseline, f.Message)
	}
	return nil
}

// closedAtOnce is the number of environments that are closed at the same time. Each may wait for one that does not
// answer any more, and the user for all of them. The effect on another environment's mounts is its driver's affair.
const closedAtOnce = 8

// closeAll closes every environment, and tells in the plan's order of those that could not be closed.
func (o *envOpener) closeAll() {
	errs := make([]error, len(o.plan.Targets))
	room := make(chan struct{}, closedAtOnce)
	var closing sync.WaitGroup
	for i := range o.plan.Targets {
		t := o.table.targets[o.plan.Targets[i].Name]
		if t == nil || t.Target.Close == nil {
			continue
		}
		closing.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			errs[i] = t.Target.Close()
		})
	}
	closing.Wait()
	for i, err := range errs {
		if err != nil {
			o.reporter.log.Warn("close environment", "env", o.plan.Targets[i].Name, "error", err)
		}
	}
	o.table.targets = map[string]*target{}
	o.table.cells = map[cellKey]*cell{}
}
