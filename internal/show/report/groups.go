package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// The report shows at most mostGroups groups of a workload in a candidate, those first that add most to the difference,
// and as many whose work differs. One that adds less than leastShare of the difference, or less than leastExtra of the
// whole time, explains nothing. The details of the terminal show all.
const (
	mostGroups = 10
	leastShare = 0.01
	leastExtra = 0.002
)

// shownGroups are the groups that the report shows. unshown is how many more there are whose work differs.
func shownGroups(gs *verdict.Grouped) (groups []verdict.Group, unshown int) {
	explaining, unequal := 0, 0
	for i := range gs.Groups {
		g := &gs.Groups[i]
		switch explains := math.Abs(g.Share) >= leastShare && math.Abs(g.ExtraSeconds) >= leastExtra*gs.Seconds; {
		case unequalWork(g):
			if unequal++; unequal > mostGroups {
				unshown++
				continue
			}
		case explains && explaining < mostGroups:
			explaining++
		default:
			continue
		}
		groups = append(groups, *g)
	}
	return groups, unshown
}

// unequalWork tells whether the two sides did not do the same: only then is there neither a verdict nor a ratio.
func unequalWork(g *verdict.Group) bool { return g.Verdict == record.Withheld && g.Ratio.Center == 0 }

// unshownText says that there are more groups whose work differs.
func unshownText(n int) string {
	return "The work of " + unit.Plural(n, "more part") + " differs."
}

// groupRow is a group before it is laid out.
type groupRow struct {
	entry tableEntry
	// share, count, base and candidate are texts: the part of the difference, the executions in a trial, the median
	// times of both sides.
	share, count, base, candidate string
	text                          string
}

// groupHead names the columns of groupRow for these groups.
func groupHead(gs *verdict.Grouped) groupRow {
	return groupRow{share: "share", count: "executions", base: clean(gs.Baseline), candidate: clean(gs.Target),
		entry: tableEntry{noSign: true, ratio: "median"}}
}

// groupRows makes a row of each group, and notes which signs they use.
func (t *terminal) groupRows(groups []verdict.Group) []groupRow {
	var rows []groupRow
	for i := range groups {
		g := &groups[i]
		row := groupRow{entry: t.showGroup(g), share: signedPercent(g.Share), count: unit.Number(g.Base.Count),
			base: medianText(g.Base.P50), candidate: medianText(g.Candidate.P50), text: clean(cmp.Or(g.Text, g.ID))}
		if g.ID == record.OtherGroup {
			row.text = "all others"
		}
		rows = append(rows, row)
	}
	return rows
}

// showGroup makes the entry for a group. One with too few executions to be judged is not undecided: more blocks would
// not help. Of all others together only unequal work is told.
func (t *terminal) showGroup(g *verdict.Group) tableEntry {
	s := tableEntry{sign: verdictSign(g.Verdict, g.Ratio.Center)}
	if g.NotConfirmed() {
		s.sign = unconfirmed
	}
	switch {
	case g.ID == record.OtherGroup && s.sign != withheld:
		return tableEntry{noSign: true}
	case s.sign == cannotTell && g.Blocks == 0:
		return tableEntry{noSign: true, ratio: "rare"}
	}
	t.usedSign[s.sign] = true
	if s.sign == same {
		t.margin = max(t.margin, g.SameMargin)
	}
	if s.sign != withheld && g.Ratio.Center > 0 {
		s.ratio, s.interval = ratioText(g.Ratio.Center), intervalText(g.Low, g.High, g.Level > 0, false)
	}
	return s
}

func signedPercent(share float64) string {
	if share < 0 {
		return "-" + percentText(-share)
	}
	return "+" + percentText(share)
}

// medianText is a median time in s; "" where there is none.
func medianText(s float64) string {
	if !(s > 0) {
		return ""
	}
	return unit.Format(s, "s")
}

