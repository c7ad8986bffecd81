package rundiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Options are the settings of a rendering.
type Options struct {
	Details bool // secondary metrics too
	ASCII   bool // no character beyond ASCII except in names
	// Wrap breaks text into lines that are no wider than a terminal has columns, the first after prefix and the others
	// after as many spaces. Width is how many it has; 0 and nil where there is no end to a line.
	Wrap  func(prefix, text string, width int) []string
	Width int
}

// Format is a way of writing a comparison.
type Format struct {
	Name   string
	Doc    string
	Render func(w io.Writer, c *Comparison, o Options) error
}

// Formats lists the ways in the order they are shown.
func Formats() []Format {
	return []Format{
		{"text", "tables for the terminal", Text},
		{"json", "everything, for scripts", JSON},
		{"markdown", "tables for a pull request or a forum", Markdown},
	}
}

// JSON writes the comparison as one document.
func JSON(w io.Writer, c *Comparison, _ Options) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(c)
}

// grid is a table of cells as text. The first columns, keys of them, say what a row is of.
type grid struct {
	title string
	keys  int
	head  []string
	rows  [][]string
}

// tables arranges a pair for showing.
func tables(c *Comparison, p *Pair, o Options) []grid {
	a, b := c.Sides[p.From].Name, c.Sides[p.To].Name
	var out []grid
	if len(p.Differences) > 0 {
		g := grid{title: "What differs", keys: 3, head: []string{"", "", "", a, b}}
		for _, d := range p.Differences {
			g.rows = append(g.rows, []string{d.Area, d.Where, d.Name, orNone(d.From), orNone(d.To)})
		}
		out = append(out, g)
	}
	g := grid{title: "Ratios against the baseline, and how they changed", keys: 2,
		head: []string{"target", "workload", a, b, "", "change", ""}}
	for i := range p.Cells {
		x := &p.Cells[i]
		if !x.Primary && !o.Details {
			continue
		}
		name := x.Workload
		if !x.Primary {
			name += " " + x.Metric
		}
		g.rows = append(g.rows, []string{x.Target, name, ratio(x.From), ratio(x.To), glyph(&x.Ratio, o.ASCII),
			ratio(x.Ratio), string(x.Verdict)})
	}
	if len(g.rows) > 0 {
		out = append(out, g)
	}
	if g := groupGrid(a, b, p.Groups, o); len(g.rows) > 0 {
		out = append(out, g)
	}
	out = append(out, unequalGrids(a, b, p.Unequal, o)...)
	g = grid{title: "Figures (absolute, so the machines count too)", keys: 2,
		head: []string{"target", "workload", a, b, "cost"}}
	for i := range p.Values {
		x := &p.Values[i]
		if !x.From.Primary && !o.Details {
			continue
		}
		name := x.From.Workload
		if !x.From.Primary {
			name += " " + x.From.Metric
		}
		g.rows = append(g.rows, []string{x.From.Target, name, unit.Format(x.From.Center, x.From.Unit),
			unit.Format(x.To.Center, x.To.Unit),
			interval(x.Cost, x.Low, x.High)})
	}
	if len(g.rows) > 0 {
		out = append(out, g)
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func ratio(r record.Ratio) string { return interval(r.Center, r.Low, r.High) }

func interval(center, low, high float64) string {
	switch {
	case !(center > 0):
		return "-"
	case !(low > 0) || !(high > 0):
		return figure(center)
	}
	return fmt.Sprintf("%s [%s, %s]", figure(center), figure(low), figure(high))
}

// figure writes a ratio with three significant digits, two decimals around one.
func figure(v float64) string {
	switch {
	case v < 0.0995 || v >= 1e5:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
}

func glyph(r *record.Ratio, ascii bool) string {
	signs := map[record.Verdict]string{record.Equivalent: "=", record.Measured: "≈", record.Inconclusive: "~",
		record.Withheld: "?", record.Failed: "✕"}
	if ascii {
		signs[record.Measured], signs[record.Failed] = "m", "x"
	}
	if r.Verdict != record.Different {
		return signs[r.Verdict]
	}
	more, less := "▲", "▼"
	if ascii {
		more, less = "+", "-"
	}
	if r.Center > 1 {
		return more
	}
	return less
}

// clean makes foreign text fit for one line of a terminal.
func clean(s string) string {
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return proc.Line(s)
}

// headline is the answer: what changed for sure, or that nothing did.
func headline(p *Pair) []string {
	const most = 8
	var out []string
	counts := map[record.Verdict]int{}
	for i := range p.Cells {
		c := &p.Cells[i]
		if !c.Primary {
			continue
		}
		counts[c.Verdict]++
		if c.Verdict == record.Different && len(out) < most {
			out = append(out, Sentence(c, p.Scope)+".")
		}
	}
	if n := counts[record.Different]; n > most {
		out = append(out, fmt.Sprintf("And %d more.", n-most))
	}
	said := []string{}
	for _, v := range []record.Verdict{record.Different, record.Equivalent, record.Measured, record.Inconclusive,
		record.Withheld, record.Failed} {
		if counts[v] > 0 {
			said = append(said, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	if len(said) > 0 {
		out = append(out, "Changes: "+strings.Join(said, ", ")+".")
	}
	return out
}

func hostOf(s *Info) string {
	out := ""
	if s.Host != "" {
		out = "; " + clean(s.Host)
	}
	if s.Redacted {
		out += "; redacted"
	}
	return out
}

// allWarnings are those of the pair and, each once, those of the cells that are shown.
func allWarnings(p *Pair, o Options) []record.Warning {
	out := append([]record.Warning(nil), p.Warnings...)
	seen := map[string]int{}
	for i := range p.Cells {
		c := &p.Cells[i]
		if !c.Primary && !o.Details {
			continue
		}
		for _, w := range c.Warnings {
			key := w.Code + w.Text
			if n, ok := seen[key]; ok {
				out[n].Text = addCell(out[n].Text, c)
				continue
			}
			seen[key] = len(out)
			out = append(out, record.Warning{Code: w.Code, Text: fmt.Sprintf("%s %s: %s", c.Target, c.Workload, w.Text),
				Remedy: w.Remedy})
		}
	}
	return out
}

// addCell names one more cell in front of a warning that several have.
func addCell(text string, c *Cell) string {
	return fmt.Sprintf("%s %s, %s", c.Target, c.Workload, text)
}

// Markdown writes the comparison as GitHub-flavoured Markdown. Names are escaped: they are never markup.
func Markdown(w io.Writer, c *Comparison, o Options) error {
	var b bytes.Buffer
	for i := range c.Pairs {
		p := &c.Pairs[i]
		fmt.Fprintf(&b, "### %s against %s\n\nScope: %s.\n", escape(c.Sides[p.To].Name), escape(c.Sides[p.From].Name),
			escape(p.Scope))
		for _, line := range headline(p) {
			fmt.Fprintf(&b, "\n%s\n", escape(line))
		}
		for _, g := range tables(c, p, o) {
			fmt.Fprintf(&b, "\n**%s**\n\n", g.title)
			g.markdown(&b)
		}
		b.WriteString("\n")
		for _, warning := range allWarnings(p, o) {
			fmt.Fprintf(&b, "- %s", escape(warning.Text))
			if warning.Remedy != "" {
				fmt.Fprintf(&b, " *Remedy: %s*", escape(warning.Remedy))
			}
			b.WriteString("\n")
		}
		b.WriteString("\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (g *grid) markdown(b *bytes.Buffer) {
	row := func(cells []string) {
		for _, s := range cells {
			b.WriteString("| " + escape(s) + " ")
		}
		b.WriteString("|\n")
	}
	row(g.head)
	b.WriteString(strings.Repeat("| --- ", len(g.head)) + "|\n")
	for _, r := range g.rows {
		row(r)
	}
}

// escape makes foreign text mean itself in Markdown, HTML included.
func escape(s string) string {
	s = clean(s)
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune("\\`*_{}[]|#!~", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '@': // a mention would call somebody
			b.WriteString("&#64;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
