package gallery

import (
	"cmp"
	"html/template"
	"slices"
	"time"

	"tare/internal/record"
	"tare/internal/show/look"
	"tare/internal/show/report"
	"tare/internal/unit"
)

// Bounds of the parts of a result's page, in bytes. The packed bundle has the rest.
const (
	roomAnswers = 15_000
	roomWork    = 85_000
	roomNotes   = 25_000
	roomFacts   = 45_000
)

// resultPage is the data of the page of one result.
type resultPage struct {
	ID       string
	Run      string
	Brief    *report.Brief
	Created  time.Time
	Bytes    int64
	Redacted bool
	Finished bool
}

// resultBody is the data of its template.
type resultBody struct {
	*resultPage
	Title                 string
	Bundle                string // address of the packed bundle; ""
	Commands              []report.BriefNote
	Answers, Work, Notes  []template.HTML
	Facts                 []template.HTML
	Targets               []string
	MoreAnswers, MoreWork int
	MoreNotes, MoreFacts  int
	Closing               []string
	FactsTooMany          bool
}

// workRows is a workload with its targets in the order of their places.
type workRows struct {
	Workload, Metric string
	Rows             []workRow
}

// workRow is one target's cost of a workload.
type workRow struct {
	Place                   int
	Target, Against, Figure string
	Class, Sign, Word       string
	Ratio, Interval         string
	Marks                   []string
	Base                    bool
	Plot                    *look.Plot
	center                  float64
}

// factColumns bounds the targets whose facts stand side by side.
const factColumns = 6

// renderResult makes the page of a result.
func renderResult(t *loadedBundle) ([]byte, error) {
	b := t.page.Brief
	body := &resultBody{resultPage: &t.page, Title: t.result.Title, Closing: b.Closing}
	for _, c := range b.Commands {
		body.Commands = append(body.Commands, report.BriefNote{Kind: c.Kind, Text: oneLine(c.Text, 1200)})
	}
	if t.page.Bytes > 0 {
		body.Bundle = "../" + t.result.bundlePath()
	}
	var err error
	if body.Answers, err = fragments("answer", b.Answers); err != nil {
		return nil, err
	}
	body.Answers, body.MoreAnswers = cut(body.Answers, roomAnswers)
	if body.Work, err = body.work(b.Work); err != nil {
		return nil, err
	}
	body.Work, body.MoreWork = cut(body.Work, roomWork)
	notes := make([]report.BriefNote, len(b.Notes))
	for i, n := range b.Notes {
		notes[i] = report.BriefNote{Kind: n.Kind, Text: unit.Cut(n.Text, 1500)}
	}
	if body.Notes, err = fragments("note", notes); err != nil {
		return nil, err
	}
	body.Notes, body.MoreNotes = cut(body.Notes, roomNotes)
	if err := body.facts(b); err != nil {
		return nil, err
	}
	html, err := fragment("result", body)
	if err != nil {
		return nil, err
	}
	return render(&frame{Title: t.result.Title, Up: "../", Here: "result", Body: html})
}

// cut leaves the rows that fit, and says how many do not.
func cut(rows []template.HTML, room int) ([]template.HTML, int) {
	n := fitting(rows, room)
	return rows[:n], len(rows) - n
}

func (body *resultBody) work(all []report.BriefWork) ([]template.HTML, error) {
	var values []float64
	for i := range all {
		for j := range all[i].Cells {
			c := &all[i].Cells[j]
			values = append(values, c.Low, c.Center, c.High)
		}
	}
	line := look.NewAxis(values, look.PlotFrom, look.PlotTo)
	var works []workRows
	for i := range all {
		works = append(works, rankedRows(&all[i], &line))
	}
	return fragments("work-rows", works)
}

// rankedRows puts the targets of a workload in the order of their cost, with the baseline among them where all are
// compared with it.
func rankedRows(w *report.BriefWork, line *look.Axis) workRows {
	out := workRows{Workload: oneLine(w.Workload, 160), Metric: oneLine(w.Metric, 80)}
	one := true // all against the same
	for i := range w.Cells {
		one = one && w.Cells[i].Against == w.Cells[0].Against
	}
	var all []rankedCost
	if one && len(w.Cells) > 0 {
		out.Rows = append(out.Rows, workRow{Target: oneLine(w.Cells[0].Against, 60), Figure: w.Figure, Base: true,
			Ratio: "1", Word: "the baseline", center: 1})
		all = append(all, baselineOf())
	}
	for i := range w.Cells {
		c := &w.Cells[i]
		row := workRow{Target: oneLine(c.Target, 60), Figure: c.Figure, Class: c.Class, Sign: c.Sign,
			Word: c.Word, Ratio: c.Ratio, Interval: c.Interval, Marks: c.Marks, center: c.Center,
			Plot: line.PlotOf(c.Class, c.Low, c.Center, c.High)}
		if !one || w.Base != c.Against {
			row.Against = oneLine(c.Against, 60)
		}
		out.Rows = append(out.Rows, row)
		x := contenderOf(c.Verdict, c.Center, c.Low, c.High, c.SameMargin)
		if c.UnlikeFlushes() {
			x = rankedCost{}
		}
		all = append(all, x)
	}
	if one { // costs against different baselines are in no order
		for i, p := range places(all) {
			out.Rows[i].Place = p
		}
		slices.SortStableFunc(out.Rows, func(a, b workRow) int {
			return cmp.Or(cmp.Compare(last(a.Place), last(b.Place)), cmp.Compare(a.center, b.center))
		})
	}
	return out
}

// last puts targets without a place behind all that have one.
func last(place int) int {
	if place == 0 {
		return 1 << 30
	}
	return place
}

// contenderOf is a cell that is ranked if it has an interval and its verdict allows it.
func contenderOf(v record.Verdict, center, low, high, margin float64) rankedCost {
	if v == record.Withheld || v == record.Failed || !(low > 0) || !(high >= low) {
		return rankedCost{}
	}
	return rankedCost{low: low, center: center, high: high, margin: margin, apart: v == record.Different}
}

// facts are those of the first targets, differing ones first.
func (body *resultBody) facts(b *report.Brief) error {
	n := min(len(b.Targets), factColumns)
	body.FactsTooMany = n < len(b.Targets)
	for _, name := range b.Targets[:n] {
		body.Targets = append(body.Targets, oneLine(name, 60))
	}
	rows := make([]report.BriefFact, 0, len(b.Facts))
	for _, f := range b.Facts {
		values := make([]string, n)
		for i := range values {
			values[i] = oneLine(f.Values[i], 240)
		}
		rows = append(rows, report.BriefFact{Name: oneLine(f.Name, 80), Values: values, Differs: f.Differs})
	}
	// The first rows identify the targets.
	slices.SortStableFunc(rows, func(x, y report.BriefFact) int { return cmp.Compare(factOrder(&x), factOrder(&y)) })
	html, err := fragments("fact", rows)
	if err != nil {
		return err
	}
	body.Facts, body.MoreFacts = cut(html, roomFacts)
	return nil
}

// plainFacts are those that everybody asks for.
var plainFacts = []string{"spec", "distribution", "kernel", "architecture", "processor", "cores", "threads", "memory",
	"hypervisor", "emulated CPU", "file system", "durability", "error"}

func factOrder(f *report.BriefFact) int {
	if slices.Contains(plainFacts, f.Name) {
		return 0
	}
	if f.Differs {
		return 1
	}
	return 2
}
