package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
)

// tables writes the table of the targets as they are alone. Where there are neighbours, the matrix of each target that
// they disturb follows: its workloads below each other, the neighbours side by side. Where there are copies, a table of
// each environment and workload follows: the numbers of copies below each other.
func (t *terminal) tables() {
	if len(t.Neighbours) == 0 && len(t.Density) == 0 {
		t.table()
		return
	}
	whole := t.Model
	t.Model = whole.among(whole.Run.Baseline, func(x *verdict.Target) bool { return x.Like == "" })
	t.table()
	t.Model = whole
	for i := range t.Density {
		t.dense(&t.Density[i])
	}
	var victims []string
	for i := range t.Targets { // of one that did not open a finding tells
		v := t.Targets[i].Name
		if t.Targets[i].Error == nil && slices.ContainsFunc(t.Neighbours, func(n verdict.Neighbour) bool {
			return n.Victim == v
		}) {
			victims = append(victims, v)
		}
	}
	for _, v := range victims {
		t.matrix(v)
	}
}

// among is the part of a model that is about one target and some that are compared with it.
func (m *Model) among(baseline string, keep func(*verdict.Target) bool) *Model {
	r := *m.Result
	r.Run.Baseline = baseline
	r.Targets, r.Cells, r.Families = nil, nil, nil
	kept := map[string]bool{}
	for _, x := range m.Targets {
		if x.Name != baseline && !keep(&x) {
			continue
		}
		if kept[x.Name] = true; x.Against == baseline {
			x.Against = ""
		}
		x.Baseline = x.Name == baseline
		r.Targets = append(r.Targets, x)
	}
	for _, c := range m.Cells {
		if kept[c.Target] && (c.Target != baseline || len(r.Targets) == 1) {
			r.Cells = append(r.Cells, c)
		}
	}
	for _, f := range m.Result.Families {
		if kept[f.Target] {
			r.Families = append(r.Families, f)
		}
	}
	part := NewModel(&r)
	part.Text = m.Text
	return part
}

// matrix writes the cost of the neighbours of one target for each of its workloads, and the pace that they keep.
func (t *terminal) matrix(victim string) {
	part := t.among(victim, func(x *verdict.Target) bool { return x.Like == victim })
	for i := range part.Columns {
		part.Columns[i].Title = part.Columns[i].Target.Beside
	}
	var names, loads []string
	for i := range t.Neighbours {
		n := &t.Neighbours[i]
		if n.Victim != victim || slices.Contains(names, n.Neighbour) {
			continue
		}
		names = append(names, n.Neighbour)
		load := fmt.Sprintf("%s in %s", clean(n.Load), clean(n.In))
		if n.Load != n.Neighbour {
			load = clean(n.Neighbour) + " is " + load
		}
		loads = append(loads, load)
	}
	t.line("")
	t.para("", fmt.Sprintf("%s beside a neighbour, against itself alone: %s.", clean(victim),
		strings.Join(loads, "; ")))
	// A page of its own: the widths are those of these columns, and the legend is one for all.
	sub := &terminal{Model: part, width: t.width, pointed: t.pointed, durable: t.durable, plainTable: true}
	sub.table()
	t.out.Write(sub.out.Bytes())
	for i := range sub.usedSign {
		t.usedSign[i] = t.usedSign[i] || sub.usedSign[i]
	}
	for i := range sub.usedMark {
		t.usedMark[i] = t.usedMark[i] || sub.usedMark[i]
	}
	t.narrow, t.margin = t.narrow || sub.narrow, max(t.margin, sub.margin)
	if text := t.kept(victim, names); text != "" {
		t.para("", text)
	}
}

// kept has the share of its pace alone that each neighbour kept.
func (t *terminal) kept(victim string, names []string) string {
	var texts []string
	for _, name := range names {
		low, high := math.Inf(1), 0.0
		for i := range t.Neighbours {
			if n := &t.Neighbours[i]; n.Victim == victim && n.Neighbour == name && n.Alone > 0 && n.Beside > 0 {
				low, high = min(low, n.Beside/n.Alone), max(high, n.Beside/n.Alone)
			}
		}
		if high == 0 {
			continue
		}
		text := fmt.Sprintf("%s %.0f to %.0f %%", clean(name), 100*low, 100*high)
		if math.Round(100*low) == math.Round(100*high) {
			text = fmt.Sprintf("%s %.0f %%", clean(name), 100*low)
		}
		texts = append(texts, text)
	}
	if texts == nil {
		return ""
	}
	return "What the neighbours themselves did, of what they do alone: " + strings.Join(texts, ", ") + "."
}
