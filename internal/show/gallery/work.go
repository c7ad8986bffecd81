package gallery

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tare/internal/judge/history"
	"tare/internal/record"
	"tare/internal/show/look"
	"tare/internal/show/report"
	"tare/internal/stats"
	"tare/internal/unit"
)

// Bounds of the pages of one work.
const (
	mostRanked = 250 // rows on a page
	mostTrends = 100 // courses of one work
	mostPoints = 100 // of a course that are drawn: the last
	leastRuns  = 2   // of a course that is drawn
)

// work is one piece of work, with the cells of all results that did it.
type work struct {
	ID, Label, Kind, Metric string
	entries                 []workEntry
	Results                 int
	Drivers                 []string
	Trends                  int
	trends                  []history.Trend
}

// workEntry is a cell and the result that has it.
type workEntry struct {
	*cell
	result *result
}

// Path is the work's first page.
func (w *work) Path() string { return w.page(0) }

func (w *work) page(i int) string {
	if i == 0 {
		return "work/" + w.ID + ".html"
	}
	return fmt.Sprintf("work/%s.%d.html", w.ID, i+1)
}

// TrendsFile is the first page of the work's trends, in the folder of works.
func (w *work) TrendsFile() string { return w.trendsPage(0)[len("work/"):] }

func (w *work) trendsPage(i int) string {
	if i == 0 {
		return "work/" + w.ID + "-trends.html"
	}
	return fmt.Sprintf("work/%s-trends.%d.html", w.ID, i+1)
}

// worksOf groups the cells of results by their work, in the order of the names.
func worksOf(results []*result) []*work {
	byID := map[string]*work{}
	for _, r := range results {
		counted := map[string]bool{}
		for i := range r.Cells {
			c := &r.Cells[i]
			w := byID[c.Work]
			if w == nil {
				w = &work{ID: slug(c.Kind, c.Work), Label: c.Workload, Kind: c.Kind, Metric: c.Metric}
				byID[c.Work] = w
			}
			if !counted[c.Work] {
				counted[c.Work] = true
				w.Results++
			}
			w.entries = append(w.entries, workEntry{c, r})
			if !slices.Contains(w.Drivers, c.Driver) && len(w.Drivers) < mostFacets {
				w.Drivers = append(w.Drivers, c.Driver)
			}
		}
	}
	all := slices.Collect(maps.Values(byID))
	slices.SortFunc(all, func(a, b *work) int { return cmp.Compare(a.ID, b.ID) })
	for _, w := range all {
		slices.Sort(w.Drivers)
		w.trends = w.courses()
		w.Trends = len(w.trends)
	}
	return all
}

// slug names a work's page.
func slug(kind, digest string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(kind[:min(len(kind), 40)]) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	return b.String() + "-" + digest
}

// workPages writes the ranking of a work and its courses over time.
func (s *site) workPages(title string, w *work) error {
	var sections []section
	head, err := fragment("work-head", w)
	if err != nil {
		return err
	}
	sections = append(sections, section{rows: []template.HTML{head}})
	for _, group := range w.byBaseline() {
		parts, err := rankSections(group)
		if err != nil {
			return err
		}
		sections = append(sections, parts...)
	}
	f := frame{Title: w.Label, Site: title, Up: "../", Here: "work"}
	if err := s.paged(paginate(sections, mostRanked), w.page, f); err != nil || len(w.trends) == 0 {
		return err
	}
	open, err := fragment("trends-open", w)
	if err != nil {
		return err
	}
	rows := []template.HTML{open}
	for i := range w.trends {
		f, err := fragment("trend", drawTrend(&w.trends[i]))
		if err != nil {
			return err
		}
		rows = append(rows, f)
	}
	f.Title += " over time"
	return s.paged(paginate([]section{{rows: rows}}, mostRanked), w.trendsPage, f)
}

// baselineGroup are the entries that are compared with environments of one driver.
type baselineGroup struct {
	Against string
	entries []workEntry
}

// byBaseline groups costs by their baseline, the largest group first.
func (w *work) byBaseline() []baselineGroup {
	by := map[string]*baselineGroup{}
	for _, e := range w.entries {
		g := by[e.AgainstBy]
		if g == nil {
			g = &baselineGroup{Against: e.AgainstBy}
			by[e.AgainstBy] = g
		}
		g.entries = append(g.entries, e)
	}
	var out []baselineGroup
	for _, g := range by {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b baselineGroup) int {
		return cmp.Or(cmp.Compare(len(b.entries), len(a.entries)), cmp.Compare(a.Against, b.Against))
	})
	return out
}

// driverRow sums the results of one driver up.
type driverRow struct {
	Driver             string
	Cells              int
	Median, Least, Top string
	center             float64
	Plot               *look.Plot
}

