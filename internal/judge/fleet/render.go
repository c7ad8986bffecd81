package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Options are the settings of a rendering.
type Options struct {
	Details bool // secondary metrics too, and all hosts of each order
	// Wrap breaks text into lines that are no wider than Width columns, the first after prefix and the others after as
	// many blanks; nil or 0 where there is no end to a line.
	Wrap  func(prefix, text string, width int) []string
	Width int
}

// Format is a way of writing a report, or what is said of one machine.
type Format[T Report | Qualification] struct {
	Name   string
	Doc    string
	Render func(w io.Writer, what *T, o Options) error
}

// Formats lists the ways in the order they are shown.
func Formats() []Format[Report] {
	return []Format[Report]{
		{"text", "sentences and tables for the terminal", Text},
		{"json", "everything, for scripts", JSON[Report]},
	}
}

// JSON writes it as one document.
func JSON[T Report | Qualification](w io.Writer, what *T, _ Options) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(what)
}

// Bounds of the lists of a text without --details.
const (
	mostPlaces  = 8
	mostLines   = 10
	mostMissing = 20
)

// text is one rendering for the terminal.
type text struct {
	Options
	out bytes.Buffer
}

// Text writes the report for the terminal.
func Text(w io.Writer, r *Report, o Options) error {
	t := &text{Options: o}
	t.head(r)
	ratios, costs := shown(r, o, true), shown(r, o, false)
	if len(ratios) > 0 {
		t.title("Ratios across the hosts")
		for _, c := range ratios {
			t.line("- ", clean(c.Sentence))
		}
	}
	if len(costs) > 0 {
		t.title("What a unit of work costs on the hosts")
		for _, c := range costs {
			t.line("- ", clean(c.Sentence))
		}
	}
	t.apart(r)
	t.groups(r)
	for _, c := range append(ratios, costs...) {
		t.order(c)
	}
	t.doubts(r)
	_, err := w.Write(t.out.Bytes())
	return err
}

// shown are the cells of one sort that are shown.
func shown(r *Report, o Options, ratio bool) (out []*Cell) {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.IsRatio == ratio && (c.Primary || o.Details) {
			out = append(out, c)
		}
	}
	return out
}

func (t *text) head(r *Report) {
	name := ""
	if r.Name != "" {
		name = clean(r.Name) + ", "
	}
	of := ""
	if r.Plan != "" {
		of = fmt.Sprintf(": %splan %.12s", name, clean(r.Plan))
	}
	if r.Build != "" {
		of += ", build " + clean(r.Build)
	}
	t.line("", fmt.Sprintf("fleet of %s%s", unit.Plural(r.Expected, "host"), of))
	there := fmt.Sprintf("%d of %s", len(r.Hosts), unit.Plural(r.Expected, "host"))
	if len(r.Hosts) == r.Expected {
		there = "all " + unit.Plural(r.Expected, "host")
		switch r.Expected {
		case 0:
			there = "no host"
		case 1:
			there = "1 host"
		}
	}
	how := ""
	if r.By == ByName {
		how = ", told apart by their names"
	}
	t.line("", fmt.Sprintf("counted: %s%s", there, how))
	if len(r.Missing) > 0 {
		list := r.Missing
		if len(list) > mostMissing && !t.Details {
			list = append(append([]string{}, list[:mostMissing]...), fmt.Sprintf("and %d more", len(list)-mostMissing))
		}
		t.line("missing: ", clean(strings.Join(list, ", ")))
	}
	for i, x := range r.Refused {
		if i == mostLines && !t.Details {
			t.line("refused: ", fmt.Sprintf("%d more", len(r.Refused)-i))
			break
		}
		of := ""
		if x.Host != "" {
			of = " of " + clean(x.Host)
		}
		t.line("refused: ", fmt.Sprintf("%s%s (%s): %s", clean(x.Bundle), of, x.Code, clean(x.Text)))
	}
}

func (t *text) title(s string) {
	t.out.WriteString("\n")
	t.line("", s)
}

// apart lists the hosts that lie apart with what they differ in.
func (t *text) apart(r *Report) {
	if r.Tested == 0 {
		return
	}
	if len(r.Apart) == 0 {
		t.title(fmt.Sprintf("No host lies apart (%s of a host in a cell, at most %.0f %% false claims).",
			unit.Plural(r.Tested, "test"), 100*r.Rate))
		return
	}
	t.title(fmt.Sprintf("Hosts that lie apart (%s of a host in a cell; at most %.0f %% of these claims are false)",
		unit.Plural(r.Tested, "test"), 100*r.Rate))
	for i, group := range byHost(r.Apart) {
		if i == mostLines && !t.Details {
			t.line("  ", "there are more; --details has all")
			break
		}
		var said []string
		for _, o := range group {
			c := Cell{Key: o.Key, IsRatio: o.IsRatio, Unit: o.Unit, Primary: true}
			said = append(said, fmt.Sprintf("%s in %s %s (%s against the others, q %.2g)", o.Workload, o.what(),
				c.value(o.Value), against(o.Against), o.Q))
		}
		t.line("  "+clean(group[0].Host)+"  ", clean(strings.Join(said, "; ")))
		facts := group[0].Differs
		if len(facts) == 0 {
			t.line("      ", "no fact is known that it does not share with many others")
		}
		for j := range facts {
			t.line("      ", clean(facts[j].differing()))
		}
	}
	t.line("", "These facts differ; that they are the reason is not shown.")
}

