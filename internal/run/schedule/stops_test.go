//go:build unix

package schedule

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whether the tick or the news comes first when tare goes on, the stop is counted once and in its whole length.
func TestStopsAreCountedInTheirLength(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		for name, goOn := range map[string]func(*stops){
			"news first": func(s *stops) { s.continued(); s.tick() },
			"tick first": func(s *stops) { s.tick(); s.continued(); s.tick() },
		} {
			s := &stops{lastTick: time.Now().Add(-time.Minute)}
			before := s.counted
			goOn(s)
			if got := s.since(before); got.times != 1 || got.total != time.Minute {
				t.Errorf("%s: a stop of a minute counts as %+v", name, got)
			}
			b := &budget{limit: time.Minute, started: time.Now().Add(-90 * time.Second), stops: s}
			if b.overrun(0) {
				t.Errorf("%s: the stop is taken from the budget: %v of it are spent", name, b.spent())
			}
		}
		// A tick that is late because the machine is busy is no stop.
		s := &stops{lastTick: time.Now().Add(-time.Minute)}
		s.tick()
		s.tick()
		if got := s.count(); got.times != 0 || got.rule() != "" {
			t.Errorf("a late tick counts as %+v", got)
		}
		if got := (stopCount{1,
			6200 * time.Millisecond}).rule(); got != "tare itself was stopped for 6 s during a block" {
			t.Errorf("got %q", got)
		}
	})
}

// The system says that this process goes on, and that is counted.
func TestTheSystemTellsOfAStop(t *testing.T) {
	s := watchStops()
	defer s.end()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); s.count().times == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a signal that tare goes on was not counted")
		}
	}
}

func TestABlockDuringWhichTareWasStoppedIsDoneAgain(t *testing.T) {
	timeless(t, func(t *testing.T, goOn func()) {
		w := newWorld(0.003, map[string]float64{"host": 1, "box": 3})
		w.onTrial = func(n int) {
			// In the first block already: this rule knows no share of blocks that it may have.
			if n == 6 {
				goOn()
			}
		}
		p := simPlan("host", "box")
		p.Workloads = p.Workloads[:1]
		var lost []Event
		m, r, err := simulate(t, t.Context(), w, p, func(c *Config) {
			c.Events = func(e Event) {
				if e.Kind == BlockLost {
					lost = append(lost, e)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		marks, last := 0, 0
		for _, tr := range m.trials {
			last = max(last, tr.Block)
			if tr.Discarded != "" {
				marks++
				if !strings.HasPrefix(tr.Discarded, "tare itself was stopped") || tr.Target != "" {
					t.Errorf("marked by %+v", tr)
				}
			}
		}
		if marks != 1 || len(lost) != 1 || last != 11 || r.Run.Discarded != 1 {
			t.Errorf("%d marks, %d events, %d blocks, %d discarded; want ten blocks besides the one", marks, len(lost),
				last, r.Run.Discarded)
		}
		if c := cellOf(r, "one", "box"); c.Blocks != 10 {
			t.Errorf("the verdict rests on %d blocks", c.Blocks)
		}
	})
}
