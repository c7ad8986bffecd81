package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

func TestBlocksHoldEveryTargetOnceAndTheBaselineTwice(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 1, "vm": 9})
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	type slot struct{ workload, target, slot string }
	blocks := map[string]map[slot]int{}
	orders := map[string]bool{}
	sequence := map[string][]string{}
	for _, tr := range m.trials {
		key := fmt.Sprintf("%s %d", tr.Workload, tr.Block)
		if blocks[key] == nil {
			blocks[key] = map[slot]int{}
		}
		blocks[key][slot{tr.Workload, tr.Target, tr.Slot}]++
		if tr.Block > 0 {
			sequence[key] = append(sequence[key], tr.Target+tr.Slot)
		}
	}
	for key, b := range blocks {
		want := 4
		if strings.HasSuffix(key, " 0") {
			want = 3 // the warm-up has no null control
		}
		if len(b) != want {
			t.Errorf("block %s has %d slots, want %d: %v", key, len(b), want, b)
		}
		for s, n := range b {
			if n != 1 {
				t.Errorf("block %s holds %v %d times", key, s, n)
			}
		}
	}
	for _, s := range sequence {
		orders[strings.Join(s, " ")] = true
	}
	if len(orders) < 4 {
		t.Errorf("only %d different orders in %d blocks", len(orders), len(sequence))
	}
	for i, tr := range m.trials {
		if tr.Seq != i+1 {
			t.Fatalf("trial %d has number %d", i+1, tr.Seq)
		}
	}
	if c := cellOf(r, "one", "vm"); c == nil || c.Verdict != record.Different || c.Low > 9 || c.High < 9 {
		t.Errorf("vm costs 9x: %+v", c)
	}
	if c := cellOf(r, "one", "box"); c == nil || c.Verdict != record.Equivalent {
		t.Errorf("box costs the same: %+v", c)
	}
	if n := m.plan.Workloads[0].Work["vm"]; n < 990 || n > 1020 {
		t.Errorf("the frozen work in the plan is %d units, and 1000 take the length of a trial", n)
	}
}

// TestSameWork: where units differ from each other, a slow target does as many as a fast one, and has done them before
// its first trial that counts.
// TestAWorkloadsOwnBaseline: the plan's baseline takes no part in it, so that it may be unable to.
func TestAWorkloadsOwnBaseline(t *testing.T) {
	w := newWorld(0.001, map[string]float64{"host": 100, "box": 100, "vm": 150, "vm:9p": 300})
	p := simPlan("host", "box", "vm", "vm:9p")
	p.Targets[2].Against, p.Targets[3].Against = "box", "vm"
	p.Workloads = []plan.Workload{{Label: "site", Kind: "sim", Baseline: "box",
		Targets: []string{"box", "vm", "vm:9p"}}}
	w.fails["host"] = true
	m, r, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	slots := map[string]int{}
	for _, tr := range m.trials {
		if tr.Block == 1 {
			slots[tr.Target+" "+string(tr.Slot)]++
		}
	}
	if w.trials["host"] != 0 || len(slots) != 5 || slots["box "] != 1 || slots["vm "+string(record.NullSlot)] != 1 {
		t.Errorf("the host was tried %d times; the first block has %v", w.trials["host"], slots)
	}
	if len(r.Cells) != 2 || r.Run.Blocks < 10 {
		t.Fatalf("cells %+v, %d blocks", r.Cells, r.Run.Blocks)
	}
	for target, want := range map[string]struct {
		base  string
		ratio float64
	}{"vm": {"box", 1.5}, "vm:9p": {"vm", 2}} {
		c := cellOf(r, "site", target)
		if c.Baseline != want.base || math.Abs(c.Ratio.Center/want.ratio-1) > 0.01 || c.Verdict != record.Different {
			t.Errorf("%s costs %v against %s: %s", target, c.Ratio.Center, c.Baseline, c.Verdict)
		}
	}
	if f := NewForecast(p, func(string) (*workload.Kind, bool) { return &simKind, true }); f.Cells != 2 {
		t.Errorf("%+v", f)
	}
}

