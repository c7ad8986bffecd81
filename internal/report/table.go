package report

import (
	"strings"

	"tare/internal/unit"
)

// tableRow is a line of the table before it is laid out.
type tableRow struct {
	label    string
	baseline string
	entries  []shown
	gap      bool // an empty line before it
}

// table lays the rows out in the widest form that fits.
func (t *terminal) table() {
	if len(t.Rows) == 0 {
		return
	}
	for _, narrow := range []bool{false, true} {
		rows := t.tableRows(narrow)
		gap := gutter
		if narrow {
			gap = "  "
		}
		if lines, wide := t.grid(rows, gap); wide <= t.width {
			t.narrow = narrow
			for _, l := range lines {
				t.line("%s", l)
			}
			return
		}
	}
	t.stacked(t.tableRows(false))
}

func (t *terminal) tableRows(narrow bool) []tableRow { return t.rowsOf(t.Text.Details, narrow) }

// rowsOf makes the rows of the primary metrics, or with all those of every metric, and notes which signs they use.
func (t *terminal) rowsOf(all, narrow bool) []tableRow {
	t.usedSign, t.usedMark, t.margin = [signs]bool{}, [marks]bool{}, 0
	var rows []tableRow
	for i := range t.Rows {
		r := &t.Rows[i]
		if !r.Primary && !all {
			continue
		}
		row := tableRow{label: clean(r.Workload)}
		if !r.Primary {
			row.label = "  " + clean(r.Metric)
		}
		if r.Baseline > 0 {
			row.baseline = unit.Format(r.Baseline, clean(r.Unit))
		}
		for _, c := range r.Cells {
			row.entries = append(row.entries, t.show(c, narrow))
		}
		rows = append(rows, row)
	}
	first := true
	for i := range t.Model.Families {
		f := &t.Model.Families[i]
		row := tableRow{label: "mean of " + clean(f.Family)}
		cells := 0
		for _, s := range f.Columns {
			row.entries = append(row.entries, t.showSummary(s, narrow))
			if s != nil {
				cells = max(cells, s.Cells)
			}
		}
		if cells < 2 {
			continue // the mean of one is that one
		}
		row.gap, first = first, false
		rows = append(rows, row)
	}
	return rows
}

// parts are the widths of the aligned parts of the entries of a column.
type parts struct{ ratio, interval, flags int }

func (p parts) width() int {
	w := 1
	for _, n := range []int{p.ratio, p.interval, p.flags} {
		if n > 0 {
			w += 1 + n
		}
	}
	return w
}

func (p *parts) fit(s shown) {
	p.ratio, p.interval, p.flags = max(p.ratio, width(s.ratio)), max(p.interval, width(s.interval)), max(p.flags, width(s.flags))
}

func (t *terminal) entry(s shown, p parts) string {
	glyph := " "
	if !s.noSign {
		glyph = t.glyph(s.sign)
	}
	text := t.paint(s, glyph+" "+s.ratio) + strings.Repeat(" ", max(0, p.ratio-width(s.ratio)))
	if p.interval > 0 {
		text += " " + padRight(s.interval, p.interval)
	}
	if p.flags > 0 {
		text += " " + padRight(s.flags, p.flags)
	}
	if p.ratio == 0 && p.interval == 0 && p.flags == 0 {
		return strings.TrimRight(text, " ")
	}
	return text
}

// paint colours a verdict: what costs more red, what costs less green, what cannot be used yellow.
func (t *terminal) paint(s shown, text string) string {
	if !t.Text.Color || s.noSign {
		return text
	}
	code := ""
	switch s.sign {
	case costsMore:
		code = "31"
	case costsLess:
		code = "32"
	case failed, withheld:
		code = "33"
	case cannotTell, notRun:
		code = "2"
	}
	if code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// gutter stands between the columns.
const gutter = "   "

// grid lays all candidates out side by side and returns the lines and the width they take.
func (t *terminal) grid(rows []tableRow, gap string) (lines []string, wide int) {
	label, base := 0, width(clean(t.Run.Baseline))
	cols := make([]parts, len(t.Columns))
	for _, r := range rows {
		label, base = max(label, width(r.label)), max(base, width(r.baseline))
		for i, s := range r.entries {
			cols[i].fit(s)
		}
	}
	head := padRight("", label) + gap + padLeft(clean(t.Run.Baseline), base)
	wide = label + len(gap) + base
	colWidth := make([]int, len(cols))
	for i, p := range cols {
		name := clean(t.Columns[i].Target.Name)
		colWidth[i] = max(p.width(), width(name))
		head += gap + padRight(name, colWidth[i])
		wide += len(gap) + colWidth[i]
	}
	lines = append(lines, head)
	for _, r := range rows {
		if r.gap {
			lines = append(lines, "")
		}
		l := padRight(r.label, label) + gap + padLeft(r.baseline, base)
		for i, s := range r.entries {
			l += gap + t.entry(s, cols[i]) + strings.Repeat(" ", max(0, colWidth[i]-cols[i].width()))
		}
		lines = append(lines, l)
	}
	return lines, wide
}

// stacked gives each candidate a line of its own below the workload.
func (t *terminal) stacked(rows []tableRow) {
	var p parts
	name := 0
	for _, r := range rows {
		for i, s := range r.entries {
			p.fit(s)
			name = max(name, width(clean(t.Columns[i].Target.Name)))
		}
	}
	for _, r := range rows {
		if r.gap {
			t.line("")
		}
		head := r.label
		if r.baseline != "" {
			head += " (" + clean(t.Run.Baseline) + " " + r.baseline + ")"
		}
		indent := r.label[:len(r.label)-len(strings.TrimLeft(r.label, " "))]
		t.para(indent, strings.TrimLeft(head, " "))
		for i, s := range r.entries {
			if s.noSign && s.ratio == "" {
				continue
			}
			t.line("%s  %s  %s", indent, padRight(clean(t.Columns[i].Target.Name), name), t.entry(s, p))
		}
	}
}
