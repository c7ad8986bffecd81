package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tare/internal/lab/deploy"
	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/stats"
)

// The row of the account: about how long the timed part of a trial is, and how many trials of each side a run has.
const (
	accountTrial  = 300 * time.Millisecond
	accountRounds = 8
)

// accountRow compares trials with themselves, but for the readings of the account.
func accountRow() row {
	return row{
		name: "account", what: "trials of 0.3 s with the account of their time, which is read before and after the " +
			"timed part",
		peer: "the same trials without it", open: openAccount,
		figures: []figure{
			{name: "rate in the timed part", unit: "events/s", goal: 0.998},
			{name: "time of a whole trial", unit: "s", goal: 1.002, atMost: true},
			{name: "time of its readings, of 0.3 s", unit: "%", goal: 0.2, atMost: true, alone: true},
		},
	}
}

// accountSides does trials with and without the account. Neighbours are to be as alike as can be, so a run of either
// side is a run of both: trials in turn, in an order drawn for each two of them. The side that is asked second gives
// what was found then.
type accountSides struct {
	*weighing
	b     *bench
	got   [2][]float64      // figures of the side with and of the side without, until they are taken
	lacks map[string]string // counts that the account does not have here, with the reasons
}

func openAccount(ctx context.Context, b *bench) (*contest, error) {
	path, err := b.buildTare(ctx)
	if err != nil {
		return nil, err
	}
	a := &accountSides{b: b}
	if a.weighing, err = b.weighWithTare(ctx, path); err != nil {
		return nil, err
	}
	if _, err := a.trial(ctx, false); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &contest{
		tare: a.side(0), peer: a.side(1),
		notes: []string{
			a.note("events"),
			fmt.Sprintf("a run of either side is %d trials with and %d without the account, in turn in one agent, "+
				"which is tare itself, as on the host; its figures are medians", accountRounds, accountRounds),
			"time of a whole trial: by the controller's clock from the request to the last answer, with 0.3 s in the " +
				"place of the timed part, whose own noise is larger than the account",
		},
		after: func() []string {
			notes := a.doubts()
			if why := a.lacks[record.CyclesUser]; why != "" {
				notes = append(notes, "the counters of the processor are not in it: "+why)
			}
			return notes
		},
		close: a.close,
	}, nil
}

// weighWithTare opens this machine with tare as the agent, and finds the work of a trial.
func (b *bench) weighWithTare(ctx context.Context, path string) (*weighing, error) {
	info, ok := drivers.Drivers().Lookup("local")
	if !ok {
		return nil, errors.New("there is no driver local")
	}
	dir, err := os.MkdirTemp(b.dir, "account-")
	if err != nil {
		return nil, err
	}
	store := deploy.NewStore(filepath.Join(dir, "agents"))
	store.Use(runtime.GOOS, runtime.GOARCH, path)
	e, err := info.Driver.Open(ctx, env.Options{Spec: env.Spec{Name: "host", Driver: "local"}, RunID: b.runID,
		Dir: dir, Agents: store, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	s, err := b.greet(ctx, e)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	w := &weighing{session: s, close: func() error { return errors.Join(s.Close(), e.Close(), store.Close()) },
		job: wire.Job{Kind: "cpu.prime", Params: map[string]string{"threads": "1"}, Cell: "bench", Seed: b.seed}}
	c, err := s.Calibrate(ctx, wire.Calibrate{Job: w.job, TargetNS: int64(accountTrial)})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("calibrate %s: %w", w.job.Kind, err), w.close())
	}
	w.work = c.Work
	return w, nil
}

// side gives the figures of the trials with the account (0) or without it (1).
func (a *accountSides) side(which int) side {
	return func(ctx context.Context) ([]float64, error) {
		if a.got[which] == nil {
			if err := a.both(ctx); err != nil {
				return nil, err
			}
		}
		got := a.got[which]
		a.got[which] = nil
		return got, nil
	}
}

// both runs the trials of both sides.
func (a *accountSides) both(ctx context.Context) error {
	var seen [2][3][]float64
	for range accountRounds {
		first := a.b.rng.IntN(2)
		for _, which := range [2]int{first, 1 - first} {
			figures, err := a.trial(ctx, which == 1)
			if err != nil {
				return err
			}
			for i, v := range figures {
				seen[which][i] = append(seen[which][i], v)
			}
		}
	}
	for which := range seen {
		a.got[which] = nil
		for _, values := range seen[which] {
			a.got[which] = append(a.got[which], stats.Median(values))
		}
	}
	return nil
}

// trial runs one trial and returns the row's figures.
func (a *accountSides) trial(ctx context.Context, bare bool) (figures [3]float64, err error) {
	began := time.Now()
	o, err := a.session.Run(ctx, wire.Run{Job: a.job, Work: a.work, Bare: bare})
	whole := time.Since(began).Seconds()
	if err != nil {
		return figures, err
	}
	timed := float64(o.Result.ElapsedNS) / 1e9
	if o.Account == nil || !(timed > 0) {
		return figures, errors.New("the trial took no time")
	}
	read, ok := o.Account.Counts[record.AccountNS]
	switch {
	case !bare && !ok:
		return figures, missing{"this system has no counters around a trial but those of its process"}
	case bare && ok:
		return figures, errors.New("the account of a trial was read that was to do without")
	case !bare:
		a.lacks = o.Account.Unmeasured
	}
	return [3]float64{float64(a.work) / timed, whole - timed + accountTrial.Seconds(),
		100 * float64(read) / float64(accountTrial)}, nil
}
