package report

import (
	"encoding/csv"
	"fmt"
	"io"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// groupHeader names the columns of groupValues.
var groupHeader = []string{"workload", "target", "baseline", "group", "text", "verdict", "ratio", "low", "high",
	"level", "blocks", "p", "q", "margin", "null_spread", "share", "extra_seconds", "executions",
	"baseline_executions", "errors", "baseline_errors", "rows", "baseline_rows", "seconds", "baseline_seconds", "p50",
	"baseline_p50", "p99", "baseline_p99"}

// groupValues are the fields of a group in the order of groupHeader: string, int64, float64, or nil for unknown values.
// A group with too few executions has no verdict.
func groupValues(gs *verdict.Grouped, g *verdict.Group) []any {
	text, says := g.Text, any(string(g.Verdict))
	if g.ID == record.OtherGroup {
		text = "all others"
	}
	if g.Blocks == 0 && !unequalWork(g) {
		says = nil
	}
	var p, q any
	if g.Level > 0 {
		p, q = g.P, g.Q
	}
	c, b := &g.Candidate, &g.Base
	return []any{gs.Workload, gs.Target, gs.Baseline, g.ID, text, says, positive(g.Ratio.Center), positive(g.Low),
		positive(g.High), positive(g.Level), int64(g.Blocks), p, q, positive(g.Margin), positive(g.NullSpread), g.Share,
		g.ExtraSeconds, c.Count, b.Count, c.Errors, b.Errors, c.Rows, b.Rows, c.Seconds, b.Seconds, positive(c.P50),
		positive(b.P50), positive(c.P99), positive(b.P99)}
}

// GroupsCSV writes the groups that trials tell apart, such as statements with one fingerprint, one row for each in each
// candidate, in the form of CSV.
func GroupsCSV(w io.Writer, m *Model) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	err := c.Write(groupHeader)
	line := make([]string, len(groupHeader))
	for i := range m.Groups {
		for j := range m.Groups[i].Groups {
			for k, v := range groupValues(&m.Groups[i], &m.Groups[i].Groups[j]) {
				line[k] = csvText(v)
			}
			if err == nil {
				err = c.Write(line)
			}
		}
	}
	if err == nil {
		c.Flush()
		err = c.Error()
	}
	if err != nil {
		return fmt.Errorf("write CSV report of groups: %w", err)
	}
	return nil
}

// groupSheets lists every group in every candidate, and the executions that returned something else.
func (b *workbook) groupSheets() {
	if len(b.Groups) == 0 {
		return
	}
	s := b.sheet("Groups")
	b.tableHead(s, groupHeader)
	b.widths(s, 24, 16, 16, 19, 60, 15, 9, 9, 9, 8, 8, 9, 9, 9, 12, 9, 14, 12, 12, 9, 9, 12, 12, 12, 12, 12, 12, 12, 12)
	row, differences := 2, 0
	for i := range b.Groups {
		gs := &b.Groups[i]
		for j := range gs.Groups {
			b.row(s, row, 0, groupValues(gs, &gs.Groups[j])...)
			row++
		}
		differences += len(gs.Differences)
	}
	b.filtered(s, len(groupHeader), row-1)
	b.verdictColours(s, 7, 6, 2, max(2, row-1))
	if differences == 0 {
		return
	}
	s = b.sheet("Differences")
	head := []string{"workload", "number", "baseline", "returned", "target", "returned", "text"}
	b.tableHead(s, head)
	b.widths(s, 24, 12, 16, 24, 16, 24, 60)
	row = 2
	for i := range b.Groups {
		gs := &b.Groups[i]
		for j, r := range differenceRows(gs) {
			if j > 0 {
				b.row(s, row, 0, gs.Workload, int64(gs.Differences[j-1].Number), gs.Baseline, r[1], gs.Target, r[2],
					r[3])
				row++
			}
		}
	}
	b.filtered(s, len(head), row-1)
}

// tableHead writes the head of a table that is a sheet.
func (b *workbook) tableHead(s string, names []string) {
	for i, name := range names {
		b.put(s, i+1, 1, name, b.head)
	}
	b.freeze(s, 1, 1)
}

// filtered gives such a table a filter.
func (b *workbook) filtered(s string, columns, last int) {
	if last < 2 {
		return
	}
	b.fail(b.file.AutoFilter(s, "A1:"+b.address(columns, last), nil))
	b.fit(s)
}
