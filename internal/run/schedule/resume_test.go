package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// interruption is where a run is interrupted: as the trial at that place in the block begins, in workload one.
type interruption struct{ block, place int }

// cut carries a plan out, interrupts it at each stop and resumes it. It returns all trials and the blocks of workload
// one at which the parts looked.
func cut(t *testing.T, w *world, p *plan.Plan, stops ...interruption) (*memorySink, []int) {
	t.Helper()
	all := &memorySink{w: w, files: map[string]string{}}
	var looks []int
	for i := 0; ; i++ {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		place := 0
		m, _, err := simulate(t, ctx, w, p, func(c *Config) {
			c.Prior, c.PriorTargets = slices.Clone(all.trials), slices.Clone(all.envs)
			c.Events = func(e Event) {
				if e.Kind == Looked {
					looks = append(looks, cellOf(e.Result, "one", "box").Ratio.Blocks)
				}
				if i < len(stops) && e.Kind == TrialBegin && e.Workload == "one" && e.Block == stops[i].block &&
					!e.Warmup {
					if place++; place == stops[i].place {
						cancel()
					}
				}
			}
		})
		all.trials = append(all.trials, m.trials...)
		if m.envs != nil {
			all.envs = m.envs
		}
		if i == len(stops) {
			if err != nil {
				t.Fatal(err)
			}
			return all, looks
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("part %d ended by itself: %v", i+1, err)
		}
	}
}

// blocksOf counts the blocks of a workload that are on record, cut short or not.
func blocksOf(m *memorySink, workload string) int {
	n := map[int]bool{}
	for _, tr := range m.trials {
		if tr.Workload == workload && tr.Block > 0 {
			n[tr.Block] = true
		}
	}
	return len(n)
}

func onePlan(targets ...string) *plan.Plan {
	p := simPlan(targets...)
	p.Workloads = p.Workloads[:1]
	return p
}

// TestAResumedRunCountsTheBlocksOfThoseThatWereThere: the level holds for four looks, and a target that was missing, or
// a second base with a null slot of its own, must not make the count begin anew.
func TestAResumedRunCountsTheBlocksOfThoseThatWereThere(t *testing.T) {
	for _, c := range []struct {
		name  string
		world func(*world)
		plan  func(*plan.Plan)
		slots int
	}{
		{"a target that never opened", func(w *world) { w.broken["vm"] = true }, func(*plan.Plan) {}, 3},
		{"a target that was lost", func(w *world) { w.dies["vm"] = 4 }, func(*plan.Plan) {}, 3},
		{"a target that fails", func(w *world) { w.fails["vm"] = true }, func(*plan.Plan) {}, 3},
		{"two bases", func(*world) {}, func(p *plan.Plan) { p.Targets[2].Against = "box" }, 5},
		{"two workloads", func(w *world) { w.dies["vm"] = 6 }, func(p *plan.Plan) {
			p.Workloads = append(p.Workloads, plan.Workload{Label: "two", Kind: "sim"})
		}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := onePlan("host", "box", "vm")
			c.plan(p)
			w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02, "vm": 1.02})
			c.world(w)
			m, looks := cut(t, w, p, interruption{13, 1}, interruption{22, c.slots}, interruption{26, 1})
			if want := len(p.Looks) * len(p.Workloads); len(looks) > want || len(looks) < len(p.Looks) {
				t.Errorf("looked %d times, at %v blocks, and the level holds for the looks at %v", len(looks), looks,
					p.Looks)
			}
			if got := blocksOf(m, "one"); got != 31 {
				t.Errorf("%d blocks, want 30 whole ones and one that was cut short", got)
			}
			if got := blocksOf(m, "two"); len(p.Workloads) > 1 && got != 30 {
				t.Errorf("%d blocks of the other workload, want 30", got)
			}
		})
	}
}

// TestARunResumedAtALookTakesItOnce: whether the look was taken before the end or not, it is taken on the same blocks.
func TestARunResumedAtALookTakesItOnce(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 3})
	p := onePlan("host", "box")
	m, _, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	if last := m.trials[len(m.trials)-1].Block; last != 10 {
		t.Fatalf("settled after %d blocks", last)
	}
	opened := w.opens["box"]
	again, r, err := simulate(t, t.Context(), w, p, func(c *Config) { c.Prior, c.PriorTargets = m.trials, m.envs })
	if err != nil {
		t.Fatal(err)
	}
	if len(again.trials) != 0 || w.opens["box"] != opened {
		t.Errorf("%d more trials and %d openings of a workload that was settled", len(again.trials),
			w.opens["box"]-opened)
	}
	if c := cellOf(r, "one", "box"); c.Verdict != record.Different {
		t.Errorf("the verdict is %s", c.Verdict)
	}

	// Undecided at block 10. Interrupted before the next block, it is taken again on the same blocks; in the next, not.
	for place, want := range []int{5, 4, 4} {
		w = newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
		if _, looks := cut(t, w, onePlan("host", "box"), interruption{11, place + 1}); len(looks) != want ||
			looks[0] != 10 ||
			looks[want-4] != 10 {
			t.Errorf("interrupted after trial %d of block 11: looked at %v blocks", place, looks)
		}
	}
}