func TestSameWork(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1.2, "vm": 9})
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "vm", "box"), func(c *Config) { c.Kinds = sameWork })
	if err != nil {
		t.Fatal(err)
	}
	work := m.plan.Workloads[0].Work
	if n := work["host"]; n < 990 || n > 1020 || work["vm"] != n || work["box"] != n {
		t.Errorf("the frozen work differs, or is not what takes the fastest a trial's length: %v", work)
	}
	warm := map[string]int64{}
	for _, tr := range m.trials {
		if tr.Warmup() {
			warm[tr.Workload+tr.Target] = tr.Work
		} else if tr.Work != warm[tr.Workload+tr.Target] {
			t.Fatalf("%s on %s does %d units, and was warmed up with %d", tr.Workload, tr.Target, tr.Work,
				warm[tr.Workload+tr.Target])
		}
	}
	if c := cellOf(r, "one", "vm"); c == nil || c.Verdict != record.Different || c.Low > 9 || c.High < 9 {
		t.Errorf("vm costs 9x: %+v", c)
	}
}

// sameWork knows simKind, with units that differ from each other.
func sameWork(name string) (*workload.Kind, bool) {
	kind := simKind
	kind.SameWork = true
	return &kind, name == "sim"
}

// TestPatienceWithMuchMoreWork: the first trial with much more work than was ever done may take long.
func TestPatienceWithMuchMoreWork(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "vm": 9})
	w.stalled, w.patience = "vm", map[string][]time.Duration{}
	_, _, err := simulate(t, t.Context(), w, simPlan("host", "vm"), func(c *Config) { c.Kinds = sameWork })
	if err != nil {
		t.Fatal(err)
	}
	if got := w.patience["vm"]; got[0] > 9*time.Minute || got[1] < 9*time.Minute || got[2] > 9*time.Minute {
		t.Errorf("the first trials of vm, the second with much more work, could take %v", got[:3])
	}
}

// TestSameLongWork: a user may ask for trials that are longer than those which are not asked for.
func TestSameLongWork(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1})
	p := simPlan("host", "box")
	p.Trial = 2 * longestSame
	m, _, err := simulate(t, t.Context(), w, p, func(c *Config) { c.Kinds = sameWork })
	if err != nil {
		t.Fatal(err)
	}
	work := m.plan.Workloads[0].Work
	if took := time.Duration(work["box"]) * time.Microsecond; took < p.Trial || work["host"] != work["box"] {
		t.Errorf("trials of %v are asked for, and the work %v takes %v", p.Trial, work, took)
	}
}

func TestStopsAtTheFirstLookThatSettles(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 3})
	m, _, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, tr := range m.trials {
		last = max(last, tr.Block)
	}
	if last != 10 {
		t.Errorf("went on to block %d although everything was settled at 10", last)
	}
}

func TestNoisyCellsGoOnToTheLastLookAndSayInconclusive(t *testing.T) {
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, tr := range m.trials {
		last = max(last, tr.Block)
	}
	if last != 30 {
		t.Errorf("stopped at block %d, want 30", last)
	}
	if c := cellOf(r, "one", "box"); c.Verdict != record.Inconclusive || c.BlocksNeeded <= 30 {
		t.Errorf("want INCONCLUSIVE with the blocks that would settle it, got %+v", c.Ratio)
	}
}

func TestADeadTargetDoesNotEndTheRun(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3, "vm": 9})
	w.dies["vm"] = 4
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	if w.trials["vm"] != 5 {
		t.Errorf("vm was asked for %d trials, want the 4 it served and the one it died in", w.trials["vm"])
	}
	if c := cellOf(r, "one", "vm"); c != nil && (c.Verdict == record.Different || c.Verdict == record.Equivalent ||
		c.Verdict == record.Measured) {
		t.Errorf("a dead target has the verdict %s", c.Verdict)
	}
	if c := cellOf(r, "two", "box"); c == nil || c.Verdict != record.Different {
		t.Errorf("the other target has no verdict: %+v", c)
	}
	if m.files["vm-1-lost.txt"] != "last words" {
		t.Errorf("the evidence is not kept: %v", m.files)
	}
}

