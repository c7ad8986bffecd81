package rundiff

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
)

var columns = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// Text writes the comparison for the terminal.
func Text(w io.Writer, c *Comparison, o Options) error {
	t := &text{Options: o}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if i > 0 {
			t.line("", "")
		}
		t.line("", fmt.Sprintf("%s against %s: %s", clean(c.Sides[p.To].Name), clean(c.Sides[p.From].Name), p.Scope))
		for _, n := range []int{p.From, p.To} {
			s := &c.Sides[n]
			t.line("  "+clean(s.Name)+": ", fmt.Sprintf("run %s of %s, %s%s", clean(s.RunID),
				s.Created.UTC().Format(time.DateTime), clean(s.Scope), hostOf(s)))
		}
		for _, line := range headline(p) {
			t.line("", "")
			t.line("", clean(line))
		}
		for _, g := range tables(c, p, o) {
			t.line("", "")
			t.line("", g.title)
			t.grid(&g)
		}
		t.line("", "")
		for _, warning := range allWarnings(p, o) {
			t.line("! ", clean(warning.Text))
			if warning.Remedy != "" {
				t.line("  ", "Remedy: "+clean(warning.Remedy))
			}
		}
	}
	_, err := w.Write(t.out.Bytes())
	return err
}

// text is one rendering for the terminal.
type text struct {
	Options
	out bytes.Buffer
}

// line writes a text after a prefix, on as many lines as it takes. A prefix that leaves the text no room is a line of
// its own.
func (t *text) line(prefix, s string) {
	if t.Wrap == nil || t.Width == 0 || columns.StringWidth(prefix+s) <= t.Width {
		t.out.WriteString(prefix + s + "\n")
		return
	}
	if columns.StringWidth(prefix) > t.Width/2 {
		first := strings.TrimLeft(prefix, " ")
		indent := prefix[:len(prefix)-len(first)]
		t.line(indent, strings.TrimSpace(first))
		prefix = indent + "  "
	}
	for _, l := range t.Wrap(prefix, s, t.Width) {
		t.out.WriteString(l + "\n")
	}
}

// grid writes a table in columns where they fit, else row by row with a line for each figure.
func (t *text) grid(g *grid) {
	wide := make([]int, len(g.head))
	rows := append([][]string{g.head}, g.rows...)
	for _, r := range rows {
		for i := range r {
			r[i] = clean(r[i])
			wide[i] = min(40, max(wide[i], columns.StringWidth(r[i])))
		}
	}
	lines := make([]string, len(rows))
	widest := 0
	for n, r := range rows {
		line := " "
		for i, s := range r {
			if wide[i] > 0 {
				line += " " + s + strings.Repeat(" ", max(0, wide[i]-columns.StringWidth(s))) + " "
			}
		}
		lines[n] = strings.TrimRight(line, " ")
		widest = max(widest, columns.StringWidth(lines[n]))
	}
	if t.Width > 0 && widest > t.Width {
		t.stack(g)
		return
	}
	for _, line := range lines {
		t.out.WriteString(line + "\n")
	}
}

// stack writes what a row is of on a line of its own and each of its figures below, after the column's head. A column
// without a head is a sign before the next one, or a word after the last.
func (t *text) stack(g *grid) {
	for _, r := range g.rows {
		t.line("  ", strings.Join(strings.Fields(strings.Join(r[:g.keys], " ")), " "))
		sign := ""
		for i := g.keys; i < len(r); i++ {
			if g.head[i] == "" {
				sign = r[i] + " "
				continue
			}
			value := sign + r[i]
			if last := len(r) - 1; i == last-1 && g.head[last] == "" {
				value += " " + r[last]
			}
			if value = strings.TrimSpace(value); value != "" {
				t.line("      "+g.head[i]+": ", value)
			}
			sign = ""
		}
	}
}
