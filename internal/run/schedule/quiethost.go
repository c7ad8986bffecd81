package schedule

import (
	"context"
	"fmt"
	"time"

	"tare/internal/measure/sysinfo"
	"tare/internal/record"
)

// QuietHost waits before each trial until the controller's machine is quiet, for a bounded time, and remembers the
// state it saw. A nil QuietHost waits for nothing.
type QuietHost struct {
	watch  watcher
	began  time.Time
	waited time.Duration
	block  sysinfo.Ticks // when the block began
}

// watcher is the part of sysinfo.Watcher that a QuietHost needs.
type watcher interface {
	Look(ctx context.Context, over time.Duration) record.HostState
	Ticks() sysinfo.Ticks
}

// NewQuietHost returns a QuietHost that watches this machine.
func NewQuietHost() *QuietHost { return &QuietHost{watch: sysinfo.NewWatcher(), began: time.Now()} }

// The bounds of waiting. It looks for a short while at a time; it waits at most maxWait before one trial, and over the
// whole run at most a twentieth of the time, because a machine that is never quiet is a fact to report and not a reason
// to hang.
const (
	quietLook   = 10 * time.Millisecond
	maxWait     = time.Second
	waitAllowed = 2 * time.Second
	waitShare   = 20
	busyCPU     = 0.20 // share of the look in which some task waited for a CPU
	busyIO      = 0.50 // share of the look in which some task waited for I/O
)

// wait returns the last state that it saw: quiet, or the reason why not when its time ran out.
func (q *QuietHost) wait(ctx context.Context) *record.HostState {
	if q == nil {
		return nil
	}
	began := time.Now()
	for {
		s := q.watch.Look(ctx, quietLook)
		s.Reason = busy(s)
		s.Quiet = s.Reason == ""
		took := time.Since(began)
		s.WaitedNS = int64(took)
		if s.Quiet || ctx.Err() != nil || took > maxWait || q.waited+took > waitAllowed+time.Since(q.began)/waitShare {
			if !s.Quiet {
				q.waited += took
			}
			return &s
		}
	}
}

func busy(s record.HostState) string {
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

// reset begins a block: time that was stolen or throttled before it does not count against it.
func (q *QuietHost) reset() {
	if q == nil {
		return
	}
	q.watch.Look(context.Background(), 0)
	q.block = q.watch.Ticks()
}

// verdict names the rule by which the block that just ended is discarded, or "". The rules see the host alone, never
// which target was running, so they cannot favour one.
func (q *QuietHost) verdict() string {
	if q == nil {
		return ""
	}
	steal, throttled := q.watch.Ticks().Since(q.block)
	switch {
	case throttled > 0:
		return ruleThrottle
	case steal > discardSteal:
		return ruleSteal
	}
	return ""
}
