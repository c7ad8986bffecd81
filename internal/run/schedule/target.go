package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tare/internal/bundle"
	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// Agent is the part of an agent's connection that a run needs; *deploy.Conn implements it.
type Agent interface {
	Calibrate(ctx context.Context, c wire.Calibrate) (wire.Calibrated, error)
	Run(ctx context.Context, run wire.Run) (deploy.Outcome, error)
	Alive() bool
}

// Target is an open environment with its agent.
type Target struct {
	Agent Agent
	// DropHostCache drops what the controller's machine caches of the environment's storage; nil where there is no such cache
	// beneath the environment's own.
	DropHostCache func(ctx context.Context) error
	Root          string // directory below which work is done; empty: the agent's own choice
	// Loopback is the address by which this machine's loopback is reached from inside; Unreached says why it is not.
	Loopback  string
	Unreached error
	// Served is the folder that it is, by which its server is watched; nil for an environment.
	Served *env.Mounted
	Record record.Environment
	// Mounts are the targets inside the environment, in the order of the plan's mounts. They share its agent.
	Mounts []MountTarget
	// Close ends the agent and the environment and removes everything made for them.
	Close func() error
}

// MountTarget is a folder in an environment, or the reason why it is not there.
type MountTarget struct {
	Root   string
	Record record.Environment
	Err    error
	Served *env.Mounted
	// Card tries out how files behave in the folder, for its semantics card.
	Card func(ctx context.Context) ([]record.Property, error)
}

// Opener opens the plan's environments.
type Opener interface {
	// Open returns what is known of the environment also when it fails: then the record carries the failure. A mount that
	// fails does not fail its environment.
	Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error)
}

// target is an open environment in a run.
type target struct {
	Target
	dead *record.Failure
}

// openAll opens every environment of the plan. Only a lost baseline, a full disk, a spent budget or the end of the context
// is an error.
func (r *runner) openAll(ctx context.Context) error {
	ctx, end := r.withinBudget(ctx)
	defer end()
	for i := range r.Plan.Targets {
		e := &r.Plan.Targets[i]
		if e.IsMount() {
			continue // opened with the environment it is in
		}
		if r.overrun(0) {
			return errBudget
		}
		mounts := r.Plan.Mounts(e.Name)
		r.Events(Event{Kind: Opening, Target: e.Name})
		began := time.Now()
		t, err := r.Opener.Open(ctx, e, mounts, r.session)
		r.envs = append(r.envs, t.Record)
		if err != nil {
			f := failure("open", err)
			if err := ended(ctx); err == errBudget {
				r.envs[len(r.envs)-1].Error, r.cut = f, true
				return cmp.Or(r.Sink.Environments(r.envs), err)
			} else if err != nil {
				return err
			}
			r.envs[len(r.envs)-1].Error = f
			if err := r.unopened(e, f); err != nil {
				return err
			}
			for _, m := range mounts {
				f := &record.Failure{Kind: "open", Message: fmt.Sprintf("%s: its environment did not open: %s", m.Name, f.Message)}
				r.envs = append(r.envs, record.Environment{Name: m.Name, Spec: m.Text, Of: m.Of, Session: r.session, Error: f})
				if err := r.unopened(m, f); err != nil {
					return err
				}
			}
			continue
		}
		for n, retry := range t.Record.Retries {
			r.keep(fmt.Sprintf("%s-%d-retry%d.txt", e.Name, r.session, n+1), &retry)
		}
		r.targets[e.Name] = &target{Target: t}
		r.Events(Event{Kind: Opened, Target: e.Name, Elapsed: time.Since(began)})
		for n, m := range mounts {
			mt := &t.Mounts[n]
			if err := r.tryOut(ctx, m, mt); err != nil {
				return err
			}
			r.envs = append(r.envs, mt.Record)
			if mt.Err != nil {
				f := failure("open", mt.Err)
				r.envs[len(r.envs)-1].Error = f
				if err := r.unopened(m, f); err != nil {
					return err
				}
				continue
			}
			r.targets[m.Name] = &target{Target: Target{Agent: t.Agent, Root: mt.Root, Record: mt.Record, DropHostCache: t.DropHostCache, Served: mt.Served}}
			r.Events(Event{Kind: Opened, Target: m.Name, Elapsed: time.Duration(mt.Record.OpenNS)})
		}
	}
	return r.Sink.Environments(r.envs)
}

