package durability

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/durability"
	"tare/internal/sys/nbd"
)

// Options say what to pull the plug of, and how often.
type Options struct {
	Info   env.Info // the driver
	Spec   env.Spec // the environment; its disk is replaced by one that tare serves
	Able   []string // the drivers that can be tested, for the error of one that cannot
	Agents env.Agents
	RunID  string
	Dir    string // existing private directory; its path must be short, because sockets are made below it
	Log    *slog.Logger

	Cuts    int
	Classes []durability.Class
	Faults  []nbd.Fault // in turn
	By      By
	Seed    uint64 // of the moments, the faults' choices and the data
	// Control is the number of cuts of each control, at least 1.
	Control int
	// Told, where set, is called after each cut.
	Told func(*CutResult)
}

// The moment of a cut after every class has been acknowledged once: at random in between.
const (
	minWait = 100 * time.Millisecond
	maxWait = 1500 * time.Millisecond
	// The cut comes when 1 to maxPending writes wait for a flush, but at most pendingTime later.
	maxPending  = 6
	pendingTime = 500 * time.Millisecond
	// patience is how long all classes may take to be acknowledged once: an interpreted processor is slow.
	patience = 5 * time.Minute
	findTime = 5 * time.Minute
)

// CutResult is one cut and what came of it.
type CutResult struct {
	Target       string         `json:"target"`   // "test", "positive control", "negative control"
	Settings     string         `json:"settings"` // of the machine, as far as they decide: "cache=none"
	Number       int            `json:"cut"`      // from 1, counted through all targets
	Cut          nbd.Cut        `json:"pulled"`
	After        float64        `json:"after"` // seconds from the first write to the cut
	Took         float64        `json:"took"`  // seconds of the whole cycle: write, cut, boot, verify
	Acknowledged int            `json:"acknowledged"`
	ByClass      map[string]int `json:"by_class"` // acknowledged records
	Found        int            `json:"found"`    // records on the disk afterwards, whole or not
	Losses       []Loss         `json:"losses,omitempty"`
	// Unmountable is the guest's message about a disk that it could not mount: then all is lost.
	Unmountable string `json:"unmountable,omitempty"`
}

// lost tells whether something that was promised is gone.
func (p *CutResult) lost() bool {
	for i := range p.Losses {
		if p.Losses[i].Promised {
			return true
		}
	}
	return false
}

// Check returns an error for wrong options.
func (o *Options) Check() error {
	if o.Info.Plug == nil {
		return fmt.Errorf("cut the power of %s: tare must serve the disk itself, which is possible with %s",
			o.Spec.Driver, strings.Join(o.Able, ", "))
	}
	plug, err := o.Info.Plug(o.Spec)
	switch {
	case err != nil:
		return fmt.Errorf("cut the power of %s: %w", o.Spec.Driver, err)
	case !slices.Contains(Ways(), o.By):
		return fmt.Errorf("%q is not one of %v", o.By, Ways())
	case o.By == ByPowerOff && plug.PowerOff == nil:
		return fmt.Errorf("a machine of %s cannot be switched off by its product's own means; use %s or %s",
			o.Spec.Driver, ByDisk, ByKill)
	case o.Cuts < 1 || o.Cuts > 10000 || o.Control < 1:
		return fmt.Errorf("%d cuts are outside 1 to 10000, or %d of each control below 1", o.Cuts, o.Control)
	case len(o.Classes) == 0 || len(o.Faults) == 0:
		return errors.New("no class or no fault is named")
	}
	return nil
}

// Pull does the controls and the test. The positive control goes first: without power the rest says nothing. With an
// error the result tells of the cuts that were made before it, and judges nothing.
func Pull(ctx context.Context, o Options, ledger *Ledger) (r *Result, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	defer func() {
		r.Stopped = err != nil
		r.judge()
	}()
	plug, err := o.Info.Plug(o.Spec)
	if err != nil {
		return nil, err
	}
	r = &Result{Spec: o.Spec.String(), Seed: o.Seed, By: o.By, Settings: plug.Shown}
	for _, c := range o.Classes {
		r.Classes = append(r.Classes, c.String())
	}
	run := func(target string, settings map[string]string, cuts int, faults []nbd.Fault) error {
		m := &machine{Options: &o, spec: o.Spec.With(settings), target: target}
		pulls, err := m.series(ctx, ledger, len(r.Pulls), cuts, faults)
		r.Pulls = append(r.Pulls, pulls...)
		if target == Test {
			r.declared = m.declared
		}
		return err
	}
	if err := run(PositiveControl, plug.Ignored, o.Control, []nbd.Fault{nbd.Drop}); err != nil {
		return r, fmt.Errorf("%s: %w", PositiveControl, err)
	}
	if err := run(Test, nil, o.Cuts, o.Faults); err != nil {
		return r, err
	}
	// Loss in the test is the environment's only where tare itself loses nothing.
	if err := run(NegativeControl, plug.Passed, o.Control, o.Faults); err != nil {
		return r, fmt.Errorf("%s: %w", NegativeControl, err)
	}
	return r, nil
}