// TestDiscardsAreCountedOverTheWholeRun: at most one block in five is discarded, resumed or not, in all sessions.
func TestDiscardsAreCountedOverTheWholeRun(t *testing.T) {
	discarded := func(ms ...*memorySink) (lost, all int) {
		seen := map[string]bool{}
		for _, m := range ms {
			for _, tr := range m.trials {
				if tr.Discarded != "" {
					lost++
				} else if key := fmt.Sprint(tr.Session, tr.Workload, tr.Block); tr.Block > 0 && !seen[key] {
					seen[key] = true
					all++
				}
			}
		}
		return lost, all
	}
	p := onePlan("host", "box")
	p.Looks = []int{10, 30}
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	quiet := func(c *Config) { c.Quiet = &QuietHost{watch: &fakeCounters{steal: 0.5}} }
	var parts []*memorySink
	var prior []record.Trial
	for _, end := range []int{35, 75, 115, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		w.onTrial = func(n int) {
			if n == end {
				cancel()
			}
		}
		m, _, err := simulate(t, ctx, w, p, quiet, func(c *Config) { c.Prior = slices.Clone(prior) })
		cancel()
		prior, parts = append(prior, m.trials...), append(parts, m)
		lost, all := discarded(parts...)
		if lost*maxDiscardedShare > all || lost == 0 {
			t.Errorf("after %d parts %d of %d blocks are discarded", len(parts), lost, all)
		}
		if end == 1000 && (err != nil || all-lost < 30 || all-lost > 33) {
			t.Errorf("%d blocks are left, want 30 and those that were cut short; %v", all-lost, err)
		}
	}
	p = onePlan("host", "box")
	p.Sessions = 3
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w = newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.onTrial = func(n int) {
		if n == 1000 {
			cancel()
		}
	}
	m, _, err := simulate(t, ctx, w, p, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if lost, all := discarded(m); lost*maxDiscardedShare > all || lost < 6 || all-lost != 30 {
		t.Errorf("%d of %d blocks in three sessions are discarded; one in five may be, and 30 are to be left", lost,
			all)
	}
	r := newRunner(Config{Plan: p, Prior: m.trials}, nil).progress
	if r.recountDiscards(3); r.totalBlocks() < 20 || r.totalBlocks() > 26 || r.discards < 6 {
		t.Errorf("resumed in the third session: %d discarded, and %d blocks in the two before it", r.discards,
			r.totalBlocks())
	}
}

// TestRecount: a line is a block of a workload, and the targets that have a trial in it: ! is one that failed, * the
// null control, and "discarded" the mark of the rule.
func TestRecount(t *testing.T) {
	const warm, whole = "one 0: host box vm\n", "host vm box host*\n"
	for _, c := range []struct {
		name, trials string
		kept, begun  int
		last         bool // the last block is whole
		against      bool // vm is compared with box
	}{
		{"whole blocks", warm + "one 1: " + whole + "one 2: " + whole, 2, 2, true, false},
		{"cut short", warm + "one 1: " + whole + "one 2: vm host host*", 1, 2, false, false},
		{"without the null control", warm + "one 1: " + whole + "one 2: vm host box", 1, 2, false, false},
		{"cut short and gone on", warm + "one 1: host box\n" + warm + "one 2: " + whole, 1, 2, true, false},
		{"cut short in the first warm-up", "one 0: host box\n" + warm + "one 1: " + whole, 1, 1, true, false},
		{"missing after it was opened again", warm + "one 1: " + whole + "one 0: host box\none 2: host* host box", 2, 2,
			true, false},
		{"missing after the first warm-up", warm + "one 0: host box\none 1: host* host box", 1, 1, true, false},
		{"warmed up twice", "one 0: host host box box vm\none 1: " + whole + "one 2: vm box", 1, 2, false, false},
		{"discarded", warm + "one 1: " + whole + "one 1: discarded\none 2: " + whole, 1, 2, true, false},
		{"the last is discarded", warm + "one 1: " + whole + "one 2: " + whole + "one 2: discarded", 1, 2, false,
			false},
		{"a trial failed", warm + "one 1: " + whole + "one 2: host vm! box host*", 2, 2, true, false},
		{"given up in this workload alone", warm +
			"one 1: host vm! box host*\ntwo 1: host vm box host*\none 2: box host host*", 2, 2, true, false},
		{"lost in the other workload", warm + "one 1: " + whole + "two 1: host vm! box host*\none 2: box host host*", 2,
			2, true, false},
		{"lost, and gone on without", warm + "one 1: " + whole +
			"two 1: host vm!\none 2: box host host*\ntwo 0: host box vm\none 0: host box vm", 2, 2, false, false},
		{"of another workload only", "two 0: host box vm\ntwo 1: " + whole, 0, 0, false, false},
		{"warmed up again without the first", "one 0: box vm host\none 1: " + whole +
			"one 0: host vm\none 2: host* host vm", 2, 2, true, false},
		{"two null controls", warm + "one 1: host box* vm box host*\none 2: host box vm host*", 1, 2, false, true},
	} {
		p := simPlan("host", "box", "vm")
		if c.against {
			p.Targets[2].Against = "box"
		}
		r := newRunner(Config{Plan: p}, nil).progress
		for line := range strings.Lines(c.trials) {
			var workload string
			var n int
			head, targets, _ := strings.Cut(line, ":")
			if _, err := fmt.Sscanf(head, "%s %d", &workload, &n); err != nil {
				t.Fatal(err)
			}
			for _, target := range strings.Fields(targets) {
				tr := record.Trial{Session: 1, Workload: workload, Block: n, Target: strings.Trim(target, "!*")}
				switch {
				case target == "discarded":
					tr.Target, tr.Discarded = "", ruleSteal
				case strings.HasSuffix(target, "!"):
					tr.Error = &record.Failure{}
				case strings.HasSuffix(target, "*"):
					tr.Slot = record.NullSlot
				}
				r.journal.trials = append(r.journal.trials, tr)
			}
		}
		r.journal.trials = append(r.journal.trials, record.Trial{Session: 2, Workload: "one", Block: 9, Target: "host"},
			record.Trial{Session: 1, Workload: "gone", Block: 9, Target: "host"})
		r.recount()
		if r.kept["one"] != c.kept || r.blocks["one"] != c.begun || r.whole["one"] != c.last {
			t.Errorf("%s: %d of %d blocks count and the last is whole: %v; want %d of %d, %v", c.name, r.kept["one"],
				r.blocks["one"], r.whole["one"], c.kept, c.begun, c.last)
		}
	}
}

// TestWhatIsLeftOfARun: a budget ends a run before its plan does, and a verdict, the last look or a lost target do not.
func TestWhatIsLeftOfARun(t *testing.T) {
	noisy, clear := map[string]float64{"host": 1, "box": 1.02}, map[string]float64{"host": 1, "box": 3}
	for _, c := range []struct {
		name     string
		noise    float64
		cost     map[string]float64
		change   func(*world, *plan.Plan)
		sessions int // that the plan names when it is asked
		want     bool
	}{
		{"to the last look", 0.30, noisy, func(*world, *plan.Plan) {}, 1, false},
		{"settled at the first", 0.003, clear, func(*world, *plan.Plan) {}, 1, false},
		{"no time for a block", 0.003, clear, func(_ *world, p *plan.Plan) { p.Budget = time.Nanosecond }, 1, true},
		{"undecided", 0.30, noisy, func(_ *world, p *plan.Plan) { p.Looks = []int{10} }, 1, true},
		{"a target that was lost", 0.30, noisy, func(w *world, _ *plan.Plan) { w.dies["box"] = 14 }, 1, false},
		{"another session to come", 0.003, clear, func(*world, *plan.Plan) {}, 2, true},
	} {
		p := onePlan("host", "box")
		w := newWorld(c.noise, c.cost)
		c.change(w, p)
		m, _, err := simulate(t, t.Context(), w, p)
		if err != nil {
			t.Fatal(err)
		}
		p.Looks, p.Sessions = []int{10, 15, 20, 30}, c.sessions
		kinds := func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" }
		if got := Left(Config{Plan: p, Kinds: kinds, Prior: m.trials, PriorTargets: m.envs}); got != c.want {
			t.Errorf("%s: left %v, want %v", c.name, got, c.want)
		}
	}
}