func TestATargetThatDoesNotOpenIsRecordedWithItsEvidence(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.broken["vm"] = true
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	if c := cellOf(r, "one", "box"); c == nil || c.Verdict != record.Different {
		t.Errorf("the rest of the run was not done: %+v", c)
	}
	var found *record.Failure
	for _, e := range m.envs {
		if e.Name == "vm" {
			found = e.Error
		}
	}
	if found == nil || strings.Contains(found.Evidence, "\x1b") || !strings.Contains(found.Evidence, "console") {
		t.Errorf("failure of vm: %+v", found)
	}
}

func TestALostBaselineEndsTheRun(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.dies["host"] = 7
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if !errors.Is(err, ErrBaseline) {
		t.Fatalf("error %v, want ErrBaseline", err)
	}
	if r == nil || len(m.trials) == 0 {
		t.Error("what was measured is lost")
	}
	w = newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.broken["host"] = true
	if _, _, err := simulate(t, t.Context(), w, simPlan("host", "box")); !errors.Is(err, ErrBaseline) {
		t.Errorf("error %v, want ErrBaseline", err)
	}
}

func TestFailingCellsAreGivenUpAfterTheWarmUp(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3, "bad": 1})
	w.fails["bad"] = true
	_, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "bad"))
	if err != nil {
		t.Fatal(err)
	}
	if w.trials["bad"] != 2 {
		t.Errorf("%d trials of two failing cells, want one each", w.trials["bad"])
	}
	if c := cellOf(r, "one", "bad"); c == nil || c.Verdict != record.Failed || c.Failure == nil {
		t.Errorf("failing cell: %+v", c)
	}
}

func TestInterruptAndResume(t *testing.T) {
	p := simPlan("host", "box")
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	ctx, cancel := context.WithCancel(t.Context())
	w.onTrial = func(n int) {
		if n == 50 {
			cancel()
		}
	}
	first, r, err := simulate(t, ctx, w, p)
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Fatalf("error %v, result %v", err, r)
	}
	if len(first.trials) != 49 {
		t.Errorf("%d trials on disk, want the 49 that ended", len(first.trials))
	}
	w.onTrial = nil
	second, r, err := simulate(t, t.Context(), w, p,
		func(c *Config) { c.Prior, c.PriorTargets = first.trials, first.envs })
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	kept := map[string]int{}
	for i, tr := range append(first.trials, second.trials...) {
		if tr.Seq != i+1 {
			t.Fatalf("trial %d has number %d", i+1, tr.Seq)
		}
		key := fmt.Sprint(tr.Workload, tr.Block, tr.Target, tr.Slot)
		if tr.Block > 0 && seen[key] {
			t.Errorf("%s was measured twice", key)
		}
		seen[key] = true
		if tr.Target == "box" && tr.Block > 0 {
			kept[tr.Workload]++
		}
	}
	for label, n := range kept {
		if n < 30 || n > 31 {
			t.Errorf("%s has %d blocks after the resume, want 30 whole ones", label, n)
		}
	}
	if r.Run.Scope != "on this boot, resumed once" {
		t.Errorf("scope %q", r.Run.Scope)
	}
	if len(second.envs) != 4 {
		t.Errorf("%d openings on record, want both of each target", len(second.envs))
	}
}

func TestAFullDiskEndsTheRunWithWhatThereIs(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m := &memorySink{w: w, files: map[string]string{}, full: 20}
	r, _, err := Run(t.Context(), Config{
		Plan: simPlan("host", "box"), Opener: w, Sink: m,
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" },
	})
	if err == nil || !strings.Contains(err.Error(), "no space left") || r == nil {
		t.Errorf("error %v, result %v", err, r)
	}
	if w.closed["host"] != 1 || w.closed["box"] != 1 {
		t.Error("environments were left open")
	}
}