// mostGroupings bounds the facts whose groups are told without --details.
const mostGroupings = 5

// groups lists facts by which the hosts fall into groups that differ.
func (t *text) groups(r *Report) {
	n := 0
	for i := range r.Groups {
		g := &r.Groups[i]
		if !g.Differ() && !t.Details {
			continue
		}
		if n++; n == 1 {
			t.title("Groups of hosts that differ, and by which facts (these need not be the reason)")
		}
		if n > mostGroupings && !t.Details {
			t.line("- ", "there are more; --details has all")
			return
		}
		t.line("- ", clean(g.Sentence()))
	}
}

// byHost brings the cells of each host together; hosts and cells stay in their order.
func byHost(all []Odd) (groups [][]Odd) {
	at := map[string]int{}
	for _, o := range all {
		i, ok := at[o.Host]
		if !ok {
			i = len(groups)
			at[o.Host] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], o)
	}
	return groups
}

// what names the target, and what its cost is compared with.
func (o *Odd) what() string {
	if o.IsRatio {
		return o.Target + " against " + o.Baseline
	}
	return o.Target
}

// order lists the hosts of a cell, the one with the highest cost first.
func (t *text) order(c *Cell) {
	if len(c.Order) < 2 {
		return
	}
	t.title("By cost: " + clean(subject(c, metricOf(&c.Key, c.Primary))))
	width := 0
	for i := range c.Order {
		width = max(width, runewidth.StringWidth(clean(c.Order[i].Host)))
	}
	width = min(width, 40)
	for i := range c.Order {
		p := &c.Order[i]
		// The first and the last ones, and in between those that lie apart.
		middle := i >= mostPlaces && i < len(c.Order)-2
		if middle && !p.Apart && !t.Details {
			if i == mostPlaces {
				t.line("  ", "...")
			}
			continue
		}
		line := runewidth.FillRight(runewidth.Truncate(clean(p.Host), 40, "~"), width) + "  " + c.value(p.Value)
		if p.Low > 0 {
			line += fmt.Sprintf(" [%s, %s]", c.value(p.Low), c.value(p.High))
		}
		line += "  " + against(p.Against)
		if p.Verdict != "" {
			line += "  " + string(p.Verdict)
		}
		if p.Apart {
			line += "  apart"
		}
		t.out.WriteString("  " + line + "\n")
	}
}

// doubts are the warnings of the fleet and, each once, those of its cells.
func (t *text) doubts(r *Report) {
	all := append([]warned{}, warnings(r, t.Options)...)
	if len(all) > 0 {
		t.out.WriteString("\n")
	}
	for i, w := range all {
		if i == mostLines && !t.Details {
			t.line("! ", fmt.Sprintf("%d more; --details has all", len(all)-i))
			break
		}
		t.line("! ", clean(w.text))
		if w.remedy != "" {
			t.line("  ", "Remedy: "+clean(w.remedy))
		}
	}
}

type warned struct{ text, remedy string }

func warnings(r *Report, o Options) (out []warned) {
	for _, w := range r.Warnings {
		out = append(out, warned{w.Text, w.Remedy})
	}
	seen := map[string]bool{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Primary && !o.Details {
			continue
		}
		if c.Why != "" {
			out = append(out, warned{subject(c, metricOf(&c.Key, c.Primary)) + ": " + c.Why, ""})
		}
		for _, w := range c.Warnings {
			if w.Code == "few-hosts" {
				if !seen[w.Text] {
					out = append(out, warned{w.Text, w.Remedy})
				}
				seen[w.Text] = true
				continue
			}
			out = append(out, warned{subject(c, metricOf(&c.Key, c.Primary)) + ": " + w.Text, w.Remedy})
		}
	}
	return out
}

// line writes a text after a prefix, on as many lines as it takes.
func (t *text) line(prefix, s string) {
	if t.Wrap == nil || t.Width == 0 || runewidth.StringWidth(prefix+s) <= t.Width {
		t.out.WriteString(prefix + s + "\n")
		return
	}
	for _, l := range t.Wrap(prefix, s, t.Width) {
		t.out.WriteString(l + "\n")
	}
}

// clean makes foreign text fit for one line of a terminal.
func clean(s string) string {
	const most = 1000
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return proc.Line(s)
}
