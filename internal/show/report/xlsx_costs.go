package report

import (
	"fmt"
	"time"

	"tare/internal/judge/costper"
)

// writeCosts writes a sheet of the costs restated and one of the value of a saving, where they were asked for.
func (b *workbook) writeCosts() {
	if b.Normal != nil {
		b.restated(b.Normal)
	}
	if b.Worth != nil {
		b.worth()
	}
}

// restated has a row for each cell: the measured ratio, every quotient that it is multiplied by, and the product.
func (b *workbook) restated(n *costper.Table) {
	each, _ := n.Per.Words()
	s := b.sheet("Cost per " + each)
	head := []any{"workload", "target", "baseline", "measured", "low", "high", "× candidate / baseline", "factor",
		"cost", "low", "high", "unit", "its figure", likeText(n), "not restated because"}
	b.put(s, 1, 1, fmt.Sprintf("Cost per %s: each ratio is multiplied by what the candidate had relative to the "+
		"baseline, from recorded facts only", clean(each)), b.title)
	b.row(s, 2, b.head, head...)
	b.widths(s, 34, 16, 16, 10, 10, 10, 44, 10, 10, 10, 10, 12, 14, 18, 50)
	products := map[*costper.Line]string{}
	for _, r := range restatedRows(n) {
		products[r.Line] = r.product
	}
	row := 3
	for i := range n.Lines {
		l := &n.Lines[i]
		b.row(s, row, 0, l.Workload, l.Target, l.Baseline)
		if l.Refused != "" {
			b.put(s, len(head), row, l.Refused, b.wrap)
			row++
			continue
		}
		for j, v := range []float64{l.Measured.Center, l.Measured.Low, l.Measured.High} {
			b.put(s, 4+j, row, positive(v), b.ratio)
		}
		b.put(s, 7, row, products[l], 0)
		for j, v := range []float64{l.Factor, l.Ratio, l.Low, l.High} {
			b.put(s, 8+j, row, positive(v), b.ratio)
		}
		b.put(s, 12, row, l.Unit, 0)
		b.put(s, 13, row, positive(l.Figure), b.figure)
		b.put(s, 14, row, positive(l.Value), b.figure)
		row++
	}
	for _, text := range n.Notes {
		b.put(s, 1, row+1, "Note: "+clean(text)+".", 0)
		row++
	}
	b.freeze(s, 2, 2)
}

// worth has a row for each candidate, each figure with its interval, and the sentences below.
func (b *workbook) worth() {
	a := b.Worth
	s := b.sheet("Worth")
	b.put(s, 1, 1, "Is it worth "+a.Price.String()+"?", b.title)
	b.put(s, 1, 2, sentence(b.worthQuestion())+".", 0)
	type figure struct {
		name string
		of   func(*costper.Worth) costper.Span
	}
	spans := []figure{
		{"ratio", func(w *costper.Worth) costper.Span { return w.Ratio }},
		{"saved in a use, s", func(w *costper.Worth) costper.Span { return w.PerUse }},
		{"saved in a day, s", func(w *costper.Worth) costper.Span { return w.PerDay }},
		{"saved in a year, s", func(w *costper.Worth) costper.Span { return w.PerYear }},
	}
	if a.Hourly.Amount > 0 {
		spans = append(spans, figure{joinKnown(", ", "money in a year", a.Hourly.Currency),
			func(w *costper.Worth) costper.Span { return w.MoneyPerYear }},
			figure{"paid for after, uses", func(w *costper.Worth) costper.Span { return w.BreakEvenUses }})
	} else {
		spans = append(spans, figure{joinKnown(", ", "an hour must be worth", a.Price.Currency),
			func(w *costper.Worth) costper.Span { return w.BreakEvenHourly }})
	}
	head := []any{"target", "baseline", "workload", "a use, s", "level"}
	for _, x := range spans {
		head = append(head, x.name, "low", "high")
	}
	head = append(head, "paid for on", "earliest", "latest", "no answer because")
	b.row(s, 4, b.head, head...)
	b.widths(s, 16, 16, 30, 12, 8)
	row := 5
	for i := range a.Answers {
		w := &a.Answers[i]
		b.row(s, row, 0, w.Target, w.Baseline, w.Workload)
		if w.Refused != "" {
			b.put(s, len(head), row, w.Refused, 0)
			row++
			continue
		}
		b.put(s, 4, row, w.Use, b.figure)
		b.put(s, 5, row, w.Level, b.ratio)
		col := 6
		for _, x := range spans {
			v := x.of(w)
			for _, f := range []float64{v.Center, v.Low, v.High} {
				b.put(s, col, row, f, b.figure)
				col++
			}
		}
		for _, day := range []costper.Day{w.BreakEvenDay, w.DayEarly, w.DayLate} {
			text := ""
			if a.Hourly.Amount > 0 {
				text = "not within a hundred years"
			}
			if !day.IsZero() {
				text = day.Format(time.DateOnly)
			}
			b.put(s, col, row, text, 0)
			col++
		}
		row++
	}
	texts, err := b.worthTexts()
	b.fail(err)
	for _, text := range texts {
		row++
		b.put(s, 1, row, text, 0)
	}
}

// flushes has a row for each target of which anything is known of a flush.
func (b *workbook) flushes() {
	rows := b.flushRows()
	if len(rows) == 0 {
		return
	}
	s := b.sheet("Flushes")
	b.put(s, 1, 1, "What is known of a flush: writes are ranked only among targets of the same class", b.title)
	b.widths(s, 16, 18, 16, 24, 12, 14, 100)
	for i, h := range flushHead {
		b.put(s, 1+i, 2, h, b.head)
	}
	for i, r := range rows {
		for j, v := range r {
			b.put(s, 1+j, 3+i, v, b.wrap)
		}
	}
	b.freeze(s, 1, 2)
}