// rankRow is an entry of a ranking.
type rankRow struct {
	Place                       int
	Driver, Target              string
	Class, Sign, Word           string
	Ratio, Interval             string
	Plot                        *look.Plot
	Emulated                    bool
	Processor, Kernel, ID, Date string
	center                      float64
}

// rankSections lists one group's costs: a line for each driver, and each result with its place.
func rankSections(g baselineGroup) ([]section, error) {
	var values []float64
	var all []rankedCost
	ratios := map[string][]float64{}
	for _, e := range g.entries {
		values = append(values, e.Low, e.Ratio, e.High)
		all = append(all, contenderOf(e.Verdict, e.Ratio, e.Low, e.High, e.Margin))
		if e.Ratio > 0 {
			ratios[e.Driver] = append(ratios[e.Driver], e.Ratio)
		}
	}
	line := look.NewAxis(values, look.PlotFrom, look.PlotTo)
	var drivers []driverRow
	for name, r := range ratios {
		m, low, high := stats.Median(r), slices.Min(r), slices.Max(r)
		drivers = append(drivers, driverRow{Driver: name, Cells: len(r), center: m,
			Median: report.RatioText(m), Least: report.RatioText(low), Top: report.RatioText(high),
			Plot: line.PlotOf("unsure", low, m, high)})
	}
	slices.SortFunc(drivers, func(a, b driverRow) int {
		return cmp.Or(cmp.Compare(a.center, b.center), cmp.Compare(a.Driver, b.Driver))
	})
	var ranked []rankRow
	for i, p := range places(all) {
		ranked = append(ranked, rankRowOf(&g.entries[i], p, &line))
	}
	slices.SortStableFunc(ranked, func(a, b rankRow) int {
		return cmp.Or(cmp.Compare(last(a.Place), last(b.Place)), cmp.Compare(a.center, b.center),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Target, b.Target))
	})
	driverRows, err := fragments("driver-row", drivers)
	if err != nil {
		return nil, err
	}
	rows, err := fragments("rank-row", ranked)
	if err != nil {
		return nil, err
	}
	openDrivers, err := fragment("drivers-open", g)
	if err != nil {
		return nil, err
	}
	open, err := fragment("rank-open", g)
	if err != nil {
		return nil, err
	}
	return []section{{open: openDrivers, end: "</tbody></table></div>", rows: driverRows},
		{open: open, end: "</tbody></table></div>", rows: rows}}, nil
}

func rankRowOf(e *workEntry, place int, line *look.Axis) rankRow {
	r := rankRow{Place: place, Driver: e.Driver, Target: e.Target, Class: e.Class, Sign: e.Sign, Word: e.Word,
		Emulated: e.Emulated, ID: e.result.ID, Date: dayOf(e.result), center: e.Ratio,
		Plot: line.PlotOf(e.Class, e.Low, e.Ratio, e.High)}
	if e.Ratio > 0 {
		r.Ratio = report.RatioText(e.Ratio)
	}
	if e.Low > 0 {
		r.Interval = "[" + report.RatioText(e.Low) + ", " + report.RatioText(e.High) + "]"
	}
	if len(e.result.Processors) > 0 {
		r.Processor = e.result.Processors[0]
	}
	if len(e.result.Kernels) > 0 {
		r.Kernel = e.result.Kernels[0]
	}
	return r
}

// courses are the work's costs over time: of one target against one baseline on machines that look the same.
func (w *work) courses() []history.Trend {
	type key struct{ machine, target, driver, against, by string }
	by := map[key]*history.Trend{}
	var order []key
	for _, e := range w.entries {
		if e.Machine == "unknown" {
			continue
		}
		k := key{e.Machine, e.Target, e.Driver, e.Against, e.AgainstBy}
		t := by[k]
		if t == nil {
			t = &history.Trend{Cell: history.CellName{Target: e.Target, Workload: w.Label, Metric: w.Metric,
				Primary: true}, Machine: e.Machine, Baseline: e.Against}
			if p := e.result.Processors; len(p) > 0 {
				t.Host = p[0]
			}
			by[k] = t
			order = append(order, k)
		}
		p := history.Point{RunID: e.result.ID, Created: e.result.Created, Verdict: string(e.Verdict), Ratio: e.Ratio,
			Low: e.Low, High: e.High}
		if len(e.result.Kernels) > 0 {
			p.Kernel = e.result.Kernels[0]
		}
		t.Points = append(t.Points, p)
	}
	var out []history.Trend
	for _, k := range order {
		t := by[k]
		t.Cell.Runs = len(t.Points)
		if drawn(t) >= leastRuns {
			out = append(out, *t)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Trend) int { return cmp.Compare(len(b.Points), len(a.Points)) })
	out = out[:min(len(out), mostTrends)]
	for i := range out {
		out[i].Mark()
	}
	return out
}

