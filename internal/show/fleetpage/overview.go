package fleetpage

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/fleet"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// overview is the data of the page of all hosts.
type overview struct {
	Title, Meta        string
	Missing            []string
	MoreMissing        int
	Refused            []fleet.Refusal
	MoreRefused        int
	Answers            []answer
	Tested, Rate       string // of the hosts that lie apart
	Odd                []oddHost
	MoreOdd            int
	Groups             []group
	Heat               template.HTML
	HeatNote           string
	Steps              []step
	Orders             []*order
	Notes              []note
	MoreNotes          int
	HasPages, FewHosts bool
}

type answer struct{ Class, Sign, Text string }

type note struct{ Text, Remedy string }

// oddHost is a host that lies apart, with its cells and its differing facts.
type oddHost struct {
	Name, Link string
	Cells      []oddCell
	Facts      []factRow
}

type oddCell struct{ What, Value, Against, Class, Sign, Q string }

// factRow is a fact that a host does not share with most others.
type factRow struct{ Name, Value, Usual, Others, Like string }

// group is a fact by whose values the hosts fall into groups.
type group struct {
	Facts  []string
	More   int // facts that are not named
	Cell   string
	Said   string
	Differ bool
	Rows   []groupRow
}

type groupRow struct {
	Value, Against, Interval string
	Hosts, Apart             int
	Class, Sign              string
}

// step is a shade of the heat map.
type step struct{ Class, Text string }

// Bounds of a page's lists: the report of the terminal has all of them.
const (
	mostMissing = 100
	mostRefused = 50
	mostOdd     = 60
	mostGroups  = 24
	mostNotes   = 30
)

// Overview writes the page of all hosts.
func (p *Pages) Overview(w io.Writer) error {
	r := p.report
	o := &overview{Title: p.title(), Meta: p.meta(), HasPages: p.folder != "",
		Rate: fmt.Sprintf("%.0f %%", 100*r.Rate)}
	o.Missing = cut(r.Missing, mostMissing, &o.MoreMissing)
	o.Refused = cut(r.Refused, mostRefused, &o.MoreRefused)
	for _, c := range p.cells {
		if c.IsRatio {
			o.Answers = append(o.Answers, answerOf(c))
		}
	}
	if r.Tested > 0 {
		o.Tested = unit.Plural(r.Tested, "test")
	}
	o.Odd = cut(p.apart, mostOdd, &o.MoreOdd)
	for i := range r.Groups[:min(len(r.Groups), mostGroups)] {
		o.Groups = append(o.Groups, groupOf(&r.Groups[i]))
	}
	o.Heat, o.HeatNote = p.heat()
	for i, s := range steps {
		o.Steps = append(o.Steps, step{fmt.Sprintf("u%d", i+1), s.text})
	}
	for _, c := range p.cells {
		if x := p.order(c); x != nil {
			o.Orders = append(o.Orders, x)
		}
	}
	o.Notes = cut(p.notes(), mostNotes, &o.MoreNotes)
	return render(w, &frame{Title: o.Title}, "overview", o)
}

// cut is the beginning of a list, and how much is left off.
func cut[T any](list []T, most int, more *int) []T {
	*more = max(0, len(list)-most)
	return list[:min(len(list), most)]
}

func (p *Pages) meta() string {
	r := p.report
	text := fmt.Sprintf("%d of %s", len(r.Hosts), unit.Plural(r.Expected, "host"))
	if len(r.Hosts) == r.Expected {
		text = unit.Plural(r.Expected, "host")
	}
	if r.By == fleet.ByName {
		text += ", told apart by their names"
	}
	if r.Plan != "" {
		text += fmt.Sprintf(" · plan %.12s", r.Plan)
	}
	if r.Build != "" {
		text += " · build " + r.Build
	}
	return proc.Line(text)
}

func answerOf(c *fleet.Cell) answer {
	a := answer{Class: cmp.Or(verdictClass[c.Verdict], "unsure"), Sign: "~", Text: proc.Line(c.Sentence)}
	switch {
	case c.Verdict == record.Different && c.Center > 1:
		a.Sign = "▲"
	case c.Verdict == record.Different:
		a.Class, a.Sign = "less", "▼"
	case c.Verdict == record.Equivalent:
		a.Sign = "="
	}
	return a
}

// odd are the hosts that lie apart, the farthest first, each once.
func (p *Pages) odd() (out []oddHost) {
	at := map[string]int{}
	for i := range p.report.Apart {
		o := &p.report.Apart[i]
		n, ok := at[o.Host]
		if !ok {
			n = len(out)
			at[o.Host] = n
			out = append(out, oddHost{Name: o.Host, Link: p.link(o.Host), Facts: factRows(o.Differs)})
		}
		out[n].Cells = append(out[n].Cells, p.oddCell(o))
	}
	return out
}

func (p *Pages) oddCell(o *fleet.Odd) oddCell {
	c := fleet.Cell{Key: o.Key, IsRatio: o.IsRatio, Unit: o.Unit}
	cls, sign := class(&fleet.Place{Apart: true, Against: o.Against})
	return oddCell{What: what(&o.Key), Value: value(&c, o.Value), Against: signed(o.Against), Class: cls, Sign: sign,
		Q: fmt.Sprintf("%.2g", o.Q)}
}

