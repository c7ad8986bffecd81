package logs

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"

	"tare/internal/sys/proc"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

//go:embed page.html
var pageText string

// page is the template of HTML. It escapes what it is given, and the page's policy lets nothing run or load.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"line": proc.Line, "whole": whole, "percent": percent,
	"base":    func(path string) string { return proc.Line(filepath.Base(path)) },
	"seconds": func(s float64) string { return unit.Format(s, "s") },
}).Parse(pageText))

// HTML writes a summary as a web page in one file, with the first top fingerprints, or all for 0.
func HTML(w io.Writer, s *log.Summary, top int) error {
	total := s.Account.Statements.Total
	p := pageData{Summary: s, Total: total, Charts: charts(s), Shown: s.Fingerprints,
		Timed: slices.ContainsFunc(s.Fingerprints, func(g log.Group) bool { return g.Seconds > 0 })}
	if top > 0 && len(p.Shown) > top {
		p.Shown = p.Shown[:top]
	}
	for _, a := range []struct {
		name  string
		parts log.Parts
	}{{"statements", s.Account.Statements}, {"bytes", s.Account.Bytes}} {
		p.Account = append(p.Account, accountRow{Name: a.name, Parts: a.parts, Bar: shares(a.parts)})
	}
	p.Reads = percent(reading(s), total)
	for _, g := range p.Shown {
		by := float64(g.Statements) / float64(max(total, 1))
		if p.Timed {
			by = g.Seconds / timeOf(s)
		}
		p.Bars = append(p.Bars, fmt.Sprintf("%.1f", 100*by))
	}
	return page.Execute(w, &p)
}

// pageData is what the template is given.
type pageData struct {
	*log.Summary
	Total   int64
	Reads   string // part of the statements that only read
	Account []accountRow
	Charts  []chart
	Shown   []log.Group
	Bars    []string // of Shown: its part of all time, or of all statements, in percent
	Timed   bool     // the log has durations
}

// accountRow is a row of the account, with a bar of its parts.
type accountRow struct {
	Name string
	log.Parts
	Bar []share
}

// share is a part of a bar, from From on, both in percent.
type share struct {
	Class       string
	From, Width string
}

// shares divides a bar into the parts that are not empty.
func shares(p log.Parts) (all []share) {
	from := int64(0)
	for _, x := range []struct {
		class string
		n     int64
	}{{"replayed", p.Replayed}, {"skipped", p.Skipped}, {"ambiguous", p.Ambiguous}, {"lost", p.Lost}} {
		if x.n > 0 {
			of := func(n int64) string { return fmt.Sprintf("%.3f", 100*float64(n)/float64(p.Total)) }
			all = append(all, share{x.class, of(from), of(x.n)})
			from += x.n
		}
	}
	return all
}

// timeOf is the time of all statements, in seconds.
func timeOf(s *log.Summary) float64 {
	all := 0.0
	for i := range s.Fingerprints {
		all += s.Fingerprints[i].Seconds
	}
	return all
}

// chart is a figure over the time of the log, drawn in a box of 1000 by 100.
type chart struct {
	Name, Most string
	Bars       []chartBar
}

type chartBar struct{ X, Y, Width, Height, Title string }

// charts draws the timeline, a bar for each of its parts.
func charts(s *log.Summary) (all []chart) {
	for _, f := range timelines(s) {
		width := 1000 / float64(len(s.Timeline))
		c := chart{Name: f.name, Most: fmt.Sprintf(f.most, number(f.peak))}
		for i := range s.Timeline {
			v := f.value(&s.Timeline[i])
			height := 100 * v / f.peak
			c.Bars = append(c.Bars, chartBar{fmt.Sprintf("%.2f", float64(i)*width), fmt.Sprintf("%.2f", 100-height),
				fmt.Sprintf("%.2f", 0.9*width), fmt.Sprintf("%.2f", height),
				s.Timeline[i].Start + ": " + number(v)})
		}
		all = append(all, c)
	}
	return all
}
