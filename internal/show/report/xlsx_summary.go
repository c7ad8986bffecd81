package report

import (
	"fmt"

	"github.com/xuri/excelize/v2"

	"tare/internal/record"
)

// summary is the sheet that opens: the answers, the ratios of the primary metrics with their chart, and the notes on
// them.
func (b *workbook) summary() {
	s := b.sheet("Summary")
	b.widths(s, 34, 16)
	b.put(s, 1, 1, b.Model.title(), b.title)
	b.put(s, 1, 2, sentence(b.subtitle()), 0)
	row := 4
	for _, a := range b.Answers() {
		b.put(s, 1, row, a.Text, 0)
		row++
	}
	for _, g := range b.FailIf {
		b.put(s, 1, row, fmt.Sprintf("fail if %s: %s; %s", clean(g.Expr), g.State, clean(g.Text)), 0)
		row++
	}
	row = b.ratios(s, row+1)
	t := &terminal{Model: b.Model, pointed: map[[2]string]bool{}}
	t.point()
	t.rowsOf(false, false)
	if text := t.flushSummary(); text != "" {
		b.put(s, 1, row, sentence(text)+".", 0)
		row++
	}
	for _, group := range [][]note{t.findings(), t.failures(), t.open()} {
		for _, n := range group {
			b.put(s, 1, row, n.prefix+n.text, 0)
			row++
		}
	}
	row++
	for _, text := range t.closing() {
		b.put(s, 1, row, text, 0)
		row++
	}
	for _, c := range t.commands() {
		b.put(s, 1, row, c.prefix+c.text, 0)
		row++
	}
}

// ratios writes the table of the primary metrics: for each candidate the ratio, its interval and the verdict. Beside it
// stands the chart. It returns the next free row.
func (b *workbook) ratios(s string, row int) int {
	first := row
	b.put(s, 1, row+1, "workload", b.head)
	b.put(s, 2, row+1, clean(b.Run.Baseline), b.head)
	for i, c := range b.Columns {
		at := 3 + 4*i
		b.put(s, at, row, c.Name(), b.label)
		for j, h := range []string{"ratio", "low", "high", "verdict"} {
			b.put(s, at+j, row+1, h, b.head)
		}
		name, err := excelize.ColumnNumberToName(at + 3)
		b.fail(err)
		b.fail(b.file.SetColWidth(s, name, name, 15))
	}
	row += 2
	top := row
	for i := range b.Rows {
		r := &b.Rows[i]
		if !r.Primary {
			continue
		}
		b.put(s, 1, row, r.Workload, 0)
		if r.Baseline > 0 {
			b.put(s, 2, row, r.BaselineText(), 0)
		}
		for j, c := range r.Cells {
			if c == nil {
				continue
			}
			at := 3 + 4*j
			if sign := signOf(c); sign != failed && sign != withheld {
				b.put(s, at, row, positive(c.Ratio.Center), b.ratio)
				b.put(s, at+1, row, positive(c.Low), b.ratio)
				b.put(s, at+2, row, positive(c.High), b.ratio)
			}
			b.put(s, at+3, row, string(c.Verdict), 0)
		}
		row++
	}
	last := row - 1
	if last < top {
		return row + 1
	}
	for i := range b.Columns {
		b.verdictColours(s, 3+4*i, 6+4*i, top, last)
	}
	for i := range b.Families {
		f := &b.Families[i]
		b.put(s, 1, row, "mean of "+clean(f.Family), b.label)
		for j, x := range f.Columns {
			if x != nil {
				b.put(s, 3+4*j, row, positive(x.Ratio), b.ratio)
				b.put(s, 4+4*j, row, positive(x.Low), b.ratio)
				b.put(s, 5+4*j, row, positive(x.High), b.ratio)
			}
		}
		row++
	}
	b.ratioChart(s, first+1, top, last)
	return row + 1
}

// verdictColours colours ratio and verdict by the verdict: a rule, so that a reader who edits a figure sees it change.
func (b *workbook) verdictColours(s string, ratioCol, verdictCol, top, last int) {
	ratioName, err := excelize.ColumnNumberToName(ratioCol)
	b.fail(err)
	verdictName, err := excelize.ColumnNumberToName(verdictCol)
	b.fail(err)
	var rules []excelize.ConditionalFormatOptions
	add := func(colour, formula string) {
		id := b.colours[colour]
		rules = append(rules, excelize.ConditionalFormatOptions{Type: "formula", Criteria: formula, Format: &id,
			StopIfTrue: true})
	}
	add("costs less", fmt.Sprintf(`AND($%s%d="DIFFERENT",$%s%d<1)`, verdictName, top, ratioName, top))
	for _, v := range []record.Verdict{record.Different, record.Equivalent, record.Measured, record.Inconclusive,
		record.Withheld, record.Failed} {
		add(string(v), fmt.Sprintf(`$%s%d="%s"`, verdictName, top, v))
	}
	b.fail(b.file.SetConditionalFormat(s, b.address(min(ratioCol, verdictCol), top)+":"+
		b.address(max(ratioCol, verdictCol), last), rules))
}

