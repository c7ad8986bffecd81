package logs

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"

	"tare/internal/sys/httplog"
	"tare/internal/sys/ledger"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

//go:embed page.html
var pageText string

// page is the template of the pages. It escapes its data, and the page's policy lets nothing run or load.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"line": proc.Line, "whole": whole,
	"base": func(path string) string { return proc.Line(filepath.Base(path)) },
}).Parse(pageText))

// HTML writes a summary as a web page in one file, with the first top fingerprints, or all for 0.
func HTML(w io.Writer, s *log.Summary, top int) error {
	total := s.Account.Statements.Total
	p := pageData{Logs: s.Logs, Notes: s.Notes, Item: "statement", Items: "statements", Does: true,
		Account: accounts("statements", s.Account.Statements, s.Account.Bytes), Reasons: sqlReasons(s),
		Charts: charts(timelines(s)), First: s.Time.First, Last: s.Time.Last, Distinct: s.Distinct,
		Timed: slices.ContainsFunc(s.Fingerprints, func(g log.Group) bool { return g.Seconds > 0 })}
	format := fmt.Sprintf("%s (%s)", s.Format, s.Dialect)
	if s.Wrapped != "" {
		format += ", in " + s.Wrapped
	}
	if s.Prefix != "" {
		format += fmt.Sprintf(", log_line_prefix '%s'", proc.Line(s.Prefix))
	}
	n := s.Sessions
	p.Head = []string{format, timeText(s.Time.First, s.Time.Last, s.Time.Seconds, s.Time.Precision),
		fmt.Sprintf("%s sessions, of which %s began before the log and %s were denied; at most %s open, %s active in "+
			"a second.", whole(n.Total), whole(n.Begun), whole(n.Denied), whole(n.MostOpen), whole(n.MostActive))}
	if total > 0 {
		p.Head = append(p.Head, percent(reading(s), total)+" of the statements only read.")
	}
	does := pageTable{Title: "What the statements do", Head: []string{"does", "statements", "replayed", "of all"}}
	for _, c := range s.Classes {
		does.Rows = append(does.Rows, []string{proc.Line(c.Name), whole(c.Statements), whole(c.Replayed),
			percent(c.Statements, total)})
	}
	volatile := pageTable{Title: "Not to be compared", Head: []string{"because of", "statements", "of all"},
		Note: "These are replayed, but their results may differ from server to server."}
	for _, c := range s.Volatile {
		volatile.Rows = append(volatile.Rows, []string{proc.Line(c.Name), whole(c.Statements),
			percent(c.Statements, total)})
	}
	p.add(does, volatile)
	p.figures("statements")
	all := 0.0
	for i := range s.Fingerprints {
		all += s.Fingerprints[i].Seconds
	}
	for _, g := range first(s.Fingerprints, top) {
		p.kind(pageKind{ID: g.ID, Text: g.Text, Comment: g.Comment, Does: g.Class,
			Figures: []string{whole(g.Statements)}}, g.Statements, total, g.Seconds, g.Longest, all)
	}
	return page.Execute(w, &p)
}

// HTTPPage is HTML for the log of a web server.
func HTTPPage(w io.Writer, s *httplog.Summary, top int) error {
	total := s.Account.Requests.Total
	p := pageData{Logs: s.Logs, Notes: s.Notes, Item: "request", Items: "requests",
		Account: accounts("requests", s.Account.Requests, s.Account.Bytes), Reasons: httpReasons(s),
		Charts: charts(httpTimelines(s)), First: s.Time.First, Last: s.Time.Last, Distinct: s.Distinct,
		Timed: slices.ContainsFunc(s.Fingerprints, func(g httplog.Group) bool { return g.Seconds > 0 })}
	p.Head = []string{string(s.Format), timeText(s.Time.First, s.Time.Last, s.Time.Seconds, s.Time.Precision),
		fmt.Sprintf("%s sessions; at most %s within half an hour, at most %s in a second.", whole(s.Sessions.Total),
			whole(s.Sessions.MostOpen), unit.Plural(s.Sessions.MostRequests, "request"))}
	for _, c := range []struct {
		name, of string
		counts   []httplog.Count
	}{{"Methods", "method", s.Methods}, {"Statuses", "status", s.Statuses}, {"Hosts", "host", s.Hosts}} {
		t := pageTable{Title: c.name, Head: []string{c.of, "requests", "replayed", "of all"}}
		for _, n := range c.counts {
			t.Rows = append(t.Rows, []string{proc.Line(n.Name), whole(n.Requests), whole(n.Replayed),
				percent(n.Requests, total)})
		}
		p.add(t)
	}
	p.figures("requests", "replayed", "failed")
	all := 0.0
	for i := range s.Fingerprints {
		all += s.Fingerprints[i].Seconds
	}
	for _, g := range first(s.Fingerprints, top) {
		p.kind(pageKind{ID: g.ID, Text: g.Text, Figures: []string{whole(g.Requests), whole(g.Replayed),
			whole(g.Failed)}}, g.Requests, total, g.Seconds, g.Longest, all)
	}
	return page.Execute(w, &p)
}

