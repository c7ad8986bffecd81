package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tare/internal/record"
	"tare/internal/sys/setdiff"
)

// statements gives each trial of a world groups of 20 executions. vm needs so many times as long for a group as the
// others; 1 where nothing is said.
func statements(seed uint64, groups int, noise float64, vm map[string]float64) func(*record.Trial) {
	rng := rand.New(rand.NewPCG(seed, 3))
	return func(t *record.Trial) {
		for i := range groups {
			g := record.Group{ID: fmt.Sprintf("%03x", i), Count: 20, Rows: 40, Check: fmt.Sprint("c", i)}
			if t.Warmup() {
				g.Text = fmt.Sprint("SELECT ", i)
			}
			cost := 0.001 * float64(i+1) * math.Exp(noise*rng.NormFloat64())
			if t.Target == "vm" {
				cost *= factor(vm, g.ID)
			}
			g.Seconds, g.P50, g.P99 = cost*20, cost, cost*3
			t.Groups = append(t.Groups, g)
		}
	}
}

// grouped finds the groups of the first workload in a candidate.
func grouped(t *testing.T, r *Result, target string) *Grouped {
	t.Helper()
	i := slices.IndexFunc(r.Groups, func(g Grouped) bool { return g.Target == target })
	if i < 0 {
		t.Fatalf("no groups of %s among %d", target, len(r.Groups))
	}
	return &r.Groups[i]
}

func (gs *Grouped) find(id string) *Group {
	return &gs.Groups[slices.IndexFunc(gs.Groups, func(g Group) bool { return g.ID == id })]
}

// TestGroups: one statement of many is slow in one candidate, another one is fast.
func TestGroups(t *testing.T) {
	vm := map[string]float64{"002": 3, "005": 0.5}
	r := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005, change: statements(1, 8, 0.002, vm)}.evaluate()
	if len(r.Groups) != 2 {
		t.Fatalf("%d candidates with groups", len(r.Groups))
	}
	gs := grouped(t, r, "vm")
	if gs.Workload != "cpu.prime" || gs.Baseline != "host" || gs.Blocks != 10 || len(gs.Groups) != 8 {
		t.Errorf("%+v", gs)
	}
	// 20 executions of 1 to 8 ms; the slow one takes 0.12 s more, the fast one 0.06 s less.
	if math.Abs(gs.Seconds-0.72) > 0.01 || math.Abs(gs.ExtraSeconds-0.06) > 0.01 {
		t.Errorf("%g s and %g s more", gs.Seconds, gs.ExtraSeconds)
	}
	for i, want := range []struct {
		id           string
		ratio, share float64
	}{{"002", 3, 2. / 3}, {"005", 0.5, -1. / 3}} {
		g := gs.Groups[i]
		if g.ID != want.id || g.Text != fmt.Sprint("SELECT ", g.ID[2:]) || g.Verdict != record.Different ||
			g.Low > want.ratio || g.High < want.ratio || g.High-g.Low > 0.1 || math.Abs(g.Share-want.share) > 0.02 ||
			g.Candidate.Count != 20 || g.Base.Rows != 40 || g.Blocks != 10 || g.Q > 0.05 {
			t.Errorf("%+v, want %+v", g, want)
		}
	}
	for _, g := range append(gs.Groups[2:], grouped(t, r, "box").Groups...) {
		if g.Verdict != record.Equivalent {
			t.Errorf("%s: %s %g [%g, %g]", g.ID, g.Verdict, g.Ratio.Center, g.Low, g.High)
		}
	}
	if len((world{plan: testPlan("cpu.prime"), blocks: 10}).evaluate().Groups) != 0 {
		t.Error("groups of trials that have none")
	}
}

// TestStalledBlock: a block in which a group hung for a while does not make that group the difference.
func TestStalledBlock(t *testing.T) {
	change := statements(1, 4, 0.002, map[string]float64{"002": 3})
	for _, side := range []string{"host", "vm"} {
		gs := grouped(t, world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005, change: func(tr *record.Trial) {
			change(tr)
			if tr.Target == side && tr.Block == 7 {
				tr.Groups[0].Seconds += 30
			}
		}}.evaluate(), "vm")
		if g := gs.Groups[0]; g.ID != "002" || g.Share < 0.98 || math.Abs(gs.ExtraSeconds-0.12) > 0.01 ||
			math.Abs(gs.Seconds-0.2) > 0.01 {
			t.Errorf("stalled in %s: %g s of %g s more, %.0f %% of it by %s", side, gs.ExtraSeconds, gs.Seconds,
				100*g.Share, g.ID)
		}
	}
}