// chartRows is the number of workloads that the bars of a chart can show before they are lines.
const chartRows = 40

// ratioChart draws the ratios as bars on a log axis, right of the table.
func (b *workbook) ratioChart(s string, head, top, last int) {
	last = min(last, top+chartRows-1)
	var series []excelize.ChartSeries
	for i := range b.Columns {
		series = append(series, excelize.ChartSeries{
			Name: b.span(s, 3+4*i, head-1, 3+4*i, head-1), Categories: b.span(s, 1, top, 1, last),
			Values: b.span(s, 3+4*i, top, 3+4*i, last),
			Fill:   excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{seriesColour(i)}},
		})
	}
	if len(series) == 0 || b.err != nil {
		return
	}
	b.fail(b.file.AddChart(s, b.address(4+4*len(b.Columns), head), &excelize.Chart{
		Type: excelize.Bar, Series: series, Title: plainTitle("Cost against " + clean(b.Run.Baseline) +
			" (log axis, 1 is the same)"),
		Dimension: excelize.ChartDimension{Width: 720, Height: uint(160 + 22*(last-top+1)*max(1, len(series)/2))},
		Legend:    excelize.ChartLegend{Position: "bottom"},
		XAxis:     excelize.ChartAxis{ReverseOrder: true, Font: axisFont},
		YAxis: excelize.ChartAxis{LogBase: 10, MajorGridLines: true, Font: axisFont,
			NumFmt: excelize.ChartNumFmt{CustomNumFmt: "General"}},
	}))
}

func plainTitle(s string) excelize.ChartTitle {
	return excelize.ChartTitle{Paragraph: []excelize.RichTextRun{{Text: cellText(s)}}}
}

// seriesColour tells targets apart, by the palette of Okabe and Ito; after eight it begins again.
func seriesColour(i int) string {
	palette := []string{"0072B2", "D55E00", "009E73", "CC79A7", "E69F00", "56B4E9", "000000", "8A8A8A"}
	return palette[i%len(palette)]
}

// allCells lists every metric of every workload in every candidate, one row each, ready for a filter or a pivot table.
func (b *workbook) allCells() {
	s := b.sheet("Cells")
	head := []any{"workload", "kind", "family", "metric", "primary", "target", "baseline", "verdict", "ratio", "low",
		"high", "level", "blocks", "blocks needed",
		"p", "p Holm", "q", "margin", "null spread", "unit", "figure", "baseline figure", "emulated", "flush",
		"baseline flush", "warnings"}
	b.row(s, 1, b.head, head...)
	b.widths(s, 34, 16, 14, 20, 9, 16, 12, 15, 9, 9, 9, 8, 8, 8, 9, 9, 9, 9, 9, 12, 14, 14, 9, 24, 24, 60)
	row := 2
	for i := range b.Cells {
		c := &b.Cells[i]
		texts := ""
		for _, w := range c.Warnings {
			if texts != "" {
				texts += "; "
			}
			texts += clean(w.Text)
		}
		if c.Failure != nil {
			texts = joinKnown("; ", c.Failure.Message, texts)
		}
		flush, baseFlush := "", ""
		if c.Writes {
			flush, baseFlush = b.flushOf(c.Target), b.flushOf(c.Baseline)
		}
		var p, holm, q any
		if c.Level > 0 {
			p, holm, q = c.P, c.PHolm, c.Q
		}
		b.row(s, row, 0, c.Workload, c.Kind, c.Family, c.Metric, c.Primary, c.Target, c.Baseline, string(c.Verdict),
			positive(c.Ratio.Center), positive(c.Low), positive(c.High),
			positive(c.Level), c.Blocks, positive(float64(c.BlocksNeeded)), p, holm, q, positive(c.Margin),
			positive(c.NullSpread), c.Unit, positive(c.Center), positive(c.BaselineCenter), c.Emulated, flush,
			baseFlush, texts)
		row++
	}
	b.freeze(s, 1, 1)
	if row > 2 {
		b.fail(b.file.AutoFilter(s, fmt.Sprintf("A1:%s", b.address(len(head), row-1)), nil))
		b.fit(s)
		b.verdictColours(s, 9, 8, 2, row-1)
	}
}
