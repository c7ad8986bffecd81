package verdict

import (
	"math"
	"slices"
	"testing"

	"tare/internal/record"
)

func TestSessionsAreTheUnit(t *testing.T) {
	p := testPlan("cpu.prime")
	p.Sessions = 3
	boot := map[int]float64{1: 1.00, 2: 1.10, 3: 0.91} // each boot of the vm has a cost of its own
	r := world{plan: p, sessions: 3, blocks: 10, noise: 0.003, change: func(t *record.Trial) {
		if t.Target == "vm" {
			t.Metrics["events_per_second"] /= boot[t.Session]
		}
	}}.evaluate()
	if r.Run.Scope != "across 3 boots" || r.Run.Sessions != 3 {
		t.Errorf("scope %q", r.Run.Scope)
	}
	c := cell(t, r, "cpu.prime", "", "vm")
	if c.Verdict != record.Inconclusive || c.Blocks != 30 || c.Low > 0.9 || c.High < 1.1 {
		t.Errorf("%s [%g, %g] over %d blocks: boots that differ by 10 %% were pooled", c.Verdict, c.Low, c.High,
			c.Blocks)
	}
	if b := cell(t, r, "cpu.prime", "", "box"); b.Verdict != record.Equivalent {
		t.Errorf("box: %s [%g, %g]", b.Verdict, b.Low, b.High)
	}
}

// Several sessions take no looks: their level is the plan's, whatever that of a look.
func TestSessionsAreJudgedAtThePlansLevel(t *testing.T) {
	p := testPlan("cpu.prime")
	p.Sessions = 5
	in := world{plan: p, sessions: 5, blocks: 10, noise: 0.02, cost: map[string]float64{"vm": 1.3}}.input()
	width := func(lookAlpha, alpha float64) float64 {
		q := *p
		q.LookAlpha, q.Alpha = lookAlpha, alpha
		in := in
		in.Plan = &q
		c := cell(t, Evaluate(in), "cpu.prime", "", "vm")
		return math.Log(c.High / c.Low)
	}
	if a, b := width(0.05, 0.05), width(0.001, 0.05); a != b || !(a > 0) {
		t.Errorf("the interval is %g wide, and %g with a stricter look", a, b)
	}
	if a, b := width(0.05, 0.05), width(0.05, 0.001); a >= b {
		t.Errorf("the interval is %g wide at 5 %%, %g at 0.1 %%", a, b)
	}
}

func TestACellOfFewerSessionsThanTheRun(t *testing.T) {
	p := testPlan("cpu.prime", "fs.seqwrite")
	p.Sessions = 3
	in := world{plan: p, sessions: 3, blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 1.3}}.input()
	only := func(sessions int) *Result {
		in := in
		in.Trials = slices.DeleteFunc(slices.Clone(in.Trials), func(t record.Trial) bool {
			return t.Workload == "fs.seqwrite" && t.Target == "vm" && t.Session > sessions
		})
		return Evaluate(in)
	}
	for sessions, want := range map[int]record.Verdict{1: record.Inconclusive, 2: record.Different,
		3: record.Different} {
		r := only(sessions)
		c := cell(t, r, "fs.seqwrite", "", "vm")
		if c.Verdict != want || (warning(c, "sessions-missing") != nil) != (sessions < 3) ||
			(c.Level > 0) != (sessions > 1) {
			t.Errorf("%d sessions: %s [%g, %g] %v", sessions, c.Verdict, c.Low, c.High, c.Warnings)
		}
		if o := cell(t, r, "cpu.prime", "", "vm"); o.Verdict != record.Different || len(o.Warnings) > 0 {
			t.Errorf("the other workload: %s %v", o.Verdict, o.Warnings)
		}
		for _, s := range r.Families {
			if s.Family == "file system" && s.Target == "vm" && (s.High > 0) != (sessions > 1) {
				t.Errorf("%d sessions: %+v", sessions, s)
			}
		}
	}
}