func TestSessionsOpenTheEnvironmentsAnew(t *testing.T) {
	p := simPlan("host", "box")
	p.Sessions = 3
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m, r, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	if w.opens["box"] != 3 {
		t.Errorf("box was opened %d times, want 3", w.opens["box"])
	}
	perSession := map[int]int{}
	for _, tr := range m.trials {
		if tr.Target == "box" && tr.Block > 0 && tr.Workload == "one" {
			perSession[tr.Session]++
		}
	}
	for s := 1; s <= 3; s++ {
		if perSession[s] != 10 {
			t.Errorf("session %d has %d blocks, want 10", s, perSession[s])
		}
	}
	if !strings.Contains(r.Run.Scope, "3") {
		t.Errorf("scope %q does not name the sessions", r.Run.Scope)
	}
}

func TestInjectedWorkShows(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "same": 1, "plus5": 1})
	_, r, err := simulate(t, t.Context(), w, simPlan("host", "same", "plus5"),
		func(c *Config) { c.Inject = map[string]float64{"plus5": 0.05} })
	if err != nil {
		t.Fatal(err)
	}
	if c := cellOf(r, "one", "plus5"); c.Verdict != record.Different || c.Low > 1.05 || c.High < 1.05 {
		t.Errorf("injected 5 %%: %+v", c.Ratio)
	}
	if c := cellOf(r, "one", "same"); c.Verdict != record.Equivalent {
		t.Errorf("against itself: %+v", c.Ratio)
	}
}

func TestBudgetEndsTheRun(t *testing.T) {
	p := simPlan("host", "box")
	p.Budget = time.Nanosecond
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m, r, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range m.trials {
		if tr.Block > 0 {
			t.Fatalf("block %d was run after the budget was spent", tr.Block)
		}
	}
	if c := cellOf(r, "one", "box"); c != nil && c.Verdict == record.Different {
		t.Errorf("a verdict without a block: %+v", c)
	}
}

func TestATightBudgetDecidesSomeWorkloadsInsteadOfNone(t *testing.T) {
	p := simPlan("host", "box")
	p.Workloads = append(p.Workloads, plan.Workload{Label: "three", Kind: "sim"})
	p.Budget = 50 * time.Second
	r := newRunner(Config{Plan: p}, nil)
	r.table.ready = map[string]bool{"one": true, "two": true, "three": true}
	r.progress.kept = map[string]int{"one": 2, "two": 2, "three": 10}
	agent := Target{Agent: &simAgent{alive: true}}
	r.table.targets = map[string]*target{"host": {Target: agent}, "box": {Target: agent}}
	// A block is two trials of the host and one of the box: 3 s for one and three, 6 s for two.
	for label, d := range map[string]time.Duration{"one": time.Second, "two": 2 * time.Second, "three": time.Second} {
		r.table.cells[cellKey{label, "host"}] = &cell{expected: d}
		r.table.cells[cellKey{label, "box"}] = &cell{expected: d}
	}
	labels := func(todo []*plan.Workload) (s []string) {
		for _, w := range todo {
			s = append(s, w.Label)
		}
		return s
	}
	if got := fmt.Sprint(labels(r.forecast.affordable(r.forecast.unsettled()))); got != "[one]" {
		t.Errorf("8 blocks of 3 s fit into 50 s and 8 more of 6 s do not: got %s", got)
	}
	p.Budget = 100 * time.Second
	if got := fmt.Sprint(labels(r.forecast.affordable(r.forecast.unsettled()))); got != "[one two three]" {
		t.Errorf("all fit: got %s", got)
	}
	// One of which nothing is known is taken to be as slow as the others, and finding its work takes some blocks more.
	r.table.ready["two"], p.Budget = false, 60*time.Second
	if got := fmt.Sprint(labels(r.forecast.affordable(r.forecast.unsettled()))); got != "[one three]" &&
		got != "[one]" {
		t.Errorf("what is not known to fit is left for later: got %s", got)
	}
	p.Budget = time.Second
	if got := len(r.forecast.affordable(r.forecast.unsettled())); got != 1 {
		t.Errorf("%d workloads kept, want one: whether it still fits is decided block by block", got)
	}
	// One that turned out to be slow does not keep those from beginning that can still be decided.
	r.table.ready, r.progress.kept, p.Budget = map[string]bool{"one": true, "two": true},
		map[string]int{"one": 4, "two": 6}, 200*time.Second
	r.table.cells[cellKey{"two", "host"}].expected = 20 * time.Second
	if got := fmt.Sprint(labels(r.forecast.affordable(r.forecast.unsettled()))); got != "[one three]" {
		t.Errorf("4 blocks of 42 s do not fit beside 6 of 3 s and 13 of an unknown length: got %s", got)
	}
}