// groupsText says in one sentence by how much a candidate takes longer.
func groupsText(gs *verdict.Grouped) string {
	than := "more"
	if gs.ExtraSeconds < 0 {
		than = "less"
	}
	return fmt.Sprintf("%s: all executions of a trial together take %s in %s and %s %s in %s", clean(gs.Workload),
		unit.Format(gs.Seconds, "s"), clean(gs.Baseline), unit.Format(math.Abs(gs.ExtraSeconds), "s"), than,
		clean(gs.Target))
}

// groupLines lays out which groups make the difference, each on a line that its text fills.
func (t *terminal) groupLines() []string {
	var lines []string
	for i := range t.Groups {
		gs := &t.Groups[i]
		lines = append(lines, "")
		lines = append(lines, wrap("", groupsText(gs)+".", min(t.width, readable))...)
		groups, unshown := gs.Groups, 0
		if !t.Text.Details {
			groups, unshown = shownGroups(gs)
		}
		if len(groups) == 0 {
			continue
		}
		rows := append([]groupRow{groupHead(gs)}, t.groupRows(groups)...)
		var p partWidths
		var share, count, base, candidate int
		for _, r := range rows {
			p.fit(r.entry)
			share, count = max(share, width(r.share)), max(count, width(r.count))
			base, candidate = max(base, width(r.base)), max(candidate, width(r.candidate))
		}
		for _, r := range rows {
			l := padLeft(r.share, share) + "  " + t.entry(r.entry, p) + "  " + padLeft(r.count, count) + "  " +
				padLeft(r.base, base) + "  " + padLeft(r.candidate, candidate)
			if room := t.width - share - p.width() - count - base - candidate - 10; room >= leastText {
				lines = append(lines, l+"  "+unit.Cut(r.text, room))
				continue
			}
			lines = append(lines, l)
			if r.text != "" {
				lines = append(lines, "    "+unit.Cut(r.text, t.width-4))
			}
		}
		if unshown > 0 {
			lines = append(lines, wrap("", unshownText(unshown), min(t.width, readable))...)
		}
		lines = append(lines, t.differenceLines(gs)...)
	}
	return lines
}

// differenceLines lays out the executions that returned something else, each on a line, or with its text on a second.
func (t *terminal) differenceLines(gs *verdict.Grouped) []string {
	rows := differenceRows(gs)
	if rows == nil {
		return nil
	}
	lines := wrap("", differencesText(gs)+":", min(t.width, readable))
	var wide [3]int
	for _, r := range rows {
		for i := range wide {
			wide[i] = max(wide[i], width(r[i]))
		}
	}
	for i, r := range rows {
		l := "  " + padLeft(r[0], wide[0]) + "  " + padRight(r[1], wide[1]) + "  " + padRight(r[2], wide[2])
		if room := t.width - width(l) - 2; room >= leastText {
			lines = append(lines, strings.TrimRight(l+"  "+unit.Cut(r[3], room), " "))
		} else {
			lines = append(lines, unit.Cut(strings.TrimRight(l, " "), t.width))
			if r[3] != "" {
				lines = append(lines, "    "+unit.Cut(r[3], t.width-4))
			}
		}
		if i > 0 {
			lines = append(lines, t.textLines(gs, &gs.Differences[i-1])...)
		}
	}
	return lines
}

// textLines sets the results of the baseline and of the candidate one above the other.
func (t *terminal) textLines(gs *verdict.Grouped, d *verdict.Difference) (lines []string) {
	base, candidate := differenceTexts(d)
	if base == "" {
		return nil
	}
	names := max(width(clean(gs.Baseline)), width(clean(gs.Target)))
	for _, side := range [][2]string{{gs.Baseline, base}, {gs.Target, candidate}} {
		lines = append(lines, unit.Cut("    "+padRight(clean(side[0]), names)+"  "+side[1], t.width))
	}
	return lines
}

// differenceTexts returns the results of both sides around the first difference; "" if they were not shown.
func differenceTexts(d *verdict.Difference) (base, candidate string) {
	if d.Base == nil || d.Candidate == nil || d.Base.Text == "" {
		return "", ""
	}
	return clean(d.Base.Text), clean(d.Candidate.Text)
}