func factRows(all []fleet.Fact) (out []factRow) {
	for i := range all {
		f := &all[i]
		row := factRow{Name: f.Name, Value: f.Value, Usual: f.Usual,
			Others: fmt.Sprintf("%d of %d", f.Others, f.OthersOf)}
		if f.LikeOf > 1 {
			row.Like = fmt.Sprintf("%d of %d", f.Like, f.LikeOf)
		}
		out = append(out, row)
	}
	return out
}

// mostNames bounds the facts that are named of those that divide the hosts in one way.
const mostNames = 6

func groupOf(g *fleet.Grouping) group {
	out := group{Cell: what(&g.Key), Differ: g.Differ()}
	out.Facts = cut(g.Facts, mostNames, &out.More)
	out.Said = "that these groups differ is not shown"
	if out.Differ {
		out.Said = fmt.Sprintf("explains %.0f %% of what hosts differ by", 100*g.Share)
		if g.Cells > 1 {
			out.Said += fmt.Sprintf("; the groups differ in %s", unit.Plural(g.Cells, "figure"))
		}
	}
	for i := range g.Groups {
		x := &g.Groups[i]
		row := groupRow{Value: x.Value, Hosts: x.Hosts, Apart: x.Apart, Class: "unsure"}
		if x.Against > 0 {
			row.Against = signed(x.Against)
		}
		if x.Low > 0 && x.High > 0 {
			row.Interval = signed(x.Low) + " to " + signed(x.High)
			switch {
			case out.Differ && x.Low > 1:
				row.Class, row.Sign = "more", "▲"
			case out.Differ && x.High < 1:
				row.Class, row.Sign = "less", "▼"
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// notes are the warnings of the fleet and, each once, those of its cells.
func (p *Pages) notes() (out []note) {
	seen := map[note]bool{}
	add := func(n note) {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	for _, w := range p.report.Warnings {
		add(note{proc.Line(w.Text), proc.Line(w.Remedy)})
	}
	for _, c := range p.cells {
		if c.Why != "" {
			add(note{proc.Line(what(&c.Key) + ": " + c.Why), ""})
		}
		for _, w := range c.Warnings {
			text := what(&c.Key) + ": " + w.Text
			if w.Code == "few-hosts" {
				text = w.Text
			}
			add(note{proc.Line(text), proc.Line(w.Remedy)})
		}
	}
	return out
}

// steps are the shades of the heat map: from how far on a cost has one.
var steps = []struct {
	from float64
	text string
}{{0.02, "2 %"}, {0.05, "5 %"}, {0.1, "10 %"}, {0.2, "20 %"}, {0.5, "50 %"}}

// shade is the class of a cost in the heat map; "" for one near the middle.
func shade(against float64) string {
	far, side := against-1, "u"
	if against < 1 {
		far, side = 1/against-1, "d"
	}
	n := 0
	for n < len(steps) && far >= steps[n].from {
		n++
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d", side, n)
}

// short writes a cost in the heat map: +12, -3, 0, x4.
func short(against float64) string {
	switch {
	case !(against > 0) || math.IsInf(against, 0):
		return "?"
	case against >= 3:
		return "×" + unit.Number(math.Round(against))
	}
	v := math.Round(100 * (against - 1))
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.0f", v)
}

// mostHeat bounds the fields of the heat map: beyond, a browser takes longer than a reader waits.
const mostHeat = 40_000

// heat is the table of hosts and figures. The host with the worst figure comes first.
func (p *Pages) heat() (table template.HTML, text string) {
	if len(p.cells) == 0 || len(p.hosts) == 0 {
		return "", ""
	}
	type row struct {
		host  string
		worst float64
		sum   float64
	}
	var rows []row
	for _, c := range p.hosts {
		r := row{host: c.Host.Name, worst: math.Inf(-1)}
		for _, x := range p.places[c.Host.Name] {
			if x != nil && x.Against > 0 {
				v := math.Log(x.Against)
				r.worst, r.sum = max(r.worst, v), r.sum+v
			}
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		return cmp.Or(-cmp.Compare(x.worst, y.worst), -cmp.Compare(x.sum, y.sum), cmp.Compare(x.host, y.host))
	})
	if most := max(mostHeat/len(p.cells), 20); len(rows) > most {
		text = fmt.Sprintf("The %d hosts with the highest costs; %d more are on their own pages.", most, len(rows)-most)
		rows = rows[:most]
	}
	escape := template.HTMLEscapeString
	var b strings.Builder
	b.WriteString(`<table class="heat"><thead><tr><th scope="col">host</th>`)
	for _, c := range p.cells {
		fmt.Fprintf(&b, `<th scope="col"><span>%s</span></th>`, escape(proc.Line(what(&c.Key))))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, r := range rows {
		name := escape(proc.Line(r.host))
		if to := p.link(r.host); to != "" {
			name = fmt.Sprintf(`<a href="%s">%s</a>`, escape(to), name)
		}
		fmt.Fprintf(&b, `<tr><th scope="row">%s</th>`, name)
		for _, x := range p.places[r.host] {
			b.WriteString(heatField(x))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>")
	return template.HTML(b.String()), text
}

// heatField has nothing in it but figures and signs.
func heatField(x *place) string {
	if x == nil {
		return `<td class="none">–</td>`
	}
	cls := shade(x.Against)
	if x.Apart {
		_, sign := class(x.Place)
		return fmt.Sprintf(`<td class="%s odd">%s%s</td>`, cls, sign, short(x.Against))
	}
	if cls == "" {
		return "<td>" + short(x.Against) + "</td>"
	}
	return `<td class="` + cls + `">` + short(x.Against) + "</td>"
}
