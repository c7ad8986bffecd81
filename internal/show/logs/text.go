// Package logs writes summaries of the logs of database servers and web servers.
package logs

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"tare/internal/sys/httplog"
	"tare/internal/sys/ledger"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/log"
	"tare/internal/unit"
)

// Text writes a summary for people, width columns wide, with the first top fingerprints, or all for 0.
func Text(w io.Writer, s *log.Summary, width, top int) error {
	t := &text{w: w, width: width}
	t.head(s)
	t.account(s)
	t.mix(s)
	t.timeline(timelines(s))
	t.fingerprints(s, top)
	for _, n := range s.Notes {
		t.line("note: %s", proc.Line(n))
	}
	return t.err
}

type text struct {
	w     io.Writer
	width int
	err   error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, strings.TrimRight(format, " ")+"\n", args...)
	}
}

// table writes rows in columns, the first of which are aligned to the left.
func (t *text) table(left int, rows [][]string) {
	widths := []int{}
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			if b.WriteString("  "); i < left {
				b.WriteString(c + pad)
			} else {
				b.WriteString(pad + c)
			}
		}
		t.line("%s", strings.TrimRight(b.String(), " "))
	}
}

func (t *text) head(s *log.Summary) {
	wrapped := ""
	if s.Wrapped != "" {
		wrapped = ", in " + s.Wrapped
	}
	if s.Prefix != "" {
		wrapped += fmt.Sprintf(", log_line_prefix '%s'", proc.Line(s.Prefix))
	}
	for _, name := range s.Logs {
		t.line("%s", proc.Line(name))
	}
	tw := tabwriter.NewWriter(t.w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "  format\t%s (%s)%s\n", s.Format, s.Dialect, wrapped)
	if s.Time.First != "" {
		fmt.Fprintf(tw, "  time\t%s to %s, %s, to the nearest %s\n", s.Time.First, s.Time.Last,
			unit.Format(s.Time.Seconds, "s"), unit.Format(s.Time.Precision, "s"))
	} else {
		fmt.Fprintf(tw, "  time\tthe log tells none\n")
	}
	n := s.Sessions
	fmt.Fprintf(tw, "  sessions\t%s, of which %s began before the log and %s were denied; at most %s open, "+
		"%s active in a second\n", whole(n.Total), whole(n.Begun), whole(n.Denied), whole(n.MostOpen),
		whole(n.MostActive))
	if len(s.Databases) > 0 {
		var names []string
		for _, d := range s.Databases[:min(8, len(s.Databases))] {
			names = append(names, proc.Line(d.Name))
		}
		more := ""
		if len(s.Databases) > 8 {
			more = fmt.Sprintf(" and %d more", len(s.Databases)-8)
		}
		fmt.Fprintf(tw, "  databases\t%s%s\n", strings.Join(names, ", "), more)
	}
	if err := tw.Flush(); t.err == nil {
		t.err = err
	}
}

// sqlReasons are the reasons for which a part of a log is not replayed.
func sqlReasons(s *log.Summary) (all []ledger.Reason) {
	for _, r := range s.Account.Reasons {
		all = append(all, ledger.Reason{Part: r.Part, Reason: r.Reason, Records: r.Statements, Bytes: r.Bytes})
	}
	return all
}

func (t *text) account(s *log.Summary) {
	t.accounts("statements", s.Account.Statements, s.Account.Bytes, sqlReasons(s))
	if n := s.Account.Resyncs; n > 0 {
		t.line("  %d times a literal did not end, and the next record was found by its looks", n)
	}
}

// accounts writes the account of records, which have a name, and of bytes.
func (t *text) accounts(name string, records, bytes ledger.Parts, reasons []ledger.Reason) {
	t.line("")
	row := func(name string, p ledger.Parts) []string {
		return []string{name, whole(p.Total), whole(p.Replayed), whole(p.Skipped), whole(p.Ambiguous), whole(p.Lost)}
	}
	t.table(1, [][]string{{"", "total", "replayed", "skipped", "ambiguous", "lost"}, row(name, records),
		row("bytes", bytes)})
	if len(reasons) == 0 {
		return
	}
	t.line("")
	rows := [][]string{{"why not", "", name, "bytes"}}
	for _, r := range reasons {
		rows = append(rows, []string{string(r.Part), proc.Line(r.Reason), whole(r.Records), whole(r.Bytes)})
	}
	t.table(2, rows)
}

// whole writes a whole number with commas.
func whole(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// number writes a whole number as whole does, and another one with three digits.
func number(v float64) string {
	if v == float64(int64(v)) {
		return whole(int64(v))
	}
	return unit.Number(v)
}

func (t *text) mix(s *log.Summary) {
	total := s.Account.Statements.Total
	if total == 0 {
		return
	}
	reads, known := reading(s), int64(0)
	var names []string
	for _, c := range s.Classes {
		known += c.Statements
		names = append(names, fmt.Sprintf("%s %s", c.Name, percent(c.Statements, total)))
	}
	t.line("")
	t.line("  read-only %s, other %s: %s", percent(reads, total), percent(known-reads, total),
		strings.Join(names, ", "))
	if len(s.Volatile) > 0 {
		names = names[:0]
		for _, c := range s.Volatile[:min(8, len(s.Volatile))] {
			names = append(names, fmt.Sprintf("%s %s", c.Name, percent(c.Statements, total)))
		}
		t.line("  not to be compared: %s", strings.Join(names, ", "))
	}
}

// reading counts the statements that only read.
func reading(s *log.Summary) (n int64) {
	for _, c := range s.Classes {
		if slices.Contains([]string{"read", "session", "transaction"}, c.Name) {
			n += c.Statements
		}
	}
	return n
}

func percent(n, total int64) string {
	if total == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(total))
}