// differencesText describes the columns of differenceRows.
func differencesText(gs *verdict.Grouped) string {
	which := "Some of the executions"
	if gs.AllDiffer {
		which = "The executions of a block"
	}
	return fmt.Sprintf("%s that returned something else, by their number in the work, with what came back "+
		"and its checksum in %s and in %s", which, clean(gs.Baseline), clean(gs.Target))
}

// differenceRows has the number, both sides' results, and the text of each execution whose results differ; the first
// row is the head.
func differenceRows(gs *verdict.Grouped) [][4]string {
	if len(gs.Differences) == 0 {
		return nil
	}
	texts := map[string]string{record.OtherGroup: "one of all others"}
	for i := range gs.Groups {
		texts[gs.Groups[i].ID] = cmp.Or(gs.Groups[i].Text, texts[gs.Groups[i].ID], gs.Groups[i].ID)
	}
	rows := [][4]string{{"number", clean(gs.Baseline), clean(gs.Target), ""}}
	for _, d := range gs.Differences {
		rows = append(rows, [4]string{strconv.FormatUint(d.Number, 10), d.Base.String(), d.Candidate.String(),
			clean(texts[d.Group])})
	}
	return rows
}

// leastText is the room, in columns, without which a group's text has a line of its own.
const leastText = 24

// groupTables are the same in Markdown.
func (d *markdown) groupTables() {
	d.usedSign, d.usedMark = [signs]bool{}, [marks]bool{}
	for i := range d.Groups {
		gs := &d.Groups[i]
		if i > 0 {
			d.line("")
		}
		d.line("%s.", markdownText(groupsText(gs)))
		groups, unshown := shownGroups(gs)
		rows := d.groupRows(groups)
		if len(rows) == 0 {
			continue
		}
		grid := [][]string{{"share", "median", "executions", markdownText(gs.Baseline), markdownText(gs.Target),
			"what"}}
		for _, r := range rows {
			grid = append(grid, []string{markdownText(r.share), d.markdownEntry(r.entry), r.count, r.base, r.candidate,
				markdownCell(r.text)})
		}
		d.line("")
		d.grid(grid, -1)
		if unshown > 0 {
			d.line("")
			d.line("%s", unshownText(unshown))
		}
		if rows := differenceRows(gs); rows != nil {
			d.line("")
			d.line("%s:", markdownText(differencesText(gs)))
			d.line("")
			var grid [][]string
			for i, r := range rows {
				text := "what"
				if i > 0 {
					text = markdownCell(r[3])
				}
				grid = append(grid, []string{r[0], markdownText(r[1]), markdownText(r[2]), text})
			}
			d.grid(grid, -1)
			d.differenceTexts(gs)
		}
	}
	d.line("")
	d.line("%s", strings.Join(d.legendItems(), " · "))
}

// differenceTexts writes the results of both sides next to each other.
func (d *markdown) differenceTexts(gs *verdict.Grouped) {
	grid := [][]string{{"number", markdownText(gs.Baseline), markdownText(gs.Target)}}
	for i := range gs.Differences {
		x := &gs.Differences[i]
		if base, candidate := differenceTexts(x); base != "" {
			grid = append(grid, []string{strconv.FormatUint(x.Number, 10), markdownCell(base), markdownCell(candidate)})
		}
	}
	if len(grid) > 1 {
		d.line("")
		d.line("What came back, from a little before the first difference on, without what is not compared:")
		d.line("")
		d.grid(grid, -1)
	}
}

// markdownCell is a group's text in a table. A stroke ends a table's cell even in a code span.
func markdownCell(text string) string {
	return strings.ReplaceAll(code(unit.Cut(text, markdownGroup)), "|", `\|`)
}

// markdownGroup is the most of a group's text in a table of Markdown, in characters.
const markdownGroup = 160