// TestGroupsOfUnequalWork: the verdict of the cell is withheld, and the sentence names the group with both sides.
func TestGroupsOfUnequalWork(t *testing.T) {
	same := statements(1, 4, 0.002, nil)
	w := world{plan: testPlan("command"), blocks: 10, noise: 0.005}
	w.change = func(tr *record.Trial) {
		same(tr)
		if tr.Target == "vm" && tr.Block == 7 {
			tr.Groups[2].Check, tr.Groups[2].Rows, tr.Groups[2].Errors = "other", 39, 1
			tr.Groups = tr.Groups[:3] // the last one is missing
		}
	}
	r := w.evaluate()
	for _, metric := range []string{"seconds", "score", "p99_seconds"} {
		c := cell(t, r, "command", metric, "vm")
		w := warning(c, "unequal-work")
		if c.Verdict != record.Withheld || c.Ratio.Center != 0 || w == nil {
			t.Errorf("%s: %+v", metric, c)
			continue
		}
		const want = "the work of group 002 (SELECT 2) differs: 39 rows and 1 error in vm and 40 rows in host; so " +
			"does the work of 1 other group"
		if w.Text != want {
			t.Errorf("%s", w.Text)
		}
	}
	gs := grouped(t, r, "vm")
	for id, ratio := range map[string]bool{"000": true, "001": true, "002": false, "003": false} {
		if g := gs.find(id); g.Verdict != record.Withheld || g.Ratio.Center > 0 != ratio {
			t.Errorf("%+v", g)
		}
	}
	if c := cell(t, r, "command", "", "box"); c.Verdict != record.Equivalent {
		t.Errorf("the other candidate: %s %v", c.Verdict, c.Warnings)
	}
	w.change = func(tr *record.Trial) {
		same(tr)
		if tr.Target == "vm" {
			tr.Groups[1].Check = "other"
		}
	}
	if x := warning(cell(t, w.evaluate(), "command", "", "vm"), "unequal-work"); x == nil || x.Text !=
		"the work of group 001 (SELECT 1) differs: 40 rows in vm and 40 rows, but not the same ones, in host" {
		t.Errorf("%+v", x)
	}
	// What may be answered differently has no check: refusals and executions are counted all the same.
	for want, change := range map[string]func(*record.Group){
		"40 rows and 1 error in vm and 40 rows in host":                       func(g *record.Group) { g.Errors = 1 },
		"40 rows of 19 executions in vm and 40 rows of 20 executions in host": func(g *record.Group) { g.Count = 19 },
		"": func(g *record.Group) { g.Rows = 39 },
	} {
		w.change = func(tr *record.Trial) {
			same(tr)
			tr.Groups[1].Check = ""
			if tr.Target == "vm" && tr.Block == 7 {
				change(&tr.Groups[1])
			}
		}
		got := ""
		if x := warning(cell(t, w.evaluate(), "command", "", "vm"), "unequal-work"); x != nil {
			got = strings.TrimPrefix(x.Text, "the work of group 001 (SELECT 1) differs: ")
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	// Where the work writes nothing has a check: a conflict fails on one side only.
	w.change = func(tr *record.Trial) {
		same(tr)
		for i := range tr.Groups {
			tr.Groups[i].Check = ""
		}
		if tr.Target == "vm" {
			tr.Groups[1].Errors = 1
		}
	}
	if x := warning(cell(t, w.evaluate(), "command", "", "vm"), "unequal-work"); x != nil {
		t.Errorf("%+v", x)
	}
	// A slow target that was given less work has other checks by that alone.
	w.change = func(tr *record.Trial) {
		same(tr)
		if tr.Target == "vm" {
			tr.Work /= 2
			for i := range tr.Groups {
				g := &tr.Groups[i]
				g.Count, g.Rows, g.Seconds, g.Check = g.Count/2+8, g.Rows/2, g.Seconds*18/20, "half"
			}
		}
	}
	r = w.evaluate()
	if c := cell(t, r, "command", "", "vm"); warning(c, "unequal-work") != nil {
		t.Errorf("%v", c.Warnings)
	}
	if g := grouped(t, r, "vm").find("003"); g.Verdict != record.Equivalent || math.Abs(g.ExtraSeconds) > 0.001 {
		t.Errorf("%+v", g)
	}
}

// TestDifferences names the executions that returned something else, if trials have a sketch that can be read.
func TestDifferences(t *testing.T) {
	w := world{plan: testPlan("command"), blocks: 10, noise: 0.005}
	sketches := func(changed uint64, cut int) []Difference {
		same := statements(1, 4, 0.002, nil)
		w.change = func(tr *record.Trial) {
			same(tr)
			tr.Groups[1].ID = "0000000A00000001"
			var s setdiff.Sketch
			for n := range uint64(100) {
				e := setdiff.Element{Number: n, Kind: 10, Rows: 1, Sum: n}
				if tr.Target == "vm" && n < changed {
					tr.Groups[1].Check, e.Rows, e.Sum = "other", record.RefusedRows, 7
				}
				if tr.Target != "vm" || n != 1 {
					s.Add(e)
				}
			}
			tr.Sketch = s.Bytes()[cut:]
		}
		return grouped(t, w.evaluate(), "vm").Differences
	}
	want := []Difference{
		{0, "0000000A00000001", &Returned{0, "0000000000000007", true, 0, ""},
			&Returned{1, "0000000000000000", false, 0, ""}, 0},
		{1, "0000000A00000001", nil, &Returned{1, "0000000000000001", false, 0, ""}, 0}}
	if got := sketches(2, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if got := sketches(60, 0); len(got) == 0 || len(got) > mostDifferences {
		t.Errorf("of 60 that differ %d are named", len(got))
	}
	if got := sketches(2, 1); got != nil {
		t.Errorf("from a sketch without its beginning: %+v", got)
	}
}

func TestGroupsThatAreNotJudged(t *testing.T) {
	vm := map[string]float64{"000": 2, "001": 2, "002": 2}
	some := statements(1, 3, 0.002, vm)
	w := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005, clock: map[string]float64{"vm": 1.2}}
	w.change = func(tr *record.Trial) {
		some(tr)
		if tr.Block == 4 {
			tr.Groups[1].Count = leastExecutions - 1
		}
		tr.Groups[2].P50 = 0 // as all other groups together
		if tr.Target == "vm" {
			for i := range tr.Groups { // by its clock
				tr.Groups[i].Seconds, tr.Groups[i].P50 = tr.Groups[i].Seconds*1.2, tr.Groups[i].P50*1.2
			}
		}
	}
	gs := grouped(t, w.evaluate(), "vm")
	if g := gs.find("000"); g.Verdict != record.Different || g.Low > 2 || g.High < 2 || g.High > 2.1 {
		t.Errorf("the times of a wrong clock are not restated: %+v", g)
	}
	for _, id := range []string{"001", "002"} {
		g := gs.find(id)
		if g.Verdict != record.Inconclusive || g.Ratio.Center != 0 || g.Level != 0 || g.Q != 1 ||
			math.Abs(g.ExtraSeconds-g.Base.Seconds) > 0.01*g.Base.Seconds {
			t.Errorf("%+v", g)
		}
	}
	// A gate that withholds the cell withholds its groups, and the figures stay.
	w.change = func(tr *record.Trial) {
		some(tr)
		tr.Warnings = append(tr.Warnings, record.Warning{Code: "client-bound"})
	}
	if g := grouped(t, w.evaluate(), "vm").find("000"); g.Verdict != record.Withheld || g.Ratio.Center == 0 {
		t.Errorf("%+v", g)
	}
}

// TestSimulatedGroups holds the groups to what method.md promises of an exploration: with a family of groups that all
// cost the same, one report in twenty has a false DIFFERENT at any look, and a statement that became slower is found.
func TestSimulatedGroups(t *testing.T) {
	const groups = 40
	reports, slow := 100, 40
	if testing.Short() {
		reports, slow = 20, 10
	}
	wrong, found := 0, 0
	p := testPlan("cpu.prime")
	p.Targets = slices.Delete(p.Targets, 1, 2)
	different := func(in Input, blocks int) (ids []string) {
		in.Trials = upTo(in.Trials, blocks)
		for _, g := range grouped(t, Evaluate(in), "vm").Groups {
			if g.Verdict == record.Different {
				ids = append(ids, g.ID)
			}
		}
		return ids
	}
	run := func(i int, vm map[string]float64) Input {
		seed := uint64(i)
		return world{plan: p, blocks: p.MaxBlocks(), noise: 0.01, seed: seed,
			change: statements(seed, groups, 0.04, vm)}.input()
	}
	for i := range reports {
		in := run(i, nil)
		if slices.ContainsFunc(p.Looks, func(n int) bool { return len(different(in, n)) > 0 }) {
			wrong++
		}
	}
	told := 0
	for i := range slow {
		in := run(1000+i, map[string]float64{"011": 1.25})
		// Alone among so many it cannot be DIFFERENT at the first look: the run goes on, and the next one finds it.
		first := in
		first.Trials = upTo(in.Trials, p.Looks[0])
		r := Evaluate(first)
		if g := grouped(t, r, "vm").find("011"); g.NotConfirmed() && !Settled(r, "cpu.prime") &&
			g.BlocksNeeded > p.Looks[0] && g.BlocksNeeded <= p.Looks[1] &&
			slices.Contains(different(in, p.Looks[1]), "011") {
			told++
		}
		if slices.Contains(different(in, p.MaxBlocks()), "011") {
			found++
		}
	}
	t.Logf("%d of %d reports without a difference name one; of %d slow statements %d were told at the first look and "+
		"found at the second, %d at the last", wrong, reports, slow, told, found)
	if float64(told) < 0.95*float64(slow) {
		t.Errorf("only %d of %d slow statements were told of at the first look and found at the second", told, slow)
	}
	if share := float64(wrong) / float64(reports); share > 0.05 {
		t.Errorf("%.1f %% of reports name a difference where there is none", 100*share)
	}
	if float64(found) < 0.95*float64(slow) {
		t.Errorf("only %d of %d slow statements were found", found, slow)
	}
}

// upTo are the trials of a run that was stopped after so many blocks.
func upTo(trials []record.Trial, blocks int) []record.Trial {
	return slices.DeleteFunc(slices.Clone(trials), func(t record.Trial) bool { return t.Block > blocks })
}
