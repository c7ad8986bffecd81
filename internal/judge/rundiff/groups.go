package rundiff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// groups compares the groups of each cell that was compared, those with the largest change first. They are a family for
// each cell, as within a run.
func groups(from, to *Side, cells []Cell) []Group {
	precision := max(from.Plan.Precision, to.Plan.Precision)
	var out []Group
	for i := range cells {
		c := &cells[i]
		a, b := grouped(from.Result, c), grouped(to.Result, c)
		if !c.Primary || c.Level == 0 || a == nil || b == nil {
			continue
		}
		there := map[string]*verdict.Group{}
		for j := range b.Groups {
			there[b.Groups[j].ID] = &b.Groups[j]
		}
		var decisions []*decision
		first := len(out)
		for j := range a.Groups {
			x, y := &a.Groups[j], there[a.Groups[j].ID]
			if y == nil || x.Level == 0 || y.Level == 0 {
				continue
			}
			d := decide(inputOf(x.Ratio, x.NullSpread, x.SameMargin, from.Result),
				inputOf(y.Ratio, y.NullSpread, y.SameMargin, to.Result), precision)
			decisions = append(decisions, &d)
			out = append(out, Group{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, ID: x.ID,
				Text: cmp.Or(x.Text, y.Text), From: x.Ratio, To: y.Ratio, Margin: d.margin, SameMargin: d.same})
		}
		confirm(decisions, len(decisions), false, precision)
		for j, d := range decisions {
			out[first+j].Ratio = d.Ratio
		}
		slices.SortStableFunc(out[first:], func(x, y Group) int {
			return cmp.Compare(math.Abs(math.Log(y.Center)), math.Abs(math.Log(x.Center)))
		})
	}
	return out
}

func grouped(r *verdict.Result, c *Cell) *verdict.Grouped {
	for i := range r.Groups {
		if g := &r.Groups[i]; g.Workload == c.Workload && g.Target == c.Target {
			return g
		}
	}
	return nil
}

// mostGroups bounds the changed groups of a workload in a target that a table has; the details have all groups.
const mostGroups = 10

// groupText bounds a group's text in a table, in characters.
const groupText = 40

// groupGrid is the table of the groups that changed for certain, or with the details of all.
func groupGrid(a, b string, groups []Group, o Options) grid {
	g := grid{title: "Parts of the work whose ratio changed", keys: 3,
		head: []string{"target", "workload", "what", a, b, "", "change", ""}}
	if o.Details {
		g.title = "Parts of the work, and how their ratios changed"
	}
	changed := 0
	for i := range groups {
		x := &groups[i]
		if o.Details || x.Verdict == record.Different {
			if changed++; o.Details || changed <= mostGroups {
				g.rows = append(g.rows, []string{x.Target, x.Workload, unit.Cut(cmp.Or(x.Text, x.ID), groupText),
					ratio(x.From), ratio(x.To), glyph(&x.Ratio, o.ASCII), ratio(x.Ratio), string(x.Verdict)})
			}
		}
		if i+1 < len(groups) && groups[i+1].Target == x.Target && groups[i+1].Workload == x.Workload {
			continue
		}
		if more := changed - mostGroups; more > 0 && !o.Details {
			g.rows = append(g.rows, []string{x.Target, x.Workload, fmt.Sprintf("and %d more (--details)", more),
				"", "", "", "", ""})
		}
		changed = 0
	}
	return g
}