// bars are the heights of a part of a timeline.
var bars = []rune(" ▁▂▃▄▅▆▇█")

// timeline is a figure over the time of a log.
type timeline struct {
	name, most string // most: the format of the highest value
	values     []float64
	starts     []string // of the parts of the time
	width      float64  // of each, in seconds
	peak       float64  // the highest value, above 0
}

// figure is a row of the timeline: one value of each bucket of a log's time.
type figure[B any] struct {
	name, most string
	value      func(b *B) float64
}

// over lists the figures that a log has.
func over[B any](parts []B, start func(b *B) (string, float64), figures []figure[B]) (all []timeline) {
	if len(parts) < 2 {
		return nil
	}
	for _, f := range figures {
		l := timeline{name: f.name, most: f.most}
		for i := range parts {
			at, width := start(&parts[i])
			v := f.value(&parts[i])
			l.values, l.starts, l.width, l.peak = append(l.values, v), append(l.starts, at), width, max(l.peak, v)
		}
		if l.peak > 0 {
			all = append(all, l)
		}
	}
	return all
}

// timelines are the figures that the log of a database server has.
func timelines(s *log.Summary) []timeline {
	return over(s.Timeline, func(b *log.Bucket) (string, float64) { return b.Start, b.Seconds }, []figure[log.Bucket]{
		{"statements", "at most %s/s", func(b *log.Bucket) float64 { return float64(b.Statements) / b.Seconds }},
		{"of them read-only", "at most %s/s", func(b *log.Bucket) float64 { return float64(b.Reads) / b.Seconds }},
		{"sessions open", "at most %s", func(b *log.Bucket) float64 { return float64(b.Open) }},
		{"sessions active in 1 s", "at most %s", func(b *log.Bucket) float64 { return float64(b.Active) }},
		{"statements at once", "at most %s on average", func(b *log.Bucket) float64 { return b.Running }},
	})
}

// httpTimelines are those that the log of a web server has.
func httpTimelines(s *httplog.Summary) []timeline {
	type bucket = httplog.Bucket
	return over(s.Timeline, func(b *bucket) (string, float64) { return b.Start, b.Seconds }, []figure[bucket]{
		{"requests", "at most %s/s", func(b *bucket) float64 { return float64(b.Requests) / b.Seconds }},
		{"of them replayed", "at most %s/s", func(b *bucket) float64 { return float64(b.Replayed) / b.Seconds }},
		{"of them failed", "at most %s/s", func(b *bucket) float64 { return float64(b.Failed) / b.Seconds }},
		{"bytes sent", "at most %s/s", func(b *bucket) float64 { return float64(b.Bytes) / b.Seconds }},
		{"requests at once", "at most %s on average", func(b *bucket) float64 { return b.Running }},
	})
}

func (t *text) timeline(figures []timeline) {
	if figures == nil {
		return
	}
	t.line("")
	rows := [][]string{}
	for _, f := range figures {
		var line []rune
		for _, v := range f.values {
			line = append(line, bars[int(v/f.peak*float64(len(bars)-1)+0.5)])
		}
		rows = append(rows, []string{f.name, squeeze(line, max(20, t.width-50)),
			fmt.Sprintf(f.most, number(f.peak))})
	}
	n := columns(len(figures[0].values), max(20, t.width-50))
	t.line("  over time, %s a column", unit.Format(figures[0].width*float64(n), "s"))
	t.table(3, rows)
}

// columns is the number of buckets of a timeline that share a column.
func columns(n, width int) int { return (n + width - 1) / width }

// squeeze makes a line no wider than some columns: the highest bar of each group stays.
func squeeze(line []rune, width int) string {
	n := columns(len(line), width)
	var out []rune
	for group := range slices.Chunk(line, n) {
		out = append(out, slices.Max(group))
	}
	return string(out)
}

func (t *text) fingerprints(s *log.Summary, top int) {
	if len(s.Fingerprints) == 0 {
		return
	}
	shown := first(s.Fingerprints, top)
	timed := slices.ContainsFunc(s.Fingerprints, func(g log.Group) bool { return g.Seconds > 0 })
	t.line("")
	t.line("  %d of %s fingerprints", len(shown), whole(int64(s.Distinct)))
	head := []string{"ID", "does", "statements"}
	if timed {
		head = append(head, "time")
	}
	rows := [][]string{head}
	for i := range shown {
		g := &shown[i]
		row := []string{g.ID, g.Class, whole(g.Statements)}
		if timed {
			row = append(row, unit.Format(g.Seconds, "s"))
		}
		rows = append(rows, row)
	}
	t.list(2, rows, func(i int) string {
		if shown[i].Comment != "" {
			return "/* " + proc.Line(shown[i].Comment) + " */ " + proc.Line(shown[i].Text)
		}
		return proc.Line(shown[i].Text)
	})
}

// list writes a table whose rows, but for the first, are followed by a text that may be cut.
func (t *text) list(left int, rows [][]string, what func(row int) string) {
	var b strings.Builder
	inner := &text{w: &b, width: t.width}
	inner.table(left, rows)
	for i, l := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if i > 0 {
			l += "  " + unit.Cut(what(i-1), max(30, t.width-len([]rune(l))-2))
		}
		t.line("%s", l)
	}
}