// series pulls the plug several times. The machine that verified one round writes the next, where nothing was lost.
func (m *machine) series(ctx context.Context, ledger *Ledger, before, cuts int, faults []nbd.Fault) (pulls []CutResult,
	err error) {
	if m.plug, err = m.Info.Plug(m.spec); err != nil {
		return nil, err
	}
	m.image = filepath.Join(m.Dir, strings.ReplaceAll(m.target, " ", "-")+".img")
	defer func() { err = errors.Join(err, m.close()) }()
	rng := rand.New(rand.NewPCG(m.Seed, uint64(before)))
	rounds := roundsPerImage // on this image; the first is made fresh
	for i := range cuts {
		p := CutResult{Target: m.target, Settings: m.plug.Shown, Number: before + i + 1, ByClass: map[string]int{}}
		if rounds == roundsPerImage {
			rounds = 0
			if err := errors.Join(m.close(), m.format(ctx)); err != nil {
				return pulls, err
			}
		}
		rounds++
		if m.agent == nil {
			if err := m.boot(ctx); err != nil {
				return pulls, err
			}
		}
		began := time.Now()
		acknowledged, err := m.write(ctx, ledger, &p, faults[i%len(faults)], rng)
		if err != nil {
			return pulls, fmt.Errorf("cut %d: %w", p.Number, err)
		}
		found, err := m.verify(ctx, p.Number)
		broken, unmountable := errors.AsType[*UnmountableError](err)
		if err != nil && !unmountable {
			return pulls, fmt.Errorf("cut %d: %w", p.Number, err)
		}
		if unmountable {
			p.Unmountable = broken.Error()
		}
		p.Found, p.Losses, p.Took = len(found), Judge(acknowledged, found), time.Since(began).Seconds()
		pulls = append(pulls, p)
		if m.Told != nil {
			m.Told(&p)
		}
		if len(p.Losses) > 0 {
			rounds = roundsPerImage // a loss may take later rounds with it
		}
	}
	return pulls, nil
}

// write has the agent write until a random moment, at which the plug is pulled. It returns what counts.
func (m *machine) write(ctx context.Context, ledger *Ledger, p *CutResult, fault nbd.Fault,
	rng *rand.Rand) ([]durability.Record, error) {
	wait := minWait + time.Duration(rng.Int64N(int64(maxWait-minWait)))
	seed := rng.Uint64()
	a := newAccount(ledger, p.Number, p.Target)
	names := []string{}
	for _, c := range m.Classes {
		names = append(names, c.String())
	}
	life, end := context.WithCancel(ctx)
	written := make(chan error, 1)
	agent, began, over := m.agent, time.Now(), make(chan struct{})
	defer func() {
		end()
		<-over
	}()
	go func() {
		defer close(over)
		written <- agent.Ledger(life, wire.Ledger{Dir: round(p.Number), Classes: names, Seed: m.Seed,
			Round: uint32(p.Number)}, a.tell)
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !a.has(m.Classes) {
		select {
		case <-a.changed:
		case err := <-written:
			return nil, errors.Join(errors.New("the agent ended before a record of every class was acknowledged"), err)
		case <-limit.C:
			return nil, fmt.Errorf("within %v, not every class had an acknowledged record; leave some out with "+
				"--classes", patience)
		}
	}
	moment := time.NewTimer(wait)
	defer moment.Stop()
	select {
	case <-moment.C:
	case err := <-written: // all that there is room for
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	records, err := a.close()
	if err != nil {
		return nil, err
	}
	p.After = time.Since(began).Seconds()
	p.Cut, err = m.cut(ctx, 1+rng.IntN(maxPending), fault, seed)
	// The agent must have been given up before its connection can be closed.
	err = errors.Join(err, m.env.Close())
	<-over
	err = errors.Join(err, m.close())
	p.Acknowledged = len(records)
	for _, r := range records {
		p.ByClass[r.Class.String()]++
	}
	return records, err
}

// verify boots from what the cut left and has the agent find records.
func (m *machine) verify(ctx context.Context, number int) (found []durability.Record, err error) {
	if err := m.boot(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	names := []string{}
	for _, c := range m.Classes {
		names = append(names, c.String())
	}
	err = m.agent.Ledger(ctx, wire.Ledger{Dir: round(number), Classes: names, Seed: m.Seed, Round: uint32(number),
		Find: true}, func(packed []byte) error {
		rs, err := durability.Unpack(packed)
		found = append(found, rs...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find records: %w", err)
	}
	return found, nil
}