func TestAStallDuringCalibrationDoesNotLeaveShortTrials(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1.2, "vm": 9})
	w.stalled = "host"
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	work := m.plan.Workloads[0].Work
	if work["host"] < 900 || work["host"] != work["box"] {
		t.Errorf("host and box cost about the same and have the work %d and %d", work["host"], work["box"])
	}
	if work["vm"] < 990 || work["vm"] > 1020 {
		t.Errorf("vm costs nine times as much and keeps its own work, not %d", work["vm"])
	}
	for _, tr := range m.trials {
		if tr.Block > 0 && tr.Work != work[tr.Target] && tr.Workload == "one" {
			t.Fatalf("trial %d did %d units, frozen are %d", tr.Seq, tr.Work, work[tr.Target])
		}
	}
	if c := cellOf(r, "one", "box"); c.Verdict != record.Different || c.Low > 1.2 || c.High < 1.2 {
		t.Errorf("box costs 1.2x: %+v", c.Ratio)
	}
}

// TestPatienceWithTheFirstOfACell: a run of a command may take as long as it was told that it may, also where its work
// comes from an earlier run and nothing was calibrated.
func TestPatienceWithTheFirstOfACell(t *testing.T) {
	kinds := map[string]*workload.Kind{
		"short": {}, "long": {UnitTime: func(workload.Params) time.Duration { return 2 * time.Hour }},
		"large":   {Space: func(workload.Params) int64 { return 64 << 30 }},
		"endless": {UnitTime: func(workload.Params) time.Duration { return math.MaxInt64 }},
	}
	r := &trialRunner{kinds: func(name string) (*workload.Kind, bool) { k, ok := kinds[name]; return k, ok }}
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1})
	w.patience = map[string][]time.Duration{}
	p := simPlan("host", "box")
	for i := range p.Workloads {
		p.Workloads[i].Work = map[string]int64{"host": 5, "box": 5}
	}
	if _, _, err := simulate(t, t.Context(), w, p); err != nil {
		t.Fatal(err)
	}
	if got := w.patience["box"]; len(got) < 2 || got[0] < 9*time.Minute || got[len(got)-1] > 9*time.Minute {
		t.Errorf("the trials of a cell whose work was known could take %v", got)
	}
	for _, c := range []struct {
		kind string
		want time.Duration
	}{
		{"short", 10 * time.Minute}, {"unknown", 10 * time.Minute}, {"long", 130 * time.Minute},
		{"large", 10*time.Minute + 16384*time.Second}, {"endless", 7 * 24 * time.Hour},
	} {
		if got := r.firstTimeout(&plan.Workload{Kind: c.kind}); got.Round(time.Second) != c.want {
			t.Errorf("%s: %v, want %v", c.kind, got, c.want)
		}
	}
}

// An environment that no longer answers holds up its own closing, and none of the others'.
func TestEnvironmentsAreClosedAtTheSameTime(t *testing.T) {
	names := []string{"host", "a", "b", "c"}
	w := newWorld(0.003, map[string]float64{"host": 1, "a": 1, "b": 1, "c": 1})
	var all sync.WaitGroup
	all.Add(len(names))
	w.onClose = func(name string) error {
		all.Done()
		all.Wait() // for ever, if one came after the other
		if name == "host" {
			return nil
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed[name]++
		return errors.New("it does not answer")
	}
	var said bytes.Buffer
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if _, _, err := simulate(t, t.Context(), w, simPlan(names...),
			func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&said, nil)) }); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("they are closed one after the other")
	}
	if got := regexp.MustCompile(`env=(\w+)`).FindAllString(said.String(),
		-1); fmt.Sprint(got) != "[env=a env=b env=c]" {
		t.Errorf("told in the order %v", got)
	}
}
