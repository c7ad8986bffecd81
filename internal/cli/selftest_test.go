package cli

import (
	"bytes"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// TestControls holds the self-test to what it says: the injected 5 % counts as found only where it is costlier, and a
// figure that has no room for it fails.
func TestControls(t *testing.T) {
	cell := func(target string, v record.Verdict, low, center, high float64) verdict.Cell {
		return verdict.Cell{Workload: "w", Target: target, Primary: true, Margin: 0.02,
			Ratio: record.Ratio{Center: center, Low: low, High: high, Level: 0.95, Blocks: 24, Verdict: v}}
	}
	for _, c := range []struct {
		name    string
		verdict record.Verdict
		low     float64
		center  float64
		high    float64
		code    int
		said    string
	}{
		{"found", record.Different, 1.045, 1.05, 1.055, exitOK, "found in 1 of 1"},
		{"wide but found", record.Different, 1.021, 1.05, 1.08, exitOK, "found in 1 of 1"},
		{"the other way round", record.Different, 0.95, 0.952, 0.955, exitFailed, "found in 0 of 1"},
		{"far too much", record.Different, 1.79, 1.80, 1.81, exitFailed, "measured as something else in 1"},
		{"measured as too little", record.Measured, 1.004, 1.012, 1.021, exitFailed, "measured as something else in 1"},
		{"called equal", record.Equivalent, 0.999, 1.001, 1.003, exitFailed, "called equivalent in 1"},
		{"nothing decided", record.Inconclusive, 0.6, 1.05, 1.7, exitInconclusive, "No hidden cost was found"},
		{"no interval", record.Withheld, 0, 0, 0, exitFailed, "too few blocks"},
	} {
		slower := cell(selfSlower, c.verdict, c.low, c.center, c.high)
		if c.low == 0 {
			slower.Level = 0
		}
		r := &verdict.Result{Cells: []verdict.Cell{cell(selfSame, record.Equivalent, 0.99, 1, 1.01), slower}}
		var out bytes.Buffer
		n := countControls(r)
		(&selftestCommand{app: &app{console: console{out: &out}}}).selftestReport(r, &n)
		if code := n.conclude(&out); code != c.code || !strings.Contains(out.String(), c.said) {
			t.Errorf("%s: code %d, want %d with %q:\n%s", c.name, code, c.code, c.said, out.String())
		}
		if c.name == "found" {
			r.Cells[0] = cell(selfSame, record.Different, 1.03, 1.04, 1.05)
			if n := countControls(r); n.conclude(&out) != exitFailed {
				t.Error("a false alarm passes")
			}
		}
	}
}
