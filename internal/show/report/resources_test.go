package report

import (
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// variantsOf is a comparison of a command with variants of it. cost has the ratios of each by metric; those beyond 5 %
// are certain.
func variantsOf(cost map[string]map[string]float64, names ...string) *Model {
	r := &verdict.Result{Schema: verdict.Schema, Run: verdict.Run{Baseline: names[0], Blocks: 10, Scope: "on this boot",
		Finished: true, Version: "0.1.0", Alpha: 0.05}}
	for i, name := range names {
		r.Targets = append(r.Targets, verdict.Target{Target: record.Target{Name: name}, Baseline: i == 0})
		if i == 0 {
			continue
		}
		for _, m := range []struct {
			name, unit string
			base       float64
		}{{"seconds", "s", 0.02}, {"user_seconds", "s", 0.001}, {"system_seconds", "s", 0.0005},
			{"max_rss_bytes", "B", 8 << 20}, {"page_faults", "faults", 76}} {
			ratio, v := cost[name][m.name], record.Equivalent
			if ratio == 0 {
				ratio = 1
			} else if ratio > 1.05 || ratio < 0.95 {
				v = record.Different
			}
			r.Cells = append(r.Cells, verdict.Cell{Workload: "command", Kind: "command", Family: "command",
				Metric: m.name, Unit: m.unit, Better: "lower", Primary: m.name == "seconds", Target: name,
				Baseline: names[0], BaselineCenter: m.base, Center: ratio * m.base, SameMargin: 0.02,
				Ratio: record.Ratio{Center: ratio, Low: 0.99 * ratio, High: 1.01 * ratio, Level: 0.95, Verdict: v,
					Blocks: 10}})
		}
		sum := r.Cells[len(r.Cells)-5].Ratio
		r.Families = append(r.Families, verdict.Summary{Family: "command", Target: name, Ratio: sum.Center,
			Low: sum.Low, High: sum.High, Cells: 1, Blocks: 10})
		n := cost[name]["switches"]
		if n == 0 {
			n = 1
		}
		r.Counters = append(r.Counters, verdict.Counters{Workload: "command", Target: name, Baseline: names[0],
			Unit: "run", Counts: []verdict.Counter{{Name: verdict.ContextSwitches, Base: 4, Candidate: 4 * n, Ratio: n,
				Low: 0.98 * n, High: 1.02 * n, Shown: n > 1.02 || n < 0.98}},
			Unmeasured: map[string]string{verdict.Instructions: "no PMU", verdict.Cycles: "no PMU"}})
	}
	m := NewModel(r)
	m.Text.Width = 100
	return m
}

func TestWhatARunTakesBesideItsTime(t *testing.T) {
	m := variantsOf(map[string]map[string]float64{"new": {"seconds": 1.5, "max_rss_bytes": 2.1, "user_seconds": 0.4,
		"switches": 3}, "other": {"switches": 1.03}}, "old", "new", "other")
	out := string(render(t, Variants, m))
	for _, want := range []string{"time of a run ratio verdict\n", "new 30.0 ms 1.50 [1.48, 1.52] DIFFERENT\n",
		"user system peak memory faults switches\n", "old 1.00 ms 500 µs 8.00 MiB 76.0 4.00\n",
		"new 400 µs (0.40x) 500 µs 16.8 MiB (2.10x) 76.0 12.0 (3.00x)\n",
		"other 1.00 ms 500 µs 8.00 MiB 76.0 4.12\n", "* unmeasurable: instructions and cycles (no PMU)\n"} {
		if !strings.Contains(squeezed(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	told := strings.Join(strings.Fields(out), " ")
	if !strings.Contains(told, "It takes 3.00x the context switches, 0.40x the CPU time in user code and 2.10x the "+
		"memory.") || strings.Count(told, "It takes") != 1 || strings.Count(out, "no PMU") != 1 {
		t.Errorf("what differs is not named, once:\n%s", out)
	}
	m.Text.Details = true
	out = squeezed(string(render(t, Variants, m)))
	for _, want := range []string{"for each run old new ratio\n",
		"CPU time in user code 1.00 ms 400 µs 0.40 [0.40, 0.40] DIFFERENT\n",
		"memory 8.00 MiB 16.8 MiB 2.10 [2.08, 2.12] DIFFERENT\n",
		"context switches 4.00 12.0 3.00 [2.94, 3.06] shown to differ\n",
		"context switches 4.00 4.12 1.03 [1.01, 1.05] not shown to differ\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// squeezed has one blank in the place of several.
func squeezed(text string) string {
	var lines []string
	for l := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(l), " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestWhatIsNotCounted: what one side lacks is no 0, reasons stand once each, and a variant that failed has nothing.
func TestWhatIsNotCounted(t *testing.T) {
	m := variantsOf(nil, "old", "new", "other")
	k := m.Counters
	k[0].Counts = []verdict.Counter{{Name: verdict.ContextSwitches, Base: 4},
		{Name: verdict.Instructions, Base: 2e6, Candidate: 0}}
	k[0].Unmeasured = map[string]string{verdict.Instructions: "new: slim\x1b[2J"}
	k[1].Counts[0] = verdict.Counter{Name: verdict.ContextSwitches, Base: 4, Candidate: 0, Ratio: 0.1, Low: 0.1,
		High: 0.2, Shown: true}
	out := string(render(t, Variants, m))
	told := squeezed(out)
	for _, want := range []string{" faults switches instructions\n", "old 1.00 ms 500 µs 8.00 MiB 76.0 4.00 2.00 M\n",
		"new 1.00 ms 500 µs 8.00 MiB 76.0 - -\n", "other 1.00 ms 500 µs 8.00 MiB 76.0 0 (0.10x) -\n",
		"unmeasurable: instructions (new: slim", "unmeasurable: instructions and cycles (no PMU)\n"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("an escape is passed on:\n%q", out)
	}
	// Old bundles have no accounts.
	m = variantsOf(nil, "old", "new")
	m.Counters = nil
	if out := string(render(t, Variants, m)); strings.Contains(out, "switches") || strings.Contains(out, "unmeas") ||
		!strings.Contains(squeezed(out), "user system peak memory faults\n") {
		t.Errorf("%s", out)
	}
	// Nothing is known at all.
	m.Cells = nil
	if out := string(render(t, Variants, m)); strings.Contains(out, "user") {
		t.Errorf("a table of nothing:\n%s", out)
	}
}
