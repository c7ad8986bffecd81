package rundiff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// unequal lists the groups with different work of the primary cells whose work differs. The figures of that work are
// not compared.
func unequal(from, to *Side, p *Pair) {
	a, b := usable(from.Trials), usable(to.Trials)
	for i := range p.Cells {
		c := &p.Cells[i]
		if !c.Primary || !warned(c.Warnings, unequalWork) {
			continue
		}
		texts := map[string]string{}
		for _, gs := range []*verdict.Grouped{grouped(from.Result, c), grouped(to.Result, c)} {
			for j := 0; gs != nil && j < len(gs.Groups); j++ {
				texts[gs.Groups[j].ID] = cmp.Or(gs.Groups[j].Text, texts[gs.Groups[j].ID])
			}
		}
		for _, target := range []string{c.Baseline, c.Target} {
			k := cellKey{workload: c.Workload, target: target}
			if slices.ContainsFunc(p.Unequal, func(u Unequal) bool {
				return u.Workload == c.Workload && u.Target == target
			}) {
				continue
			}
			u := Unequal{Workload: c.Workload, Target: target, Groups: unequalGroups(a[k], b[k], texts)}
			if len(u.Groups) > 0 {
				u.Differences, u.AllDiffer = differing(a[k], b[k])
				p.Unequal = append(p.Unequal, u)
			}
		}
	}
	for i := range p.Values {
		v := &p.Values[i]
		if slices.ContainsFunc(p.Cells, func(c Cell) bool {
			return c.Workload == v.From.Workload && (warned(c.Warnings, unequalWork) || warned(c.Warnings, otherWork))
		}) {
			v.Cost, v.Low, v.High = 0, 0, 0
		}
	}
}

// unlikeWrites takes the change from figures of writing that cannot be ranked, and says why.
func unlikeWrites(from, to *Side, p *Pair) {
	a, b := usable(from.Trials), usable(to.Trials)
	said := map[cellKey]bool{}
	for i := range p.Values {
		v := &p.Values[i]
		w, ok := from.Plan.Workload(v.From.Workload)
		if !ok {
			continue
		}
		k := cellKey{workload: v.From.Workload, target: v.From.Target}
		why := verdict.UnlikeWrites(w, v.From.Metric, k.target, [2]*verdict.Result{from.Result, to.Result},
			[2][]*record.Trial{slices.Collect(maps.Values(a[k])), slices.Collect(maps.Values(b[k]))})
		if why == "" {
			continue
		}
		v.Cost, v.Low, v.High = 0, 0, 0
		if !said[k] {
			said[k] = true
			p.Warnings = append(p.Warnings, record.Warning{Code: "durability-differs",
				Text:   fmt.Sprintf("%s in %s cannot be ranked between the results: %s", k.workload, k.target, why),
				Remedy: "compare results of targets, and of servers, that flush in the same way"})
		}
	}
}

// unequalGroups lists the groups whose checks differ, by ID.
func unequalGroups(a, b trials, texts map[string]string) (all []UnequalGroup) {
	there := groupChecks(b)
	for k, from := range groupChecks(a) {
		if to, ok := there[k]; ok && !slices.Equal(from, to) {
			all = append(all, UnequalGroup{ID: k.id, Text: texts[k.id], From: strings.Join(from, ", or "),
				To: strings.Join(to, ", or ")})
		}
	}
	slices.SortFunc(all, func(x, y UnequalGroup) int { return cmp.Compare(x.ID, y.ID) })
	return slices.CompactFunc(all, func(x, y UnequalGroup) bool { return x.ID == y.ID })
}

// differing finds executions that returned something else, in the first trial of the second side for which the first
// side has one that did as much.
func differing(a, b trials) ([]verdict.Difference, bool) {
	order := func(x, y blockKey) int {
		return cmp.Or(cmp.Compare(x.session, y.session), cmp.Compare(x.block, y.block))
	}
	first := slices.SortedFunc(maps.Keys(a), order)
	for _, k := range slices.SortedFunc(maps.Keys(b), order) {
		for _, l := range first {
			if found, all := verdict.Differing(b[k], a[l]); len(found) > 0 {
				return found, all
			}
		}
	}
	return nil, false
}

// unequalGrids are the tables of what was not the same.
func unequalGrids(a, b string, all []Unequal, o Options) []grid {
	parts := grid{title: "Parts of the work that gave something else", keys: 3,
		head: []string{"target", "workload", "what", a, b}}
	ones := grid{title: "Executions that returned something else, by their number in the work", keys: 3,
		head: []string{"target", "workload", "number", a, b, "what"}}
	for i := range all {
		u := &all[i]
		texts := map[string]string{record.OtherGroup: "one of all others"}
		for j, g := range u.Groups {
			texts[g.ID] = cmp.Or(g.Text, g.ID)
			if !o.Details && j >= mostGroups {
				if j == mostGroups {
					parts.rows = append(parts.rows, []string{u.Target, u.Workload,
						unit.Plural(int64(len(u.Groups)-mostGroups), "more part") + " (--details)", "", ""})
				}
				continue
			}
			parts.rows = append(parts.rows, []string{u.Target, u.Workload, unit.Cut(texts[g.ID], groupText),
				orNone(g.From), orNone(g.To)})
		}
		for _, d := range u.Differences {
			ones.rows = append(ones.rows, []string{u.Target, u.Workload, strconv.FormatUint(d.Number, 10),
				d.Base.String(), d.Candidate.String(), unit.Cut(cmp.Or(texts[d.Group], d.Group), groupText)})
		}
	}
	return slices.DeleteFunc([]grid{parts, ones}, func(g grid) bool { return len(g.rows) == 0 })
}
