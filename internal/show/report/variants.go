package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// Variants writes a comparison of the variants of one command: a line for each, with the ratio of its time to the first
// one's and the verdict in a word; the other metrics; and the notes on them. It wants m.Plan.
func Variants(w io.Writer, m *Model) error {
	t := &terminal{Model: m, width: max(m.Text.Width, 20), pointed: map[[2]string]bool{}}
	t.point()
	t.header()
	if cases := t.cases(); len(cases) > 0 {
		t.suite(cases)
	} else {
		t.variants()
		t.line("")
		for _, a := range t.Answers() {
			t.para("", strings.TrimPrefix(a.Text, "Command: ")+t.takes("It", a.Target))
		}
	}
	if t.Text.Details {
		t.resourceDetails()
	}
	t.lines(t.whyLines())
	return t.finish(w, t.undecided())
}

// variants writes the table, and then the settings behind the names.
func (t *terminal) variants() {
	primary, unitName := "", ""
	by := t.byMetric()
	for _, c := range by {
		if c.Primary {
			primary, unitName = c.Metric, c.Unit
		}
	}
	rows := [][]string{{"", "time of a run", "ratio", "verdict"}}
	for i := range t.Targets {
		target := &t.Targets[i]
		row := []string{clean(target.Name)}
		if target.Name == t.Run.Baseline {
			row = append(row, t.baselineFigure(primary, unitName), "", "baseline")
		} else if c := by[[2]string{target.Name, primary}]; c != nil {
			ratio := ""
			// As in every report: a withheld verdict has no ratio beside it.
			if c.Verdict != record.Failed && c.Verdict != record.Withheld && c.Ratio.Center > 0 {
				ratio = strings.TrimSpace(ratioText(c.Ratio.Center) + " " + bracket(c.Low, c.High, c.Level > 0))
			}
			row = append(row, figure(c.Center, unitName), ratio, verdictText(c))
		} else {
			row = append(row, "", "", "")
		}
		rows = append(rows, row)
	}
	t.lines(aligned(rows))
	t.resourceTable()
	if about := t.about(); len(about) > 0 {
		t.line("")
		t.lines(about)
	}
}

// byMetric are the cells of a run of one workload, by target and metric.
func (t *terminal) byMetric() map[[2]string]*verdict.Cell {
	by := map[[2]string]*verdict.Cell{}
	for i := range t.Cells {
		by[[2]string{t.Cells[i].Target, t.Cells[i].Metric}] = &t.Cells[i]
	}
	return by
}

// aligned sets columns two spaces apart.
func aligned(rows [][]string) []string {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			wide[i] = max(wide[i], width(text))
		}
	}
	var lines []string
	for _, row := range rows {
		line := ""
		for i, text := range row {
			line += padRight(text, wide[i]) + "  "
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func figure(v float64, unitName string) string {
	if !(v > 0) {
		return "-"
	}
	return unit.Format(v, clean(unitName))
}

// baselineFigure is the baseline's figure of a metric, as the first cell that is compared with it has it.
func (t *terminal) baselineFigure(metric, unitName string) string {
	for i := range t.Cells {
		if c := &t.Cells[i]; c.Metric == metric && c.BaselineCenter > 0 {
			return figure(c.BaselineCenter, unitName)
		}
	}
	return "-"
}

// about lists the settings behind the names of the variants, as far as they differ.
func (t *terminal) about() []string {
	if t.Plan == nil || len(t.Plan.Workloads) == 0 {
		return nil
	}
	w := &t.Plan.Workloads[0]
	differs := func(of func(target *plan.Target) string) bool {
		return slices.ContainsFunc(t.Plan.Targets, func(e plan.Target) bool {
			return of(&e) != of(&t.Plan.Targets[0])
		})
	}
	param := func(name string) func(*plan.Target) string {
		return func(e *plan.Target) string { return w.ParamsOn(e.Name)[name] }
	}
	wide := 0
	for i := range t.Plan.Targets {
		wide = max(wide, width(clean(t.Plan.Targets[i].Name)))
	}
	var lines []string
	for i := range t.Plan.Targets {
		e := &t.Plan.Targets[i]
		var texts []string
		if differs(func(e *plan.Target) string { return e.Text }) {
			texts = append(texts, clean(e.Text))
		}
		for _, name := range []string{"env", "command"} {
			if differs(param(name)) {
				texts = append(texts, clean(strings.ReplaceAll(param(name)(e), "\n", " ")))
			}
		}
		if text := strings.TrimSpace(strings.Join(texts, "  ")); text != "" && text != e.Name {
			lines = append(lines, padRight(clean(e.Name), wide)+"  "+unit.Cut(text, max(20, t.width-wide-2)))
		}
	}
	return lines
}

// undecided returns the notes of open, with the time that so many blocks take.
func (t *terminal) undecided() []note {
	notes := t.open()
	if t.Run.Blocks == 0 || len(notes) == 0 {
		return notes
	}
	need := 0
	for i := range t.Cells {
		if c := &t.Cells[i]; c.Primary && c.Verdict == record.Inconclusive && c.BlocksNeeded <= plan.MostBlocks {
			need = max(need, c.BlocksNeeded)
		}
	}
	if need > 0 {
		notes = append(notes, note{"  ", fmt.Sprintf("So many blocks take about %s here.",
			durationText(t.Run.Seconds/float64(t.Run.Blocks)*float64(need)))})
	}
	return notes
}
