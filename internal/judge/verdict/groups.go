package verdict

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// leastExecutions is the least number of executions of a group in each trial for its median to be used.
const leastExecutions = 15

// Grouped compares the groups that the trials of a workload tell apart, such as statements with the same fingerprint,
// in one candidate.
type Grouped struct {
	Workload string `json:"workload"` // label
	Target   string `json:"target"`
	Baseline string `json:"baseline"`
	Blocks   int    `json:"blocks"` // pairs of trials
	// Seconds is the total time of the executions of a trial of the baseline. ExtraSeconds is the additional time of
	// the same executions in the candidate; below 0 they took less time. Both are sums over the groups of a group's
	// median over the blocks, so that one block that was stalled has no say in it.
	Seconds      float64 `json:"seconds"`
	ExtraSeconds float64 `json:"extra_seconds"`
	Groups       []Group `json:"groups"` // those that explain most of the difference first
	// Differences are the first executions that returned something else in one of the blocks, by number. If AllDiffer
	// is not set, there are others, and among these may be earlier ones.
	Differences []Difference `json:"differences,omitempty"`
	AllDiffer   bool         `json:"all_differ,omitempty"`
}

// Group is one group in a candidate, against the baseline. Ratio is that of the median times of an execution. Without
// enough executions there is none, and after unequal work neither.
type Group struct {
	ID   string `json:"id"`
	Text string `json:"text"`
	record.Ratio
	Margin       float64      `json:"margin"`      // as in Cell
	SameMargin   float64      `json:"same_margin"` // as in Cell
	NullSpread   float64      `json:"null_spread"` // as in Cell
	ExtraSeconds float64      `json:"extra_seconds"`
	Share        float64      `json:"share"` // of the ExtraSeconds of all groups, each counted as positive; -1 to 1
	Candidate    GroupFigures `json:"candidate"`
	Base         GroupFigures `json:"base"`
}

// NotConfirmed tells whether the group's interval lies beyond the margin and its family stands in the way of a verdict.
func (g *Group) NotConfirmed() bool {
	return (g.Verdict == record.Inconclusive || g.Verdict == record.Measured) && g.Level > 0 &&
		(g.Low > 1+g.Margin || g.High < 1/(1+g.Margin))
}

func (gs *Grouped) notConfirmed() bool {
	return slices.ContainsFunc(gs.Groups, func(g Group) bool { return g.NotConfirmed() })
}

// GroupFigures are medians over the trials of one side.
type GroupFigures struct {
	Count   float64 `json:"count"` // executions
	Errors  float64 `json:"errors"`
	Rows    float64 `json:"rows"`
	Seconds float64 `json:"seconds"` // sum of the executions' times
	P50     float64 `json:"p50"`     // s
	P99     float64 `json:"p99"`     // s
}

// groupsByID lists a trial's groups, as many as a trial may tell apart.
func groupsByID(t *record.Trial) map[string]*record.Group {
	out := make(map[string]*record.Group, len(t.Groups))
	for i := range t.Groups[:min(len(t.Groups), record.MaxGroups+1)] {
		out[t.Groups[i].ID] = &t.Groups[i]
	}
	return out
}

// addTexts keeps the texts of a trial's groups, which only few of a workload's trials have.
func (x *index) addTexts(t *record.Trial) {
	for _, g := range t.Groups[:min(len(t.Groups), record.MaxGroups+1)] {
		if g.Text == "" {
			continue
		}
		if x.texts[t.Workload] == nil {
			x.texts[t.Workload] = map[string]string{}
		}
		x.texts[t.Workload][g.ID] = g.Text
	}
}

// group returns a group's figures in a block. Its times are on the controller's clock where c is wrong.
func (s *series) group(k blockKey, id string, c clock) (record.Group, bool) {
	g := s.groups[k][id]
	if g == nil {
		return record.Group{}, false
	}
	out, f := *g, c.correction(s.used[k])
	out.Seconds, out.P50, out.P99 = out.Seconds*f, out.P50*f, out.P99*f
	return out, true
}

