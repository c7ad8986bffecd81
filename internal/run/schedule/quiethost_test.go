package schedule

import (
	"context"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/sysinfo"
	"tare/internal/record"
)

// fakeCounters is a machine whose counters are made up: each reading is some ticks after the one before.
type fakeCounters struct {
	steal    float64 // share of the ticks that is stolen
	throttle int64   // events for each reading
	looks    []record.HostState
	looked   int
	ticks    sysinfo.Ticks
	rest     float64
}

func (w *fakeCounters) Look(context.Context, time.Duration) record.HostState {
	w.looked++
	if len(w.looks) == 0 {
		return record.HostState{CPUSome: -1, IOSome: -1, MemSome: -1, Running: -1}
	}
	return w.looks[min(w.looked, len(w.looks))-1]
}

func (w *fakeCounters) Ticks() sysinfo.Ticks {
	w.ticks.Total += 200
	w.ticks.Throttled += w.throttle
	w.rest += w.steal * 200
	w.ticks.Stolen = int64(w.rest)
	return w.ticks
}

// TestTheDiscardRuleCountsTheWholeBlock: the rule is declared as a share of a block, and a single tick of it is none.
func TestTheDiscardRuleCountsTheWholeBlock(t *testing.T) {
	for _, c := range []struct {
		name string
		w    fakeCounters
		want string
	}{
		{"quiet", fakeCounters{}, ""},
		{"some steal", fakeCounters{steal: 0.02}, ""},
		{"just below", fakeCounters{steal: 0.095}, ""},
		{"just above", fakeCounters{steal: 0.105}, ruleSteal},
		{"much", fakeCounters{steal: 0.60}, ruleSteal},
		{"throttled", fakeCounters{throttle: 1}, ruleThrottle},
		// Single looks see one stolen tick of two.
		{"a stolen tick in a look", fakeCounters{steal: 0.02, looks: []record.HostState{{Steal: 0.5}}}, ""},
	} {
		w := c.w
		q := &QuietHost{watch: &w, began: time.Now()}
		q.reset()
		for range 4 {
			q.wait(t.Context())
		}
		if got := q.verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		w.steal, w.throttle = 0, 0
		q.reset()
		if got := q.verdict(); got != "" {
			t.Errorf("%s: the block after it is discarded for what was before it: %s", c.name, got)
		}
	}
	var none *QuietHost
	none.reset()
	if none.wait(t.Context()) != nil || none.verdict() != "" {
		t.Error("no QuietHost waits or discards")
	}
}

func TestTheQuietHostWaitsAndSaysWhyNot(t *testing.T) {
	busyLooks := []struct {
		why  string
		look record.HostState
	}{
		{"for a CPU 30 %", record.HostState{CPUSome: 0.30}}, {"for I/O 60 %", record.HostState{IOSome: 0.60}},
		{"2 other tasks", record.HostState{Running: 2}},
	}
	for _, b := range busyLooks {
		w := &fakeCounters{looks: []record.HostState{b.look, b.look, {Running: -1, CPUSome: 0.1, IOSome: 0.4}}}
		q := &QuietHost{watch: w, began: time.Now()}
		if got := q.wait(t.Context()); !got.Quiet || got.Reason != "" || w.looked != 3 {
			t.Errorf("%s: after %d looks %+v, want the third, which is quiet", b.why, w.looked, got)
		}
		// One that is never quiet is not waited for for ever, and the time that waiting may take in all gets less.
		w = &fakeCounters{looks: []record.HostState{b.look}}
		q = &QuietHost{watch: w, began: time.Now(), waited: waitAllowed + time.Hour}
		if got := q.wait(t.Context()); got.Quiet || !strings.Contains(got.Reason, b.why) || w.looked != 1 {
			t.Errorf("%s: after %d looks %+v", b.why, w.looked, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := (&QuietHost{watch: &fakeCounters{looks: []record.HostState{{Running: 1}}},
		began: time.Now()}).wait(ctx); got.Quiet {
		t.Error("a wait that ended says quiet")
	}
}
