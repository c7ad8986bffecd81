package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/history"
)

// TestTrend holds that a trend shows its figures as reports do, marks where its level changed, and shows no host's
// escape sequences.
func TestTrend(t *testing.T) {
	x := history.Trend{Cell: history.CellName{Target: "box", Workload: "cpu.prime", Primary: true}, Host: "lab\x1b[31m",
		Shifts: []history.Shift{{At: 1, Before: 1, After: 0.0512, P: 0.0025}}}
	for i, v := range []float64{0.998, 0.0512, 0} {
		p := history.Point{RunID: "run", Created: time.Date(2026, 11, 1+i, 6, 0, 0, 0, time.UTC), Kernel: "6.1.0",
			Verdict: "MEASURED", Ratio: v, Low: v / 2, High: 2 * v, Changed: i == 1}
		x.Points = append(x.Points, p)
	}
	var out bytes.Buffer
	if err := (&historyCommand{app: &app{console: console{out: &out}}}).trend(&x, false); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{`box/cpu.prime on lab\x1b[31m`,
		"  2026-11-01 06:00:00  run  1.00    [0.50, 2.00]    MEASURED  6.1.0",
		"  2026-11-02 06:00:00  run  0.0512  [0.0256, 0.10]  MEASURED  6.1.0  <- from about 1.00 to about 0.0512 (p " +
			"0.0025)",
		"  2026-11-03 06:00:00  run  -                       MEASURED  6.1.0",
		"  one change of level", ""}, "\n")
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestShownName holds that no report which is passed on says in whose folder its bundle lay.
func TestShownName(t *testing.T) {
	const path = "/home/alice/acme/monday/"
	for _, c := range []struct {
		format, out string
		redacted    bool
		want        string
	}{
		{"text", "", false, path},
		{"text", "", true, "monday"},
		{"text", "monday.txt", false, "monday"},
		{"markdown", "", false, "monday"},
		{"html", "monday.html", true, "monday"},
	} {
		if got := shownName(path, c.format, c.out, c.redacted); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestTrendWithoutChange holds that "no change" is said only where one would have shown.
func TestTrendWithoutChange(t *testing.T) {
	for _, c := range []struct {
		points, ignored int
		visible         float64
		want            string
	}{
		{5, 0, 0, "not enough data: 5 runs are too few to find a change; it takes at least 6"},
		{7, 2, 0, "not enough data: 5 runs are too few to find a change; it takes at least 6"},
		{8, 0, 0, "not enough data: 8 runs are too few to find a change without intervals"},
		{8, 0, 0.7, "too noisy: these runs differ so much that only a change by 70 % or more would be detected"},
		{8, 0, 0.052, "no change of level; one of 6 % or more in the middle would have been detected"},
	} {
		x := history.Trend{Visible: c.visible}
		for i := range c.points {
			x.Points = append(x.Points, history.Point{Ratio: 1, Ignored: i < c.ignored})
		}
		if got := x.Text(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestDamageOf holds that a report says what is wrong with its bundle, and not where that lay.
func TestDamageOf(t *testing.T) {
	if got := damageOf("/tmp/x", "y", nil, nil); got != nil {
		t.Errorf("a sound bundle: %q", got)
	}
	got := damageOf("/tmp/tare-1/bundle", "/home/alice/acme.tare",
		errors.New("unpack /home/alice/acme.tare: it is cut short"),
		errors.Join(errors.New("read trials of /tmp/tare-1/bundle: line 3 is cut"), errors.New("line 4 is cut")))
	if len(got) != 2 || got[0] != "unpack acme.tare: it is cut short" ||
		got[1] != "read trials of acme.tare: line 3 is cut; line 4 is cut" {
		t.Errorf("%q", got)
	}
}