// drawn is the number of points of a trend that have a ratio.
func drawn(t *history.Trend) int {
	n := 0
	for i := range t.Points {
		if t.Points[i].Ratio > 0 {
			n++
		}
	}
	return n
}

// The drawing of a course, in the units of its view box.
const (
	trendWidth  = 640.0
	trendHeight = 150.0
	trendLeft   = 52.0
	trendTop    = 10.0
	trendBottom = 24.0
)

// trendDrawing is the data of the template of a course.
type trendDrawing struct {
	Name, Machine, Text string
	First, Last         string
	Runs                string
	Points              []trendPoint
	Levels              []trendLevel
	Changes             []string // x of each change
	Ticks               []trendTick
	One                 string
	Left, Right         string
	Cut                 int
}

type trendPoint struct {
	X, At, Low, High string
	Class, Title, ID string
	Interval         bool
}

type trendLevel struct{ From, To, At string }

type trendTick struct{ At, Text string }

// drawTrend lays a course out, one step for each run.
func drawTrend(t *history.Trend) *trendDrawing {
	d := &trendDrawing{Name: fmt.Sprintf("%s against %s", t.Cell.Target, orText(t.Baseline)),
		Machine: fmt.Sprintf("%s (machine %.6s)", orText(t.Host), t.Machine), Text: t.Text(),
		Runs: unit.Plural(len(t.Points), "run"), Left: look.Number(trendLeft), Right: look.Number(trendWidth - 8)}
	first := max(0, len(t.Points)-mostPoints)
	d.Cut = first
	points := t.Points[first:]
	var values []float64
	for i := range points {
		values = append(values, points[i].Low, points[i].Ratio, points[i].High)
	}
	y := look.NewAxis(values, trendHeight-trendBottom, trendTop)
	d.One = y.At(1)
	x := func(i int) float64 {
		return trendLeft + 12 + (trendWidth-trendLeft-32)*float64(i)/float64(max(1, len(points)-1))
	}
	for i := range points {
		p := &points[i]
		if !(p.Ratio > 0) {
			continue
		}
		tp := trendPoint{X: look.Number(x(i)), At: y.At(p.Ratio), ID: p.RunID, Class: verdictClass(p),
			Title: fmt.Sprintf("%s: %s, %s, %s", p.Created.UTC().Format(time.DateOnly), report.RatioText(p.Ratio),
				strings.ToLower(p.Verdict), orText(p.Kernel))}
		if p.Low > 0 && p.High >= p.Low {
			tp.Low, tp.High, tp.Interval = y.At(p.Low), y.At(p.High), true
		}
		d.Points = append(d.Points, tp)
	}
	d.First, d.Last = points[0].Created.UTC().Format(time.DateOnly),
		points[len(points)-1].Created.UTC().Format(time.DateOnly)
	for i, s := range t.Shifts {
		to := len(t.Points) - 1
		if i+1 < len(t.Shifts) {
			to = t.Shifts[i+1].At
		}
		if i == 0 && s.At > first {
			d.Levels = append(d.Levels, trendLevel{look.Number(x(0)), look.Number(x(s.At - first)), y.At(s.Before)})
		}
		if to > first {
			d.Levels = append(d.Levels, trendLevel{look.Number(x(max(0, s.At-first))), look.Number(x(to - first)),
				y.At(s.After)})
		}
		if s.At >= first {
			d.Changes = append(d.Changes, fmt.Sprintf("%s: from about %s to about %s",
				t.Points[s.At].Created.UTC().Format(time.DateOnly), report.RatioText(s.Before),
				report.RatioText(s.After)))
		}
	}
	if seen := nonZero(values); len(seen) > 0 {
		low, high := slices.Min(seen), slices.Max(seen)
		if report.RatioText(low) == report.RatioText(high) {
			low = math.Sqrt(low * high)
			high = low
		}
		d.Ticks = append(d.Ticks, trendTick{y.At(low), report.RatioText(low)})
		if high > low {
			d.Ticks = append(d.Ticks, trendTick{y.At(high), report.RatioText(high)})
		}
	}
	return d
}

// nonZero are the values above zero.
func nonZero(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		if v > 0 {
			out = append(out, v)
		}
	}
	return out
}

// verdictClass is the colour of a point.
func verdictClass(p *history.Point) string {
	switch record.Verdict(p.Verdict) {
	case record.Different:
		if p.Ratio < 1 {
			return "less"
		}
		return "more"
	case record.Equivalent:
		return "same"
	case record.Measured:
		return "measured"
	}
	return "unsure"
}
