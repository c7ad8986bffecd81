package schedule

import (
	"context"
	"fmt"
	"math"
	"time"

	"tare/internal/run/tracing"
)

const (
	// mostStopped bounds the timed part of a trial that ptrace stops at each call.
	mostStopped = 2 * time.Second
	// enoughStopped is the shortest timed part from which the time of a unit of work can be told.
	enoughStopped = 50 * time.Millisecond
	// The share of a trial's work that is tried first, and the factor by which it grows while that is too short.
	firstShare, shareGrowth = 1.0 / 1024, 8
)

// shorten finds the share of their work that the traced trials do. Work that does nothing but system calls takes a
// hundred times as long where each is stopped, and a few rounds would take many minutes. Both sides do the same share,
// so that what is done once in a trial weighs about as much in both.
func (x *repeater) shorten(ctx context.Context, sides []string) error {
	if k, ok := x.trials.kinds(x.w.Kind); ok && k.SameWork {
		return nil // its units differ from each other
	}
	for _, target := range sides {
		roots, _, within := x.traceRoots(target)
		here := roots.Agent > 0 && x.Tracer.Way == tracing.Ptrace
		if !here && (within == nil || within.way != tracing.Ptrace) {
			continue
		}
		all := x.table.cells[cellKey{x.w.Label, target}].work
		share, err := stoppedShare(all, func(share float64) (work, ns int64, err error) {
			defer x.withShare(target, share)()
			t, err := x.traceTrial(ctx, target, here, within, roots, &RepeatedTrial{})
			if err == nil && t.Error != nil {
				err = fmt.Errorf("%s in %s: %w", x.w.Label, target, t.Error)
			}
			if err != nil {
				return 0, 0, err
			}
			return t.Work, t.AgentNS, nil
		})
		if err != nil {
			return err
		}
		x.res.Share = min(x.res.Share, share)
	}
	return nil
}

// stoppedShare is the share of so much work that takes mostStopped at the most, or that of one unit, of trials that do
// a share and say how much work that was and how long its timed part took.
func stoppedShare(all int64, try func(share float64) (work, ns int64, err error)) (float64, error) {
	for share := firstShare; all > 1; share = min(1, share*shareGrowth) {
		work, ns, err := try(share)
		if err != nil {
			return 0, err
		}
		if ns > int64(enoughStopped) || work >= all {
			fits := float64(work) * float64(mostStopped) / float64(max(ns, 1))
			return math.Max(1, math.Min(math.Floor(fits), float64(all))) / float64(all), nil
		}
	}
	return 1, nil
}

// withShare gives a target a share of its work, until restore is called.
func (x *repeater) withShare(target string, share float64) (restore func()) {
	c := x.table.cells[cellKey{x.w.Label, target}]
	all := c.work
	c.work = max(1, int64(math.Round(float64(all)*share)))
	return func() { c.work = all }
}
