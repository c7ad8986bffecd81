package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// mostCases is the number of cases of a suite that are shown one by one without Details, unless more of them differ.
const mostCases = 30

// cases are the cells of the figures that the commands print, in the order in which they are read; none where the time
// of a run decides.
func (t *terminal) cases() []*verdict.Cell {
	printed := map[string]bool{}
	if t.Plan == nil || len(t.Plan.Workloads) == 0 {
		return nil
	}
	for _, line := range strings.Split(t.Plan.Workloads[0].Params["metric"], "\n") {
		if name, _, ok := strings.Cut(line, ":"); ok {
			printed[name] = true
		}
	}
	var cells []*verdict.Cell
	for i := range t.Cells {
		if c := &t.Cells[i]; printed[c.Metric] && c.Target != t.Run.Baseline {
			cells = append(cells, c)
		}
	}
	return cells
}

// suite writes the verdicts of the cases of a suite: first those that differ, the largest difference first, then the
// others in the suite's order, and the number of each.
func (t *terminal) suite(cells []*verdict.Cell) {
	var differ, rest []*verdict.Cell
	for _, c := range cells {
		if c.Verdict == record.Different {
			differ = append(differ, c)
		} else {
			rest = append(rest, c)
		}
	}
	slices.SortStableFunc(differ, func(a, b *verdict.Cell) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio.Center)), math.Abs(math.Log(a.Ratio.Center)))
	})
	shown := rest
	if !t.Text.Details {
		shown = rest[:min(len(rest), max(0, mostCases-len(differ)))]
	}
	several := len(t.Targets) > 2
	rows := [][]string{t.caseHead(several)}
	for _, c := range append(slices.Clone(differ), shown...) {
		rows = append(rows, t.caseRow(c, several))
	}
	for _, line := range aligned(rows) {
		t.line("%s", line)
	}
	if n := len(rest) - len(shown); n > 0 {
		t.line("%d more, none of them DIFFERENT; --details shows them", n)
	}
	if about := t.about(); len(about) > 0 {
		t.line("")
		t.lines(about)
	}
	t.line("")
	for i := range t.Targets {
		if name := t.Targets[i].Name; name != t.Run.Baseline {
			t.para("", t.counted(name, cells)+t.takes(clean(name), name))
		}
	}
}

func (t *terminal) caseHead(several bool) []string {
	head := []string{"case"}
	if several {
		head = append(head, "variant")
	}
	own := "compared"
	if !several && len(t.Targets) == 2 {
		own = t.other()
	}
	return append(head, clean(t.Run.Baseline), clean(own), "ratio", "verdict")
}

// other is the name of the one that is no baseline.
func (t *terminal) other() string {
	for i := range t.Targets {
		if name := t.Targets[i].Name; name != t.Run.Baseline {
			return name
		}
	}
	return ""
}

func (t *terminal) caseRow(c *verdict.Cell, several bool) []string {
	row := []string{clean(c.Metric)}
	if several {
		row = append(row, clean(c.Target))
	}
	ratio := ""
	if c.Verdict != record.Failed && c.Verdict != record.Withheld && c.Ratio.Center > 0 {
		ratio = strings.TrimSpace(ratioText(c.Ratio.Center) + " " + bracket(c.Low, c.High, c.Level > 0))
	}
	return append(row, figure(c.BaselineCenter, c.Unit), figure(c.Center, c.Unit), ratio, verdictText(c))
}

// counted is a sentence with the number of a variant's cases by verdict.
func (t *terminal) counted(target string, cells []*verdict.Cell) string {
	all, worse, better, same, lost := 0, 0, 0, 0, 0
	for _, c := range cells {
		if c.Target != target {
			continue
		}
		all++
		switch {
		case c.Verdict == record.Failed || c.Verdict == record.Withheld:
			lost++
		case c.Verdict == record.Equivalent:
			same++
		case c.Verdict == record.Different && c.Ratio.Center > 1:
			worse++
		case c.Verdict == record.Different:
			better++
		}
	}
	text := fmt.Sprintf("Of %s, %s costs more than %s in %d and less in %d", unit.Plural(all, "case"), clean(target),
		clean(t.Run.Baseline), worse, better)
	if same > 0 {
		text += fmt.Sprintf("; shown to be the same: %d", same)
	}
	if n := all - worse - better - same - lost; n > 0 {
		text += fmt.Sprintf("; no difference shown: %d", n)
	}
	if lost > 0 {
		text += fmt.Sprintf("; without a verdict: %d", lost)
	}
	if all > 1 {
		text += fmt.Sprintf(". The first case is judged by itself, the others together, so that on average at most "+
			"%.3g %% of those called DIFFERENT are the same", 100*t.alpha())
	}
	return text + "."
}

// alpha is the error level of the run.
func (t *terminal) alpha() float64 { return cmp.Or(t.Run.Alpha, plan.DefaultAlpha) }
