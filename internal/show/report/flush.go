package report

import (
	"fmt"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// flushSummary has the evidence for each mark of a flush, the baseline's included; "" where no figure of the table has
// one.
func (t *terminal) flushSummary() string {
	if !t.usedMark[flushPassed] && !t.usedMark[flushIgnored] && !t.usedMark[flushMemory] && !t.usedMark[flushUnknown] {
		return ""
	}
	type known struct {
		mark    mark
		verdict string
	}
	var order []known
	of := map[known][]string{}
	for i := range t.Targets {
		d := t.Targets[i].Durability
		if d == nil {
			continue
		}
		k := known{flushMark(d), clean(d.Verdict)}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], clean(t.Targets[i].Name))
	}
	var parts []string
	for _, k := range order {
		parts = append(parts, fmt.Sprintf("%s %s %s", strings.Join(of[k], ", "), markTexts[k.mark].mark, k.verdict))
	}
	return "writes are ranked only among targets that flush alike: " + strings.Join(parts, "; ")
}

// flushHead names the columns of flushRows.
var flushHead = []string{"target", "verdict", "class", "observed to reach", "power cuts", "losses below",
	"what was found"}

// flushRows has the durability class and its evidence for each target for which anything is known.
func (m *Model) flushRows() [][]string {
	var rows [][]string
	for i := range m.Targets {
		t := &m.Targets[i]
		d := t.Durability
		if d == nil {
			continue
		}
		cuts, bound := "", ""
		if d.Cuts > 0 {
			cuts = strconv.Itoa(d.Cuts)
		}
		if d.Bound > 0 {
			bound = percentText(d.Bound)
		}
		found := []string{clean(d.Text)}
		for _, x := range d.Tests {
			found = append(found, fmt.Sprintf("%s: %s, %s", clean(x.Name), clean(x.Verdict), clean(x.Text)))
		}
		for _, x := range d.Settings {
			found = append(found, joinKnown("; ", x.Text, x.Remedy))
		}
		rows = append(rows, []string{clean(t.Name), clean(d.Verdict), flushClass(d), clean(d.Layer), cuts, bound,
			joinKnown(". ", found...)})
	}
	return rows
}

// flushClass is the durability class of a target in the words of the record.
func flushClass(d *record.Durability) string {
	if c := clean(d.Class); c != "" {
		return c
	}
	return "unknown"
}

// flushOf is the durability class of a target, as "flushes (PROPAGATED)"; "" where none was recorded.
func (m *Model) flushOf(target string) string {
	for i := range m.Targets {
		if t := &m.Targets[i]; t.Name == target && t.Durability != nil {
			return joinKnown(" ", flushClass(t.Durability), parenthesised(t.Durability.Verdict))
		}
	}
	return ""
}

func parenthesised(s string) string {
	if s = clean(s); s == "" {
		return ""
	}
	return "(" + s + ")"
}

// writesOf tells, by workload and metric, whether a figure depends on the effect of a flush.
func writesOf(cells []verdict.Cell) map[[2]string]bool {
	writes := map[[2]string]bool{}
	for i := range cells {
		if c := &cells[i]; c.Writes {
			writes[[2]string{c.Workload, c.Metric}] = true
		}
	}
	return writes
}

// flushTable writes the table of flushRows.
func (d *markdown) flushTable() {
	grid := [][]string{flushHead}
	for _, r := range d.flushRows() {
		line := make([]string, len(r))
		for i, s := range r {
			line[i] = markdownText(s)
		}
		grid = append(grid, line)
	}
	d.grid(grid, -1)
}
