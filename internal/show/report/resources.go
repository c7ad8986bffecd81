package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// resource is a cost of a run beside its time: a metric of the cells, or a counter.
type resource struct {
	title   string // of a column
	text    string // in a sentence: "2.10x the memory"
	metric  string
	counter string
}

var resources = []resource{
	{"user", "CPU time in user code", "user_seconds", ""},
	{"system", "CPU time in the kernel", "system_seconds", ""},
	{"peak memory", "memory", "max_rss_bytes", ""},
	{"faults", "page faults", "page_faults", ""},
	{"energy", "energy of the whole machine", record.Energy, ""},
	{"switches", "context switches", "", verdict.ContextSwitches},
	{"instructions", "instructions", "", verdict.Instructions},
	{"cycles", "processor cycles", "", verdict.Cycles},
}

// resourcePair has a resource of a target and of the first one, with the ratio.
type resourcePair struct {
	base, own        string // figures; "-" where there is none
	ratio, low, high float64
	level            bool // there is an interval
	shown            bool // it is certainly another one
	verdict          string
}

// compare finds it for a target, which may be the baseline.
func (t *terminal) compare(b *resource, by map[[2]string]*verdict.Cell, target string) resourcePair {
	x := resourcePair{base: "-", own: "-"}
	if b.counter != "" {
		t.compareCounter(b, target, &x)
	} else if c := by[[2]string{target, b.metric}]; c != nil {
		x = resourcePair{base: resourceFigure(c.BaselineCenter, c.Unit), own: resourceFigure(c.Center, c.Unit),
			ratio: c.Ratio.Center, low: c.Low, high: c.High, level: c.Level > 0, verdict: verdictText(c),
			shown: c.Verdict == record.Different}
		if c.Verdict == record.Failed || c.Verdict == record.Withheld {
			x.ratio = 0
		}
	}
	if target == t.Run.Baseline {
		x = resourcePair{base: "-", own: "-"}
		for i := range t.Targets {
			if name := t.Targets[i].Name; name != target && x.own == "-" {
				x.own = t.compare(b, by, name).base
			}
		}
	}
	return x
}

func (t *terminal) compareCounter(b *resource, target string, x *resourcePair) {
	for i := range t.Counters {
		k := &t.Counters[i]
		for j := range k.Counts {
			if c := &k.Counts[j]; k.Target == target && c.Name == b.counter {
				x.base, x.own = counterFigure(c, c.Base), counterFigure(c, c.Candidate)
				x.ratio, x.low, x.high, x.level = c.Ratio, c.Low, c.High, c.Ratio > 0
				x.shown = c.Shown && (c.Ratio >= 1+leastCountDiff || c.Ratio <= 1/(1+leastCountDiff))
			}
		}
	}
}

// counterFigure is a counter of one side. Where there is no ratio, 0 is one that was not counted.
func counterFigure(c *verdict.Counter, v float64) string {
	if !(v > 0) && !(c.Ratio > 0) {
		return "-"
	}
	return unit.Format(v, "")
}

// resourceFigure leaves out the unit of a number of faults: the title says it already.
func resourceFigure(v float64, unitName string) string {
	return strings.TrimSuffix(figure(v, unitName), " faults")
}

// resourceTable writes the table of the other resources that a run takes, without columns that nobody measured, and the
// reasons for those. A figure may lack because it was too small for the system's clock: its column stays.
func (t *terminal) resourceTable() {
	by, any := t.byMetric(), false
	rows := [][]string{{""}}
	for i := range t.Targets {
		rows = append(rows, []string{clean(t.Targets[i].Name)})
	}
	for i := range resources {
		known := false
		column := []string{resources[i].title}
		for j := range t.Targets {
			x := t.compare(&resources[i], by, t.Targets[j].Name)
			any = any || x.own != "-"
			known = known || x.own != "-" || by[[2]string{t.Targets[j].Name, resources[i].metric}] != nil
			if x.shown && x.own != "-" {
				x.own += " (" + ratioText(x.ratio) + "x)"
			}
			column = append(column, x.own)
		}
		for j := range column {
			if known {
				rows[j] = append(rows[j], column[j])
			}
		}
	}
	if !any {
		return
	}
	t.line("")
	t.lines(aligned(rows))
	for _, text := range t.unmeasurable() {
		t.para("* ", text)
	}
}

// unmeasurable says which counters are not told, and why: each reason once.
func (t *terminal) unmeasurable() []string {
	var reasons []string
	names := map[string][]string{}
	for i := range t.Counters {
		for _, b := range resources {
			why := t.Counters[i].Unmeasured[b.counter]
			if why == "" || b.counter == "" {
				continue
			}
			if names[why] == nil {
				reasons = append(reasons, why)
			}
			if !slices.Contains(names[why], b.title) {
				names[why] = append(names[why], b.title)
			}
		}
	}
	for i, why := range reasons {
		reasons[i] = fmt.Sprintf("unmeasurable: %s (%s)", listed(names[why]), clean(why))
	}
	return reasons
}

// listed joins words: "a, b and c".
func listed(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// takes lists the resources other than time in which a variant is shown to differ from the first one, the largest
// difference first; "" for none. who begins the sentence.
func (t *terminal) takes(who, target string) string {
	by := t.byMetric()
	shown := map[*resource]float64{}
	for i := range resources {
		if x := t.compare(&resources[i], by, target); x.shown && x.ratio > 0 && target != t.Run.Baseline {
			shown[&resources[i]] = x.ratio
		}
	}
	var texts []string
	for _, b := range slices.SortedFunc(maps.Keys(shown), func(a, b *resource) int {
		return cmp.Or(cmp.Compare(math.Abs(math.Log(shown[b])), math.Abs(math.Log(shown[a]))),
			cmp.Compare(a.text, b.text))
	}) {
		texts = append(texts, ratioText(shown[b])+"x the "+b.text)
	}
	if texts == nil {
		return ""
	}
	return " " + who + " takes " + listed(texts) + "."
}

// resourceDetails has a table for each variant with its resources: both figures, and the ratio with its interval.
func (t *terminal) resourceDetails() {
	by := t.byMetric()
	for i := range t.Targets {
		target := t.Targets[i].Name
		if target == t.Run.Baseline {
			continue
		}
		rows := [][]string{{"for each run", clean(t.Run.Baseline), clean(target), "ratio", ""}}
		for j := range resources {
			x := t.compare(&resources[j], by, target)
			if x.base == "-" && x.own == "-" {
				continue
			}
			ratio, told := "", x.verdict
			if x.ratio > 0 {
				ratio = strings.TrimSpace(ratioText(x.ratio) + " " + bracket(x.low, x.high, x.level))
			}
			if resources[j].counter != "" && x.ratio > 0 {
				told = map[bool]string{true: "shown to differ", false: "not shown to differ"}[x.shown]
			}
			rows = append(rows, []string{resources[j].text, x.base, x.own, ratio, told})
		}
		if len(rows) > 1 {
			t.line("")
			t.lines(aligned(rows))
		}
	}
}