// grouped compares the groups of each workload in each candidate, which a baseline that is alone is not.
func (cm *cellMaker) grouped() []Grouped {
	var out []Grouped
	for _, c := range cm.cells {
		if !c.Primary || c.Target == c.Baseline {
			continue
		}
		blocks := slices.DeleteFunc(slices.Clone(c.keys), func(k blockKey) bool {
			return len(c.candidate.groups[k]) == 0 || len(c.baseline.groups[k]) == 0
		})
		if len(blocks) > 0 {
			out = append(out, cm.compareGroups(c, blocks))
		}
	}
	return out
}

// compareGroups compares in the given blocks, of which there is at least one.
func (cm *cellMaker) compareGroups(c *cellBuilder, blocks []blockKey) Grouped {
	ids := slices.Sorted(maps.Keys(c.baseline.groups[blocks[0]]))
	unequal := unequalGroups(c)
	out := Grouped{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, Blocks: len(blocks),
		Groups: make([]Group, len(ids))}
	decisions := map[*Group]*stats.Decision{}
	var family []*stats.Decision
	for i, id := range ids {
		p := pairGroup(c.candidate, c.baseline, c.candClock, c.baseClock, id, blocks)
		g := &out.Groups[i]
		*g = Group{ID: id, Text: cm.index.texts[c.Workload][id], Ratio: record.Ratio{P: 1, PHolm: 1, Q: 1,
			Verdict: record.Inconclusive}, ExtraSeconds: finite(medianOf(p.extra)),
			Candidate: figuresOf(p.candidate), Base: figuresOf(p.baseline)}
		switch {
		case unequal[id] != nil:
			g.Verdict = record.Withheld
		case len(p.judged) == len(blocks):
			d := cm.decideGroup(c, g, p)
			decisions[g], family = d, append(family, d)
		}
	}
	stats.Explore(family, len(family))
	for g, d := range decisions {
		g.Ratio = cm.ratio(d, c.withheld, c.incomparable && c.UnlikeWrites())
	}
	out.share()
	if len(unequal) > 0 {
		out.Differences, out.AllDiffer = differing(c, blocks)
		cm.index.excerpts(&out)
	}
	return out
}

// decideGroup decides on a group as on a secondary metric, with the null control of the group itself.
func (cm *cellMaker) decideGroup(c *cellBuilder, g *Group, p *groupPairs) *stats.Decision {
	hidden := cm.index.of(c.Workload, c.Baseline, record.NullSlot)
	n := pairGroup(hidden, c.baseline, c.baseClock, c.baseClock, g.ID, c.baseline.keys)
	spread, _ := stats.NullSpread(bySession(n.d, n.judged))
	g.NullSpread, g.SameMargin = finite(spread), finite(cm.plan.Margin)
	g.Margin = finite(stats.Margin(cm.plan.Margin, spread))
	d := stats.Decide(bySession(p.d, p.judged), cm.options(c, g.Margin, cm.plan.Margin))
	return &d
}

// share computes each group's share of the difference, and sorts by that.
func (gs *Grouped) share() {
	all := 0.0
	for i := range gs.Groups {
		g := &gs.Groups[i]
		gs.Seconds = finite(gs.Seconds + g.Base.Seconds)
		gs.ExtraSeconds = finite(gs.ExtraSeconds + g.ExtraSeconds)
		all += math.Abs(g.ExtraSeconds)
	}
	for i := range gs.Groups {
		gs.Groups[i].Share = finite(gs.Groups[i].ExtraSeconds / all)
	}
	slices.SortStableFunc(gs.Groups, func(a, b Group) int {
		return cmp.Compare(math.Abs(b.ExtraSeconds), math.Abs(a.ExtraSeconds))
	})
}

// groupPairs are the figures of one group in the blocks in which both sides have it.
type groupPairs struct {
	candidate, baseline []record.Group
	extra               []float64 // s that the candidate took longer for what the baseline executed
	d                   map[blockKey]float64
	judged              []blockKey // of d: both sides have enough executions
}

