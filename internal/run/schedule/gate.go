package schedule

import (
	"context"
	"fmt"
	"time"

	"tare/internal/measure/sysinfo"
	"tare/internal/record"
)

// Gate waits before each trial until the controller's machine is quiet, for a bounded time, and remembers what it saw.
// A nil Gate waits for nothing.
type Gate struct {
	watch  watcher
	began  time.Time
	waited time.Duration
	block  sysinfo.Ticks // when the block began
}

// watcher is the part of sysinfo.Watcher that a gate needs.
type watcher interface {
	Look(ctx context.Context, over time.Duration) record.Gate
	Ticks() sysinfo.Ticks
}

// NewGate returns a gate that watches this machine.
func NewGate() *Gate { return &Gate{watch: sysinfo.NewWatcher(), began: time.Now()} }

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
	g.block = g.watch.Ticks()
}

// verdict names the rule by which the block that just ended is discarded, or "". The rules see the host alone, never
// which target was running, so they cannot favour one.
func (g *Gate) verdict() string {
	if g == nil {
		return ""
	}
	steal, throttled := g.watch.Ticks().Since(g.block)
	switch {
	case throttled > 0:
		return ruleThrottle
	case steal > discardSteal:
		return ruleSteal
	}
	return ""
}
