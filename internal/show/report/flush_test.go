package report

import (
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// TestFlushMarks holds that a figure which writes says what a flush does there, that no other does, and on what it
// rests.
func TestFlushMarks(t *testing.T) {
	s := scene{targets: []string{"host", "box", "vm", "tmp", "lab"}, workloads: work("cpu.prime",
		"fs.seqwrite fsync=end"), blocks: 15}
	s.cost = func(string, string) (float64, float64) { return 2, 0.02 }
	s.tweak = func(in *verdict.Input) {
		e := in.Environments
		for i, class := range []string{"flushes", "flushes", "ignores-flushes", "memory"} {
			e[i].Durability = &record.Durability{Verdict: record.Untested, Class: class, Text: "declared"}
		}
		e[1].Durability.Verdict, e[2].Durability.Verdict = record.Propagated, record.Disproved
	}
	m := NewModel(s.result())
	m.Text.Width = 120
	got := string(render(t, Terminal, m))
	line := func(begin string) string {
		for l := range strings.Lines(got) {
			if strings.HasPrefix(l, begin) {
				return strings.TrimSpace(l)
			}
		}
		t.Fatalf("no line begins with %q:\n%s", begin, got)
		return ""
	}
	write := strings.Fields(line("fs.seqwrite"))
	// box has its ratio and its mark; the writes of vm and tmp are of other classes and not ranked; of lab nothing is
	// known.
	marks := strings.Join(write, " ")
	for _, want := range []string{" f ", "? i", "? m"} {
		if !strings.Contains(marks+" ", want) {
			t.Errorf("%q is not in %q", want, marks)
		}
	}
	if strings.Contains(marks, " u") {
		t.Errorf("a target of which nothing was recorded has a mark: %s", marks)
	}
	if cpu := line("cpu.prime"); strings.ContainsAny(strings.TrimPrefix(cpu, "cpu.prime"), "fim") {
		t.Errorf("a figure that does not write has a mark: %s", cpu)
	}
	says := line("writes are ranked only among targets that flush alike:")
	for _, want := range []string{"host f UNTESTED", "box f PROPAGATED", "vm i DISPROVED", "tmp m UNTESTED"} {
		if !strings.Contains(says, want) {
			t.Errorf("%q is not in %q", want, says)
		}
	}
	for _, want := range []string{"f flush passed on", "i flush ignored", "m in memory"} {
		if !strings.Contains(got, want) {
			t.Errorf("the legend lacks %q:\n%s", want, got)
		}
	}
}
