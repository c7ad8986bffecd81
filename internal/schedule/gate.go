package schedule

import (
	"context"
	"fmt"
	"time"

	"tare/internal/facts"
	"tare/internal/record"
)

// Gate waits before each trial until the controller's machine is quiet, for a bounded time, and remembers what it saw.
// A nil Gate waits for nothing.
type Gate struct {
	watch    *facts.Watcher
	began    time.Time
	waited   time.Duration
	steal    float64
	throttle int64
}

// NewGate returns a gate that watches this machine.
func NewGate() *Gate { return &Gate{watch: facts.NewWatcher(), began: time.Now()} }

// The gate's bounds. It looks for a short while at a time; it waits at most maxWait before one trial, and over the whole
// run at most a twentieth of the time, because a machine that is never quiet is a fact to report and not a reason to hang.
const (
	gateLook    = 10 * time.Millisecond
	maxWait     = time.Second
	waitAllowed = 2 * time.Second
	waitShare   = 20
	busyCPU     = 0.20 // share of the look in which some task waited for a CPU
	busyIO      = 0.50 // share of the look in which some task waited for I/O
)

// wait returns what the gate saw last: quiet, or why not when its time ran out.
func (g *Gate) wait(ctx context.Context) *record.Gate {
	if g == nil {
		return nil
	}
	began := time.Now()
	for {
		s := g.watch.Look(ctx, gateLook)
		g.note(s)
		s.Reason = busy(s)
		s.Quiet = s.Reason == ""
		took := time.Since(began)
		s.WaitedNS = int64(took)
		if s.Quiet || ctx.Err() != nil || took > maxWait || g.waited+took > waitAllowed+time.Since(g.began)/waitShare {
			if !s.Quiet {
				g.waited += took
			}
			return &s
		}
	}
}

func busy(s record.Gate) string {
	switch {
	case s.CPUSome > busyCPU:
		return fmt.Sprintf("tasks waited for a CPU %.0f %% of the time", 100*s.CPUSome)
	case s.IOSome > busyIO:
		return fmt.Sprintf("tasks waited for I/O %.0f %% of the time", 100*s.IOSome)
	case s.Running > 0:
		return fmt.Sprintf("%d other tasks were running", s.Running)
	}
	return ""
}

// reset begins a block: what was stolen or throttled before it does not count against it.
func (g *Gate) reset() {
	if g == nil {
		return
	}
	g.watch.Look(context.Background(), 0)
	g.steal, g.throttle = 0, 0
}

func (g *Gate) note(s record.Gate) {
	g.steal = max(g.steal, s.Steal)
	if s.Throttle > 0 {
		g.throttle += s.Throttle
	}
}

// verdict names the rule by which the block that just ended is discarded, or "". The rules see the host alone, never
// which target was running, so they cannot favour one.
func (g *Gate) verdict(ctx context.Context) string {
	if g == nil {
		return ""
	}
	g.note(g.watch.Look(ctx, 0))
	switch {
	case g.throttle > 0:
		return ruleThrottle
	case g.steal > discardSteal:
		return ruleSteal
	}
	return ""
}
