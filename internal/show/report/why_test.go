package report

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// TestWhyIsShownWhereItIsAskedFor: the sentence, the parts, what is not measured and what works on the host, in any
// width, and nothing of it without --why.
func TestWhyIsShownWhereItIsAskedFor(t *testing.T) {
	m := scenes()["groups"]
	if out := string(render(t, Terminal, m)); strings.Contains(out, "Why") {
		t.Errorf("not asked for:\n%s", out)
	}
	m.Text.Why, m.Text.Width = true, 200
	if out := string(render(t, Terminal, m)); !strings.Contains(out, "\nWhy: the trials have no accounts") {
		t.Errorf("a bundle without accounts says nothing of it:\n%s", out)
	}
	sees := func(want string) {
		t.Helper()
		if out := string(render(t, Terminal, m)); !strings.Contains(out, "\nWhy: "+want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	whole := m.Cells
	m.Cells = slices.Clone(whole)
	for i := range m.Cells {
		m.Cells[i].Verdict = record.Withheld
	}
	sees("every verdict is withheld")
	for i := range m.Cells {
		m.Cells[i].Ratio = record.Ratio{}
	}
	sees("no cell has a ratio")
	m.Cells = nil
	sees("no workload was compared in two targets")
	targets := m.Targets
	m.Targets = targets[:1]
	sees("a ratio is of two targets, and this run has only ")
	m.Cells, m.Targets = whole, targets
	m.Why = []verdict.Why{{Workload: "w", Target: "box", Baseline: "host", Ratio: 1.26, Blocks: 10, Level: 0.95,
		Unit: "read", Text: "1.26 = 0.31 user code + 0.95 waiting",
		Parts: []verdict.Part{
			{Name: "user", What: "user code", Base: 0.306, Candidate: 0.312, Extra: 0.007, Low: -0.01, High: 0.02},
			{Name: "other", What: "waiting", Base: 0.696, Candidate: 0.948, Extra: 0.253, Low: 0.24, High: 0.26,
				Shown: true}},
		Counts: []verdict.Counted{{Name: record.SwitchesVoluntary, Base: 0, Candidate: 1},
			{Name: record.ReadBytes, Base: 4096, Candidate: 8192},
			{Name: record.FaultsMinor, Base: 1, Candidate: 1.01}},
		Serving:    []verdict.Serving{{Name: "virtiofsd", Processors: 0.5}},
		Exits:      []verdict.Exit{{Name: "exits", PerUnit: 3.5}, {Name: "io_exits", PerUnit: 2}, {Name: "x_exits"}},
		Unmeasured: map[string]string{record.DiskNS: "box: it is off"},
		Product: &verdict.Product{Text: "1.26 = 1.00 instructions x 1.26 waiting",
			Factors: []verdict.Factor{{Name: "instructions", Ratio: 1}, {Name: "rest", Ratio: 1.26}}},
	}, {Workload: "y", Target: "box", Baseline: "host", Product: &verdict.Product{Text: "unmeasurable: box: no PMU"}},
		{Workload: "z", Target: "box", Baseline: "host", Product: &verdict.Product{Text: "unmeasurable: box: no PMU"}},
		{Workload: "x", Target: "box", Baseline: "host", Unit: "op",
			Text: "p99\x1b[2J is not the time of a unit of work",
			Counts: []verdict.Counted{{Name: record.StolenNS, Base: 20, Candidate: 1500},
				{Name: record.IOStalledNS, Base: 0.4, Candidate: 0.9}}}}
	out := string(render(t, Terminal, m))
	for _, want := range []string{
		"Why w in box: 1.26 = 0.31 user code + 0.95 waiting.\n",
		"  user code  0.31  0.31       +0.01  -0.01 to +0.02  not shown\n",
		"  waiting    0.70  0.95       +0.25  +0.24 to +0.26\n",
		"  for each read, host and box: 0 and 1.00 voluntary context switches, ",
		" 4.00 KiB and 8.00 KiB read by system calls\n",
		"  for each op, host and box: 20.0 ns and 1.50 µs stolen from its processors by a hypervisor\n",
		"  processors of this machine busy for box: virtiofsd 0.50\n",
		"  exits of virtual processors of box for each read: 3.50 exits, 2.00 io exits\n",
		"  not measured: waiting for a disk (box: it is off)\n",
		"  as a product: 1.26 = 1.00 instructions x 1.26 waiting\n",
		"\nThe ratios as products of instructions, cycles and clock are unmeasurable: box: no PMU.\n",
		"Why x in box: p99", " is not the time of a unit of work.\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") || strings.Contains(out, "page faults") {
		t.Errorf("an escape, or a count that explains nothing:\n%s", out)
	}
	if n := strings.Count(out, "no PMU"); n != 1 {
		t.Errorf("what is not counted is said %d times:\n%s", n, out)
	}
	m.Text.Width = 40
	for line := range strings.Lines(string(render(t, Terminal, m))) {
		if strings.HasPrefix(line, "Why") && width(strings.TrimRight(line, "\n")) > 40 {
			t.Errorf("%q is wider than 40", line)
		}
	}
}
