package report

import (
	"strings"
)

// tableRow is a line of the table before it is laid out.
type tableRow struct {
	label    string
	baseline string
	base     string // the compared target's name, which baseline has too; "" for the run's baseline
	entries  []tableEntry
	gap      bool // an empty line before it
}

// table lays the rows out in the widest form that fits: with intervals, and with bars where there is room; with half
// the intervals; in groups of candidates; or each candidate on a line of its own.
func (t *terminal) table() {
	if len(t.Rows) == 0 {
		return
	}
	all := [2]int{0, len(t.Columns)}
	for _, narrow := range []bool{false, true} {
		rows := t.tableRows(narrow)
		lines, wide := t.grid(rows, gapOf(narrow), all, 0)
		if wide > t.width {
			continue
		}
		t.narrow = narrow
		if !narrow && !t.plainTable {
			if bar := t.barWidth(wide); bar > 0 {
				lines, _ = t.grid(rows, gutter, all, bar)
			}
		}
		t.lines(lines)
		return
	}
	if t.grouped() {
		return
	}
	t.stacked(t.tableRows(false))
}

func gapOf(narrow bool) string {
	if narrow {
		return "  "
	}
	return gutter
}

func (t *terminal) lines(lines []string) {
	for _, l := range lines {
		t.line("%s", l)
	}
}

// grouped writes several tables below each other, each with as many candidates as fit; false when not even two do.
func (t *terminal) grouped() bool {
	var best [][2]int
	for _, narrow := range []bool{false, true} {
		groups := t.groups(t.tableRows(narrow), gapOf(narrow))
		if groups != nil && (best == nil || len(groups) < len(best)) {
			best, t.narrow = groups, narrow
		}
	}
	if best == nil {
		return false
	}
	rows := t.tableRows(t.narrow)
	for i, g := range best {
		if i > 0 {
			t.line("")
		}
		lines, _ := t.grid(rows, gapOf(t.narrow), g, 0)
		t.lines(lines)
	}
	return true
}

// groups parts the candidates so that each group fits; nil when one would be alone that need not be.
func (t *terminal) groups(rows []tableRow, gap string) [][2]int {
	var groups [][2]int
	for from := 0; from < len(t.Columns); {
		to := from
		for to < len(t.Columns) {
			if _, wide := t.grid(rows, gap, [2]int{from, to + 1}, 0); wide > t.width {
				break
			}
			to++
		}
		if to < from+2 && (to == from || to < len(t.Columns)) {
			return nil
		}
		groups = append(groups, [2]int{from, to})
		from = to
	}
	return groups
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
		row.baseline, row.base = r.BaselineText(), r.Base
		for j, c := range r.Cells {
			if c == nil && t.Columns[j].Target.Name == r.Base {
				row.entries = append(row.entries, tableEntry{noSign: true, ratio: "1"})
				continue
			}
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

// partWidths are the widths of the aligned parts of the entries of a column.
type partWidths struct{ ratio, interval, flags, bar int }

func (p partWidths) width() int {
	w := 1
	for _, n := range []int{p.ratio, p.interval, p.flags, p.bar} {
		if n > 0 {
			w += 1 + n
		}
	}
	return w
}

func (p *partWidths) fit(s tableEntry) {
	p.ratio, p.interval, p.flags = max(p.ratio, width(s.ratio)), max(p.interval, width(s.interval)),
		max(p.flags, width(s.flags))
}

func (t *terminal) entry(s tableEntry, p partWidths) string {
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
	if p.bar > 0 {
		text += " " + t.paint(s, t.bar(s, p.bar))
	}
	if p.ratio == 0 && p.interval == 0 && p.flags == 0 {
		return strings.TrimRight(text, " ")
	}
	return text
}

// paint colours a verdict: a higher cost red, a lower one green, one that cannot be used yellow.
func (t *terminal) paint(s tableEntry, text string) string {
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

// grid lays the candidates of a group out side by side, each with a bar of that width, and returns the lines and the
// width they take. Only the first group has the baseline's figures.
func (t *terminal) grid(rows []tableRow, gap string, group [2]int, bar int) (lines []string, wide int) {
	label, base := 0, width(clean(t.Run.Baseline))
	cols := make([]partWidths, group[1]-group[0])
	for _, r := range rows {
		label, base = max(label, width(r.label)), max(base, width(r.baseline))
		for i := range cols {
			cols[i].fit(r.entries[group[0]+i])
		}
	}
	left := func(name, figure string) string {
		if group[0] > 0 {
			return padRight(name, label)
		}
		return padRight(name, label) + gap + padLeft(figure, base)
	}
	head := left("", clean(t.Run.Baseline))
	wide = width(head)
	colWidth := make([]int, len(cols))
	for i := range cols {
		cols[i].bar = bar
		name := clean(t.Columns[group[0]+i].Name())
		colWidth[i] = max(cols[i].width(), width(name))
		head += gap + padRight(name, colWidth[i])
		wide += len(gap) + colWidth[i]
	}
	lines = append(lines, head)
	for _, r := range rows {
		if r.gap {
			lines = append(lines, "")
		}
		l := left(r.label, r.baseline)
		for i, p := range cols {
			l += gap + t.entry(r.entries[group[0]+i], p) + strings.Repeat(" ", max(0, colWidth[i]-p.width()))
		}
		lines = append(lines, l)
	}
	return lines, wide
}

// stacked gives each candidate that a workload was asked of a line of its own below it. Among many targets, most of the
// lines would else say that there is nothing to say.
func (t *terminal) stacked(rows []tableRow) {
	var p partWidths
	name := 0
	t.usedSign[notRun] = false
	for _, r := range rows {
		for i, s := range r.entries {
			p.fit(s)
			name = max(name, width(clean(t.Columns[i].Name())))
		}
	}
	for _, r := range rows {
		if r.gap {
			t.line("")
		}
		head := r.label
		if r.baseline != "" {
			name := ""
			if r.base == "" {
				name = clean(t.Run.Baseline) + " "
			}
			head += " (" + name + r.baseline + ")"
		}
		indent := r.label[:len(r.label)-len(strings.TrimLeft(r.label, " "))]
		t.para(indent, strings.TrimLeft(head, " "))
		for i, s := range r.entries {
			if s.noSign && s.ratio == "" {
				continue
			}
			if s.unasked {
				t.unlisted = true
				continue
			}
			t.usedSign[notRun] = t.usedSign[notRun] || !s.noSign && s.sign == notRun
			t.line("%s  %s  %s", indent, padRight(clean(t.Columns[i].Name()), name), t.entry(s, p))
		}
	}
}
