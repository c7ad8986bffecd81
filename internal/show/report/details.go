package report

import (
	"cmp"
	"fmt"
	"strings"

	"tare/internal/unit"
)

// details describes the targets and lists every warning of every cell, each text once.
func (t *terminal) details() {
	t.line("")
	for i := range t.Targets {
		x := &t.Targets[i]
		if x.Like != "" {
			continue // it is another one of these
		}
		f := &x.Inside
		parts := []string{clean(x.Spec)}
		for _, s := range []string{f.Distro, f.Kernel, f.Arch, f.CPU, f.Hypervisor, f.WorkFS} {
			if s != "" {
				parts = append(parts, clean(s))
			}
		}
		if f.Threads > 0 {
			parts = append(parts, unit.Plural(f.Threads, "CPU"))
		}
		if f.MemoryBytes > 0 {
			parts = append(parts, unit.Format(float64(f.MemoryBytes), "B"))
		}
		if x.OpenS > 0 {
			parts = append(parts, "opened in "+durationText(x.OpenS))
		}
		if x.Emulated {
			parts = append(parts, "emulated CPU")
		}
		if m := x.Mount; m != nil {
			parts = append(parts, joinKnown(" ", m.Kind, "at", m.Dir, "in", x.Of)+": "+
				joinKnown(", ", m.Type, m.Options, m.Server))
		}
		t.para(clean(x.Name)+": ", strings.Join(parts, "; "))
	}
	t.card()
	t.durability()
	t.costs()
	t.line("")
	type key struct{ text, remedy string }
	seen := map[key]bool{}
	for i := range t.Cells {
		c := &t.Cells[i]
		for _, w := range c.Warnings {
			k := key{w.Text, w.Remedy}
			if seen[k] {
				continue
			}
			seen[k] = true
			of := clean(c.Workload)
			if !c.Primary { // or else two warnings of one kind contradict each other
				of += " " + clean(c.Metric)
			}
			text := fmt.Sprintf("%s %s: %s", clean(c.Target), of, clean(w.Text))
			if w.Remedy != "" {
				text += "; " + clean(w.Remedy)
			}
			t.para("* ", text)
		}
	}
}

// card lays the semantics cards side by side: a line for each property that was tried anywhere.
func (t *terminal) card() {
	var head []string
	var order []string
	answers := map[string][]string{}
	title := map[string]string{}
	for i := range t.Targets {
		if x := &t.Targets[i]; len(x.Card) > 0 {
			head = append(head, clean(x.Name))
		}
	}
	col := 0
	for i := range t.Targets {
		x := &t.Targets[i]
		for j := range x.Card {
			p := &x.Card[j]
			if answers[p.Name] == nil {
				order = append(order, p.Name)
				answers[p.Name] = make([]string, len(head))
				title[p.Name] = clean(cmp.Or(p.Title, p.Name))
			}
			answers[p.Name][col] = clean(p.Answer)
			if p.Rating == "bad" {
				answers[p.Name][col] += " !"
			}
		}
		if len(x.Card) > 0 {
			col++
		}
	}
	if len(order) == 0 {
		return
	}
	rows := [][]string{append([]string{"how files behave (! marks what causes trouble for developers)"}, head...)}
	for _, name := range order {
		rows = append(rows, append([]string{title[name]}, answers[name]...))
	}
	t.line("")
	t.plain(rows)
}

func (t *terminal) durability() {
	first := true
	for i := range t.Targets {
		d := t.Targets[i].Durability
		if d == nil {
			continue
		}
		if first {
			t.line("")
			t.line("what is known of a flush")
			first = false
		}
		t.para("  "+clean(t.Targets[i].Name)+": ", durabilityText(d))
	}
}

// costs tells the fitted cost of a call, by workload and then by target.
func (t *terminal) costs() {
	label := ""
	for i := range t.Costs {
		c := &t.Costs[i]
		if i == 0 || c.Label != label {
			label = c.Label
			t.line("")
			t.para("", "what a call costs in "+clean(c.Label))
		}
		text := clean(c.Text)
		if c.Error > 0 {
			text += fmt.Sprintf(" (fits within %s)", percentText(c.Error))
		}
		t.para("  "+clean(c.Target)+": ", text)
	}
}

// plain lays out a table of texts whose first column names the rows. Columns that do not fit stand below in another
// table; a name that is too long is wrapped.
func (t *terminal) plain(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, s := range r {
			widths[i] = max(widths[i], width(s))
		}
	}
	widths[0] = min(widths[0], max(10, t.width/2))
	for from := 1; from < len(widths); {
		to, wide := from, widths[0]
		for to < len(widths) && (to == from || wide+2+widths[to] <= t.width) {
			wide += 2 + widths[to]
			to++
		}
		if from > 1 {
			t.line("")
		}
		for _, r := range rows {
			for n, l := range wrap("", r[0], widths[0]) {
				if n == 0 {
					l = padRight(l, widths[0])
					for i := from; i < to; i++ {
						l += "  " + padRight(headOf(r[i]+" ", max(1, t.width-widths[0]-2)), widths[i])
					}
				}
				t.line("%s", l)
			}
		}
		from = to
	}
}