func pairGroup(candidate, baseline *series, candClock, baseClock clock, id string, blocks []blockKey) *groupPairs {
	p := &groupPairs{d: make(map[blockKey]float64, len(blocks))}
	for _, k := range blocks {
		a, ok := candidate.group(k, id, candClock)
		b, too := baseline.group(k, id, baseClock)
		if !ok || !too || a.Count <= 0 || b.Count <= 0 {
			continue
		}
		p.candidate, p.baseline = append(p.candidate, a), append(p.baseline, b)
		// With the same work both counts are the same. A slow candidate may have been given less of it.
		p.extra = append(p.extra, a.Seconds/float64(a.Count)*float64(b.Count)-b.Seconds)
		d := math.Log(a.P50) - math.Log(b.P50)
		if min(a.Count, b.Count) >= leastExecutions && !math.IsNaN(d) && !math.IsInf(d, 0) {
			p.d[k] = d
			p.judged = append(p.judged, k)
		}
	}
	return p
}

func figuresOf(list []record.Group) GroupFigures {
	median := func(of func(record.Group) float64) float64 {
		values := make([]float64, len(list))
		for i, g := range list {
			values[i] = of(g)
		}
		return finite(max(0, medianOf(values)))
	}
	return GroupFigures{
		Count:   median(func(g record.Group) float64 { return float64(g.Count) }),
		Errors:  median(func(g record.Group) float64 { return float64(g.Errors) }),
		Rows:    median(func(g record.Group) float64 { return float64(g.Rows) }),
		Seconds: median(func(g record.Group) float64 { return g.Seconds }),
		P50:     median(func(g record.Group) float64 { return g.P50 }),
		P99:     median(func(g record.Group) float64 { return g.P99 }),
	}
}

// unequalGroups finds the groups that did not do the same in the trials of a block, and gives both sides of the first
// such block. Without a check, answers may differ, but not how many executions there were, nor how many of them failed.
// Where no group has a check, as with work that writes, what fails depends on what was done before. Trials of different
// amounts of work are not compared, because all of this is over all executions of a group.
func unequalGroups(c *cellBuilder) map[string]*[2]record.Group {
	out := map[string]*[2]record.Group{}
	for _, k := range c.keys {
		if c.candidate.used[k].Work != c.baseline.used[k].Work {
			continue
		}
		sides := []*series{c.candidate, c.baseline}
		checked := slices.ContainsFunc(sides, func(s *series) bool { return anyCheck(s.groups[k]) })
		for _, s := range sides {
			for id := range s.groups[k] {
				a, _ := c.candidate.group(k, id, clock{})
				b, _ := c.baseline.group(k, id, clock{})
				if (a.Check != b.Check || a.Count != b.Count || checked && a.Errors != b.Errors) && out[id] == nil {
					out[id] = &[2]record.Group{a, b}
				}
			}
		}
	}
	return out
}

func anyCheck(groups map[string]*record.Group) bool {
	for _, g := range groups {
		if g.Check != "" {
			return true
		}
	}
	return false
}

// withholdGroups withholds the verdict where a group's evidence of equal work differs, and names the first such group.
func (wh *withholder) withholdGroups(c *cellBuilder) {
	unequal := unequalGroups(c)
	if len(unequal) == 0 {
		return
	}
	id := slices.Min(slices.Collect(maps.Keys(unequal)))
	name := "group " + id
	if text := wh.texts[c.Workload][id]; text != "" {
		name += " (" + unit.Cut(text, 80) + ")"
	}
	sides := unequal[id]
	counted := sides[0].Count != sides[1].Count
	row := "row"
	for _, t := range c.baseline.used {
		if t.SketchMark == record.MarkStatus {
			row = "byte" // what was compared of the bodies of responses
		}
	}
	a, b := answersText(&sides[0], row, counted), answersText(&sides[1], row, counted)
	if a == b {
		b += ", but not the same ones,"
	}
	others := ""
	if n := len(unequal) - 1; n > 0 {
		others = fmt.Sprintf("; so does the work of %s", unit.Plural(n, "other group"))
	}
	c.incomparable = true
	c.withhold("unequal-work", fmt.Sprintf("the work of %s differs: %s in %s and %s in %s%s", name,
		a, c.Target, b, c.Baseline, others), unequalRemedy)
}

// answersText has the results of a group's executions, and with counted the number of executions.
func answersText(g *record.Group, row string, counted bool) string {
	s := unit.Plural(int(g.Rows), row)
	if g.Errors > 0 {
		s += " and " + unit.Plural(int(g.Errors), "error")
	}
	if counted {
		s += " of " + unit.Plural(int(g.Count), "execution")
	}
	return s
}
