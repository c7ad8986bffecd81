package rundiff

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/setdiff"
)

// withGroups gives the trials of cpu.prime groups. One of them costs box so many times as much.
func withGroups(seed uint64, slow float64) func(*plan.Plan, []record.Environment, []record.Trial) {
	rng := rand.New(rand.NewPCG(seed, 2))
	return func(_ *plan.Plan, _ []record.Environment, trials []record.Trial) {
		for i := range trials {
			t := &trials[i]
			for id := range 6 {
				cost := 0.001 * math.Exp(0.004*rng.NormFloat64())
				if t.Target == "box" && id == 2 {
					cost *= slow
				}
				if t.Workload == "cpu.prime" {
					t.Groups = append(t.Groups, record.Group{ID: fmt.Sprint("g", id), Text: fmt.Sprint("SELECT | ", id),
						Count: 20, Seconds: 20 * cost, P50: cost, P99: cost, Check: "1"})
				}
			}
		}
	}
}

// TestAChangedGroupIsFound: a cell that cost the same on both days has a statement that became slower.
func TestAChangedGroupIsFound(t *testing.T) {
	a := scene{seed: 1, blocks: 20, host: 1, box: 1.5, change: withGroups(1, 1.2)}
	b := scene{seed: 2, blocks: 20, host: 1, box: 1.5, day: 1, change: withGroups(2, 1.8)}
	c := compareScenes(a, b)
	gs := c.Pairs[0].Groups
	if len(gs) != 6 || gs[0].ID != "g2" || gs[0].Verdict != record.Different || gs[0].Low > 1.5 || gs[0].High < 1.5 ||
		math.Abs(gs[0].From.Center-1.2) > 0.02 || gs[0].Workload != "cpu.prime" || gs[0].Q > 0.05 {
		t.Fatalf("%+v", gs)
	}
	for _, g := range gs[1:] {
		if g.Verdict != record.Equivalent {
			t.Errorf("%s: %+v", g.ID, g.Ratio)
		}
	}
	for details, want := range map[bool]int{false: 1, true: 6} {
		for _, f := range Formats() {
			var out bytes.Buffer
			if err := f.Render(&out, c, Options{Details: details}); err != nil {
				t.Fatal(err)
			}
			want := want
			if f.Name == "json" {
				want = 6
			}
			if n := strings.Count(out.String(), "SELECT "); n != want {
				t.Errorf("%s has %d groups, want %d:\n%s", f.Name, n, want, &out)
			}
		}
	}
	// Where the cell is not compared, its groups are not either.
	b.change = func(p *plan.Plan, e []record.Environment, trials []record.Trial) {
		withGroups(2, 1.8)(p, e, trials)
		for i := range trials {
			trials[i].Checks = map[string]string{"n": "1"}
		}
	}
	if gs := compareScenes(a, b).Pairs[0].Groups; gs != nil {
		t.Errorf("%+v", gs)
	}
}

// TestManyGroupsChanged: each workload in each target has its rows, and what is left out is counted.
func TestManyGroupsChanged(t *testing.T) {
	var groups []Group
	for _, workload := range []string{"one", "two", "three"} {
		for i := range 12 {
			g := Group{Workload: workload, Target: "box", ID: fmt.Sprint(i),
				Ratio: record.Ratio{Center: 2, Verdict: record.Different}}
			if workload == "two" && i > 9 {
				g.Verdict = record.Equivalent
			}
			groups = append(groups, g)
		}
	}
	counts := map[string]int{}
	for _, r := range groupGrid("a", "b", groups, Options{}).rows {
		if counts[r[1]]++; counts[r[1]] > 10 && r[2] != "and 2 more (--details)" {
			t.Errorf("%q", r)
		}
	}
	if counts["one"] != 11 || counts["two"] != 10 || counts["three"] != 11 {
		t.Errorf("%v", counts)
	}
	if n := len(groupGrid("a", "b", groups, Options{Details: true}).rows); n != 36 {
		t.Errorf("%d rows with the details", n)
	}
	var out bytes.Buffer
	c := &Comparison{Sides: make([]Info, 2), Pairs: []Pair{{To: 1, Groups: groups}}}
	if err := Text(&out, c, Options{Width: 30}); err != nil || strings.Contains(out.String(), "change: \n") {
		t.Errorf("%v in a narrow terminal:\n%s", err, &out)
	}
}

