package sysinfo

import (
	"context"
	"sync"
	"time"

	"tare/internal/record"
)

// Watcher checks whether its machine is quiet. It is safe for concurrent use.
type Watcher struct {
	mu   sync.Mutex
	read func() counters
	last counters
}

// counters is one reading. A value of -1 is unknown.
type counters struct {
	at              time.Time
	load1           float64
	running         int      // tasks running or ready besides the reader
	pressure        [3]int64 // CPU, I/O, memory: time in which some task waited, µs since boot
	steal, cpuTotal int64    // ticks
	throttle        int64    // thermal throttle events since boot
}

// NewWatcher returns a Watcher whose first look counts steal and throttling from now on.
func NewWatcher() *Watcher {
	w := &Watcher{read: counter()}
	w.last = w.read()
	return w
}

// samples is the number of counts of running tasks in a look. The smallest count is used, because a brief task is not a
// load.
const samples = 3

// Look watches for the given time (none: it compares with the previous look) and returns what it saw: load, the fewest
// tasks running at once, pressure over the look, and steal and throttling since the previous look. A value that the
// platform does not report is -1. The caller sets Quiet, Reason and WaitedNS. It returns early when ctx ends.
func (w *Watcher) Look(ctx context.Context, over time.Duration) record.HostState {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.last
	now := w.read()
	running := now.running
	if over > 0 {
		from = now
		for range samples - 1 {
			pause(ctx, over/(samples-1))
			now = w.read()
			running = min(running, now.running)
		}
	}
	span := now.at.Sub(from.at)
	g := record.HostState{
		Load1: now.load1, Running: running,
		CPUSome: share(from.pressure[0], now.pressure[0], span),
		IOSome:  share(from.pressure[1], now.pressure[1], span),
		MemSome: share(from.pressure[2], now.pressure[2], span),
		Steal:   -1, Throttle: -1,
	}
	if all := now.cpuTotal - w.last.cpuTotal; now.steal >= 0 && w.last.steal >= 0 && all > 0 {
		// Both are read from one line, but the kernel updates them one CPU after the other.
		g.Steal = min(max(float64(now.steal-w.last.steal)/float64(all), 0), 1)
	} else if now.steal >= 0 {
		g.Steal = 0 // no tick has passed
	}
	if now.throttle >= 0 && w.last.throttle >= 0 {
		g.Throttle = max(now.throttle-w.last.throttle, 0)
	}
	w.last = now
	return g
}

// Ticks are counters of the machine that only grow, to be compared with an earlier reading. -1 is unknown.
type Ticks struct {
	Stolen, Total int64 // CPU ticks
	Throttled     int64 // thermal throttle events
}

// Ticks reads the counters. It does not affect the next look.
func (w *Watcher) Ticks() Ticks {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.read()
	return Ticks{Stolen: now.steal, Total: now.cpuTotal, Throttled: now.throttle}
}

// Since returns the share of the CPU that was stolen and the throttle events since an earlier reading; 0 for unknown
// values. A look lasts only a tick or two, so one stolen tick would be half of it; over a longer time the share is
// accurate.
func (t Ticks) Since(from Ticks) (steal float64, throttled int64) {
	if all := t.Total - from.Total; t.Stolen >= 0 && from.Stolen >= 0 && all > 0 {
		steal = min(max(float64(t.Stolen-from.Stolen)/float64(all), 0), 1)
	}
	if t.Throttled >= 0 && from.Throttled >= 0 {
		throttled = max(t.Throttled-from.Throttled, 0)
	}
	return steal, throttled
}

// share is the part of a span in which a counter in µs grew; -1 when it is unknown or the span is empty.
func share(from, to int64, span time.Duration) float64 {
	if from < 0 || to < 0 || span <= 0 {
		return -1
	}
	return min(max(float64(to-from)/float64(span.Microseconds()+1), 0), 1)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// unknown is a reading without any known value.
func unknown() counters {
	return counters{at: time.Now(), load1: -1, running: -1, pressure: [3]int64{-1, -1, -1}, steal: -1, cpuTotal: -1,
		throttle: -1}
}
