package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
)

// withholding lists the codes of trial warnings that forbid a verdict whichever side they come from: what was measured
// is not what the plan asked for. The warning itself says what to do.
var withholding = map[string]bool{
	"direct-refused":    true, // O_DIRECT was asked for and not given
	"direct-was-cached": true, // O_DIRECT was accepted and served from the page cache
	"file-fits-cache":   true, // the plan says cold and the file fits a cache
	"client-bound":      true, // the load generator was the limit
}

// withholdingOneSided lists the codes that forbid a verdict when only one of the two sides has them.
var withholdingOneSided = map[string]bool{
	"direct-in-memory": true, // no device behind the file system
}

// sameState lists the states that must agree for two figures to be compared.
var sameState = []struct{ key, what, remedy string }{
	{"direct", "direct I/O", "set direct=false for this workload, or put the work directory of every target on a " +
		"file system that supports direct I/O"},
}

// withholder withholds verdicts.
type withholder struct {
	plan   *plan.Plan
	opened *opened
	texts  map[string]map[string]string // as in index
	shown  map[shownKey]string          // as in index
}

// withholdUnlike withholds the verdict of a cell whose two sides did not do the same thing.
func (wh *withholder) withholdUnlike(c *cellBuilder) {
	wh.withholdLost(c)
	wh.withholdClock(c)
	wh.withholdChecks(c)
	wh.withholdGroups(c)
	wh.withholdDurability(c)
	wh.withholdFlushes(c)
	withholdClient(c)
	for _, s := range sameState {
		a, b := stateValues(c.candidate, s.key), stateValues(c.baseline, s.key)
		if len(a) > 0 && len(b) > 0 && !slices.Equal(a, b) {
			c.withhold("unequal-access", fmt.Sprintf("%s differs: %s has %s, %s has %s", s.what,
				c.Target, strings.Join(a, " and "), c.Baseline, strings.Join(b, " and ")), s.remedy)
		}
	}
	withholdWarnings(c)
	withholdMissing(c)
	withholdQuantile(c)
	withholdLevels(c)
}

// leastLevel is the least ratio between the ratios of two levels.
const leastLevel = 1.25

// withholdLevels withholds the verdict of a cell whose ratio changed in the middle of the run and stayed: there are two
// ratios, and one of all blocks would be of neither. What lies between sessions is in the scope of the verdict.
func withholdLevels(c *cellBuilder) {
	if c.withheld || c.Target == c.Baseline || len(c.judged) == 0 ||
		c.judged[0].session != c.judged[len(c.judged)-1].session {
		return
	}
	var candidate, baseline []float64
	for _, k := range c.judged {
		if c.baseline.used[k] == nil {
			return // it hit its deadline: nobody knows on which level
		}
		y := math.Log(c.baseClock.cost(c.baseline.used[k], c.metric))
		baseline = append(baseline, y)
		candidate = append(candidate, y+c.d[k]) // with the corrections that the ratio has
	}
	l, ok := stats.RatioLevelChange(candidate, baseline, math.Log(leastLevel))
	if !ok {
		return
	}
	c.incomparable = true
	c.withhold("level-changed",
		fmt.Sprintf("the ratio changed during the run and stayed: %s in blocks %d to %d, %s in "+
			"blocks %d to %d", figure(math.Exp(l.Before)), c.judged[0].block, c.judged[l.At-1].block,
			figure(math.Exp(l.After)),
			c.judged[l.At].block, c.judged[len(c.judged)-1].block),
		"find what changed at that time (a limit, the clock of the processor, another program, a full disk), and "+
			"run again; `tare report --details` and the page show each block")
}

func (c *cellBuilder) withhold(code, text, remedy string) {
	c.withheld = true
	c.warn(code, text, remedy)
}

func (wh *withholder) withholdClock(c *cellBuilder) {
	for _, side := range []struct {
		target string
		clock  clock
	}{{c.Target, c.candClock}, {c.Baseline, c.baseClock}} {
		switch {
		case side.clock.wrong && c.metric.Timed:
			c.Warnings = append(c.Warnings, clockWarning(side.target, side.clock))
		case side.clock.wrong:
			c.withheld, c.incomparable = true, true
			c.Warnings = append(c.Warnings, clockWithheld(side.target, side.clock))
		case side.clock.doubtful() > 0:
			c.Warnings = append(c.Warnings, clockDoubt(side.target, side.clock))
		}
	}
}