// TestGroupsOfOtherWork: one statement was answered otherwise on the second day, which counts where both days did the
// same amount of work.
func TestGroupsOfOtherWork(t *testing.T) {
	for _, work := range []int64{100, 50} {
		a := scene{seed: 1, blocks: 20, host: 1, box: 1.5, change: withGroups(1, 1)}
		b := scene{seed: 2, blocks: 20, host: 1, box: 1.5, day: 1,
			change: func(p *plan.Plan, e []record.Environment, trials []record.Trial) {
				withGroups(2, 1)(p, e, trials)
				for i := range trials {
					if t := &trials[i]; t.Workload == "cpu.prime" {
						t.Work, t.Groups[3].Check = work, "2"
					}
				}
			}}
		c := cell(t, compareScenes(a, b), "cpu.prime")
		unequal := codes(c.Warnings) == "unequal-work"
		if same := work == 100; unequal != same || (c.Verdict == record.Withheld) != same {
			t.Errorf("work %d: %s %v", work, c.Verdict, c.Warnings)
		}
	}
}

// TestWhatGaveSomethingElse: the parts of the work are named that gave something else on the second day, and the
// executions; and no ratio of the figures is shown. The seed of the second day is another, which such work does not
// depend on.
func TestWhatGaveSomethingElse(t *testing.T) {
	work := func(slow uint64, check string, sum uint64) func(*plan.Plan, []record.Environment, []record.Trial) {
		return func(p *plan.Plan, e []record.Environment, trials []record.Trial) {
			withGroups(slow, 1)(p, e, trials)
			p.Seed = slow
			for i := range trials {
				if t := &trials[i]; t.Workload == "cpu.prime" {
					t.Groups[3].ID, t.Groups[3].Check = "00000003AAAAAAAA", check
					var s setdiff.Sketch
					for n := range uint64(100) {
						e := setdiff.Element{Number: n, Kind: 3, Rows: 1, Sum: n}
						if n == 42 {
							e.Sum = sum
						}
						s.Add(e)
					}
					t.Sketch = s.Bytes()
				}
			}
		}
	}
	a := scene{seed: 1, blocks: 20, host: 1, box: 1.5, change: work(1, "one", 1<<60)}
	b := scene{seed: 2, blocks: 20, host: 1, box: 1.5, day: 1, change: work(2, "two", 2<<60)}
	c := Compare([]Side{unseeded(a.side("a")), unseeded(b.side("b"))})
	p := &c.Pairs[0]
	if len(p.Unequal) != 2 || p.Unequal[0].Target != "host" || p.Unequal[1].Target != "box" {
		t.Fatalf("%+v", p.Unequal)
	}
	for _, u := range p.Unequal {
		d := u.Differences
		if len(u.Groups) != 1 || u.Groups[0] != (UnequalGroup{"00000003AAAAAAAA", "SELECT | 3", "one", "two"}) ||
			len(d) != 1 || !u.AllDiffer || d[0].Number != 42 || d[0].Group != "00000003AAAAAAAA" ||
			d[0].Base.String() != "1 row 10000000" || d[0].Candidate.String() != "1 row 20000000" {
			t.Errorf("%+v", u)
		}
	}
	for _, v := range p.Values {
		if (v.Cost == 0) != (v.From.Workload == "cpu.prime") {
			t.Errorf("%s of %s costs %v", v.From.Metric, v.From.Workload, v.Cost)
		}
	}
	for _, f := range Formats() {
		var out bytes.Buffer
		if err := f.Render(&out, c, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"42", "1 row 20000000", "10000000"} {
			if text := out.String(); f.Name != "json" && !strings.Contains(text, want) {
				t.Errorf("%s lacks %s:\n%s", f.Name, want, text)
			}
		}
	}
}

// unseeded makes the work of a side independent of the seed.
func unseeded(s Side) Side {
	kinds := s.Kinds
	s.Kinds = func(name string) (*workload.Kind, bool) {
		k, ok := kinds(name)
		if ok {
			k.Unseeded, k.SameWork = true, true
		}
		return k, ok
	}
	return s
}

// TestOtherUnits: units of work that are not alike are compared only where trials have the same number of them.
func TestOtherUnits(t *testing.T) {
	for units, want := range map[int64]bool{100: true, 50: false} {
		a := scene{seed: 1, blocks: 20, host: 1, box: 1.5}
		b := scene{seed: 2, blocks: 20, host: 1, box: 1.5, day: 1,
			change: func(p *plan.Plan, _ []record.Environment, _ []record.Trial) {
				p.Workloads[0].Work = map[string]int64{"host": units, "box": units}
			}}
		for alike, want := range map[bool]bool{true: true, false: want} {
			x, y := a.side("a"), b.side("b")
			if !alike {
				x, y = unseeded(x), unseeded(y)
			}
			if c := cell(t, Compare([]Side{x, y}), "cpu.prime"); (c.Verdict != record.Withheld) != want {
				t.Errorf("%d units, alike: %t: %s %v", units, alike, c.Verdict, c.Warnings)
			}
		}
	}
}
