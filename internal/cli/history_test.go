package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/internal/compare"
	"tare/internal/store"
)

// TestTrend holds that a trend shows its figures as reports do, marks where its level changed, and shows no host's escape
// sequences.
func TestTrend(t *testing.T) {
	x := store.Trend{Cell: store.CellName{Target: "box", Workload: "cpu.prime", Primary: true}, Host: "lab\x1b[31m", Shifts: []store.Shift{{At: 1, Before: 1, After: 0.0512, P: 0.0025}}}
	for i, v := range []float64{0.998, 0.0512, 0} {
		p := store.Point{RunID: "run", Created: time.Date(2026, 11, 1+i, 6, 0, 0, 0, time.UTC), Kernel: "6.1.0", Verdict: "MEASURED", Ratio: v, Low: v / 2, High: 2 * v, Changed: i == 1}
		x.Points = append(x.Points, p)
	}
	var out bytes.Buffer
	if err := (&app{out: &out}).trend(&x, false); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{`box/cpu.prime on lab\x1b[31m`,
		"  2026-11-01 06:00:00  run  1.00    [0.50, 2.00]    MEASURED  6.1.0",
		"  2026-11-02 06:00:00  run  0.0512  [0.0256, 0.10]  MEASURED  6.1.0  <- from about 1.00 to about 0.0512 (p 0.0025)",
		"  2026-11-03 06:00:00  run  -                       MEASURED  6.1.0",
		"  one change of level", ""}, "\n")
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDoubtful holds that what is wrong with a bundle is the first thing that its report says, and nothing of a sound one.
func TestDoubtful(t *testing.T) {
	r := &compare.Result{Findings: []compare.Finding{{Code: "other"}}}
	if doubtful(r, nil); len(r.Findings) != 1 {
		t.Errorf("%+v", r.Findings)
	}
	doubtful(r, errors.Join(errors.New("the plan was changed"), errors.New("line 3 is cut")))
	if f := r.Findings[0]; len(r.Findings) != 2 || f.Code != "damaged" || !strings.HasSuffix(f.Text, ": the plan was changed; line 3 is cut") {
		t.Errorf("%+v", r.Findings)
	}
}