// tryOut makes a mount's card where the plan asks for cards: once, since it is the same in every session. A card that
// cannot be made is no reason not to measure.
func (r *runner) tryOut(ctx context.Context, m *plan.Target, mt *MountTarget) error {
	if !r.Plan.Cards || mt.Err != nil || mt.Card == nil || r.session > 1 {
		return nil
	}
	r.Events(Event{Kind: Trying, Target: m.Name})
	card, err := mt.Card(ctx)
	if err := ended(ctx); err != nil {
		return err
	}
	if err != nil {
		r.Log.Warn("make semantics card", "target", m.Name, "error", err)
	}
	mt.Record.Card = card
	return nil
}

// unopened notes a target that cannot be had. It is an error only for the baseline.
func (r *runner) unopened(e *plan.Target, f *record.Failure) error {
	r.targets[e.Name] = &target{dead: f}
	r.keep(fmt.Sprintf("%s-%d-open.txt", e.Name, r.session), f)
	r.Events(Event{Kind: OpenFailed, Target: e.Name, Failure: f})
	if e.Name == r.Plan.Baseline {
		r.Sink.Environments(r.envs)
		return fmt.Errorf("%w: %s", ErrBaseline, f.Message)
	}
	return nil
}

// closedAtOnce is how many environments are closed at the same time. Each may wait for one that does not answer any more,
// and the user for all of them; what one environment is to another's mounts is its driver's affair.
const closedAtOnce = 8

// closeAll closes every environment, and tells in the plan's order of those that could not be closed.
func (r *runner) closeAll() {
	errs := make([]error, len(r.Plan.Targets))
	room := make(chan struct{}, closedAtOnce)
	var closing sync.WaitGroup
	for i := range r.Plan.Targets {
		t := r.targets[r.Plan.Targets[i].Name]
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
			r.Log.Warn("close environment", "env", r.Plan.Targets[i].Name, "error", err)
		}
	}
	r.targets = map[string]*target{}
	r.cells = map[cellKey]*cell{}
}

// lose gives a target up for the rest of the session.
func (r *runner) lose(name string, f *record.Failure) {
	if t := r.targets[name]; t != nil && t.dead == nil {
		t.dead = f
		r.keep(fmt.Sprintf("%s-%d-lost.txt", name, r.session), f)
		r.Events(Event{Kind: Dropped, Target: name, Failure: f})
	}
}

// keep writes the evidence of a failure into the bundle; where there is none, what is known of it. That a piece of evidence could not be kept never ends a run; if the disk is
// full, the next trial says so.
func (r *runner) keep(name string, f *record.Failure) {
	text := cmp.Or(f.Evidence, f.Message)
	if r.Evidence == nil || text == "" {
		return
	}
	if _, err := r.Evidence.Evidence(bundle.EvidenceName(name), []byte(text)); err != nil {
		r.Log.Warn("keep evidence", "file", name, "error", err)
	}
}

// failure turns an error into its record.
func failure(kind string, err error) *record.Failure {
	if f, ok := errors.AsType[*record.Failure](err); ok {
		return f
	}
	f := &record.Failure{Kind: kind, Message: err.Error()}
	if o, ok := errors.AsType[*env.OpenError](err); ok {
		f.Evidence = printable(o.Evidence)
	}
	if h, ok := errors.AsType[*deploy.HandshakeError](err); ok && f.Evidence == "" {
		f.Evidence = printable(h.Evidence())
	}
	return f
}