// first are the first top of all, or all for 0.
func first[T any](all []T, top int) []T {
	if top > 0 && len(all) > top {
		return all[:top]
	}
	return all
}

// timeText is the time span of a log.
func timeText(first, last string, seconds, precision float64) string {
	if first == "" {
		return "The log tells no times."
	}
	return fmt.Sprintf("%s to %s, %s, to the nearest %s", first, last, unit.Format(seconds, "s"),
		unit.Format(precision, "s"))
}

// pageData is the data of the template.
type pageData struct {
	Logs, Head, Notes []string
	Item, Items       string // the unit of the log's content: statement or request
	Account           []accountRow
	Reasons           []ledger.Reason
	Charts            []chart
	First, Last       string
	Tables            []pageTable
	Kinds             []pageKind
	Distinct          int
	Figures           []string // the names of those of Kinds
	Does              bool     // Kinds do something
	Timed             bool     // the log has durations
}

// pageTable is a table whose first column is text, and whose others are numbers.
type pageTable struct {
	Title, Note string
	Head        []string
	Rows        [][]string
}

// pageKind is a fingerprint. Part is its part of all time, or of all items, in percent.
type pageKind struct {
	ID, Text, Comment, Does, Part string
	Figures                       []string
}

// add adds tables that have rows.
func (p *pageData) add(tables ...pageTable) {
	for _, t := range tables {
		if len(t.Rows) > 0 {
			p.Tables = append(p.Tables, t)
		}
	}
}

// figures names the figures of fingerprints.
func (p *pageData) figures(names ...string) {
	if p.Figures = names; p.Timed {
		p.Figures = append(p.Figures, "time", "longest")
	}
}

// kind adds a fingerprint, of n items that took some seconds.
func (p *pageData) kind(k pageKind, n, total int64, seconds, longest, all float64) {
	part := float64(n) / float64(max(total, 1))
	if p.Timed {
		part = seconds / all
		k.Figures = append(k.Figures, unit.Format(seconds, "s"), unit.Format(longest, "s"))
	}
	k.Part = fmt.Sprintf("%.1f", 100*part)
	p.Kinds = append(p.Kinds, k)
}

// accounts are the rows of an account.
func accounts(items string, of, bytes ledger.Parts) []accountRow {
	return []accountRow{{items, of, shares(of)}, {"bytes", bytes, shares(bytes)}}
}

// accountRow is a row of the account, with a bar of its parts.
type accountRow struct {
	Name string
	ledger.Parts
	Bar []share
}

// share is a part of a bar, from From on, both in percent.
type share struct {
	Class       string
	From, Width string
}

// shares divides a bar into the parts that are not empty.
func shares(p ledger.Parts) (all []share) {
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

// chart is a figure over the time of the log, drawn in a box of 1000 by 100.
type chart struct {
	Name, Most string
	Bars       []chartBar
}

type chartBar struct{ X, Y, Width, Height, Title string }

// charts draws figures over time, a bar for each part of it.
func charts(of []timeline) (all []chart) {
	for _, f := range of {
		width := 1000 / float64(len(f.values))
		c := chart{Name: f.name, Most: fmt.Sprintf(f.most, number(f.peak))}
		for i, v := range f.values {
			height := 100 * v / f.peak
			c.Bars = append(c.Bars, chartBar{fmt.Sprintf("%.2f", float64(i)*width), fmt.Sprintf("%.2f", 100-height),
				fmt.Sprintf("%.2f", 0.9*width), fmt.Sprintf("%.2f", height), f.starts[i] + ": " + number(v)})
		}
		all = append(all, c)
	}
	return all
}