const unequalRemedy = "make both sides do the same work (same data, same program version) and run again; the " +
	"figures of each side are kept"

// withholdChecks compares the evidence of equal work. Checks that also differ between the trials of one side are no
// better: then the work itself is not repeatable.
func (wh *withholder) withholdChecks(c *cellBuilder) {
	a, b := checkValues(c.candidate), checkValues(c.baseline)
	names := make([]string, 0, len(a)+len(b))
	for n := range a {
		names = append(names, n)
	}
	for n := range b {
		if a[n] == nil {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if len(a[n]) == 1 && slices.Equal(a[n], b[n]) {
			continue
		}
		c.incomparable = true
		c.withhold("unequal-work", fmt.Sprintf("the work differs: %s is %s in %s and %s in %s", n,
			valuesText(a[n]), c.Target, valuesText(b[n]), c.Baseline)+wh.firstDifference(c, n), unequalRemedy)
	}
}

// checkOutput is the check of what a command prints; the warm-up of each target shows the beginning of it.
const checkOutput = "output"

// firstDifference has the place at which the outputs of a cell's two sides begin to differ, in words, as far as both
// are known; "" if they are not, or if the check is about something else.
func (wh *withholder) firstDifference(c *cellBuilder, check string) string {
	a, ok := wh.shown[shownKey{c.Workload, c.Target, 0}]
	b, too := wh.shown[shownKey{c.Workload, c.Baseline, 0}]
	switch {
	case check != checkOutput || !ok || !too:
		return ""
	case a == b:
		return "; both begin alike"
	}
	from, to, at := excerpts(a, b)
	return fmt.Sprintf("; the first difference is in line %d: %q in %s and %q in %s", 1+strings.Count(a[:at], "\n"),
		from, c.Target, to, c.Baseline)
}

// missingCheck stands for a trial without a check that other trials of the cell have.
const missingCheck = "(none)"

// checkValues returns the values seen of each check, sorted. A trial that lacks a check which another one has counts as
// a value of its own.
func checkValues(s *series) map[string][]string {
	seen := map[string]map[string]int{}
	for _, k := range s.keys {
		for name, v := range s.used[k].Checks {
			if seen[name] == nil {
				seen[name] = map[string]int{}
			}
			seen[name][v]++
		}
	}
	out := map[string][]string{}
	for name, values := range seen {
		n := 0
		for v, count := range values {
			out[name] = append(out[name], v)
			n += count
		}
		if n < len(s.keys) {
			out[name] = append(out[name], missingCheck)
		}
		slices.Sort(out[name])
	}
	return out
}

func stateValues(s *series, key string) []string {
	var out []string
	for _, k := range s.keys {
		if v, ok := s.used[k].State[key]; ok && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// valuesText names the values of a check; a check whose value changes with every trial must not fill the page.
func valuesText(v []string) string {
	switch len(v) {
	case 0:
		return "missing"
	case 1, 2, 3:
		return strings.Join(v, " or ")
	}
	return fmt.Sprintf("%s or one of %d others", v[0], len(v)-1)
}

// withholdWarnings carries the trials' own warnings to the cell, each code once for each side, and withholds the
// verdict where one of them forbids it.
func withholdWarnings(c *cellBuilder) {
	cand, base := trialWarnings(c.Target, c.candidate), trialWarnings(c.Baseline, c.baseline)
	for _, list := range [][]record.Warning{cand, base} {
		for _, w := range list {
			one := withholdingOneSided[w.Code] && hasCode(cand, w.Code) != hasCode(base, w.Code)
			if withholding[w.Code] || one {
				c.withheld = true
			}
			c.Warnings = append(c.Warnings, w)
		}
	}
}

func hasCode(list []record.Warning, code string) bool {
	return slices.ContainsFunc(list, func(w record.Warning) bool { return w.Code == code })
}

func trialWarnings(target string, s *series) []record.Warning {
	var out []record.Warning
	count := map[string]int{}
	for _, k := range s.keys {
		said := map[string]bool{}
		for _, w := range s.used[k].Warnings {
			if said[w.Code] {
				continue
			}
			said[w.Code] = true
			if count[w.Code]++; count[w.Code] == 1 {
				out = append(out, w)
			}
		}
	}
	for i := range out {
		out[i].Text = fmt.Sprintf("%s: %s (%d of %d trials)", target, out[i].Text, count[out[i].Code], len(s.keys))
	}
	return out
}
