package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/plan"
	"tare/internal/stats"
)

// fewestTargets is the number of targets below which no order of them can be significant: 1/4! is 0.04 for one workload
// alone, and there is never only one.
const fewestTargets = 5

// correlation is the rank correlation of the costs of one workload with those of a build, over the targets.
type correlation struct {
	workload string
	rho, p   float64 // p is adjusted (Holm) for all workloads tried beside the same build
}

// prediction is the correlations of all file workloads with one build, over some targets.
type prediction struct {
	build   string
	where   string // "over 9 targets in vm"
	targets []string
	list    []correlation
}

func isBuild(w *plan.Workload) bool {
	return is(w).Build || is(w).Command &&
		(buildCommand().MatchString(w.Params["command"]) || buildLabel().MatchString(w.Label))
}

func isFileWork(w *plan.Workload) bool { return is(w).Files && !isBuild(w) }

// predictions asks of every build whether a file workload orders the targets as it does. Folders of one environment are
// compared with each other where there are enough of them, because across environments the CPU orders the builds as
// well.
func (e *finder) predictions(r *Result) []prediction {
	costs := e.costByTarget()
	var out []prediction
	for i := range e.Plan.Workloads {
		build := &e.Plan.Workloads[i]
		if !isBuild(build) {
			continue
		}
		for _, g := range groups(r, costs[build.Label]) {
			p := prediction{build: build.Label, where: g.where, targets: g.targets}
			for j := range e.Plan.Workloads {
				w := &e.Plan.Workloads[j]
				if !isFileWork(w) {
					continue
				}
				if c, ok := correlate(costs[w.Label], costs[build.Label], g.targets); ok {
					c.workload = w.Label
					p.list = append(p.list, c)
				}
			}
			if len(p.list) > 0 {
				p.adjust()
				out = append(out, p)
			}
		}
	}
	return out
}

// correlate needs the figures of both workloads in every target of the group: another choice of targets for each
// workload would compare workloads by different tests.
func correlate(cost, build map[string]float64, targets []string) (c correlation, ok bool) {
	var x, y []float64
	for _, t := range targets {
		if cost[t] > 0 && build[t] > 0 {
			x, y = append(x, cost[t]), append(y, build[t])
		}
	}
	if len(x) < len(targets) {
		return c, false
	}
	c.rho, c.p = rankCorrelation(x, y)
	return c, !math.IsNaN(c.rho)
}

func (p *prediction) adjust() {
	raw := make([]float64, len(p.list))
	for i := range p.list {
		raw[i] = p.list[i].p
	}
	for i, v := range stats.Holm(raw, len(raw)) {
		p.list[i].p = v
	}
	slices.SortStableFunc(p.list, func(a, b correlation) int { return cmp.Compare(b.rho, a.rho) })
}

// costByTarget is the median cost of each workload's deciding metric in each target that has one.
func (e *finder) costByTarget() map[string]map[string]float64 {
	out := map[string]map[string]float64{}
	for _, c := range e.cells {
		if !c.Primary || c.incomparable && hasCode(c.Warnings, "unequal-work") {
			continue
		}
		if out[c.Workload] == nil {
			out[c.Workload] = map[string]float64{}
		}
		for target, center := range map[string]float64{c.Target: c.Center, c.Baseline: c.BaselineCenter} {
			if cost := c.metric.Cost(center); cost > 0 {
				if _, known := out[c.Workload][target]; !known {
					out[c.Workload][target] = cost
				}
			}
		}
	}
	return out
}

type group struct {
	where   string
	targets []string
}

// groups lists the environments with figures in enough targets; where there are none, all targets are one group.
func groups(r *Result, cost map[string]float64) []group {
	var out []group
	var all []string
	in := map[string][]string{}
	for i := range r.Targets {
		t := &r.Targets[i]
		if !(cost[t.Name] > 0) || t.Like != "" {
			continue
		}
		all = append(all, t.Name)
		root := t.Place()
		in[root] = append(in[root], t.Name)
	}
	for i := range r.Targets {
		if members := in[r.Targets[i].Name]; !r.Targets[i].IsMount() && len(members) >= fewestTargets {
			out = append(out, group{fmt.Sprintf("over %d targets in %s", len(members), r.Targets[i].Name), members})
		}
	}
	if len(out) == 0 && len(all) >= fewestTargets {
		out = append(out, group{fmt.Sprintf("over %d targets", len(all)), all})
	}
	return out
}

// The bounds of what is said of a correlation: it predicts when it is sure and strong, and it does not when it is weak.
// In between nothing is claimed.
const (
	predictsP   = 0.05
	predictsRho = 0.7
	failsRho    = 0.5
)

func (c correlation) predicts() bool { return c.p <= predictsP && c.rho >= predictsRho }
func (c correlation) fails() bool    { return c.rho < failsRho && c.p > predictsP }

func predictsFindings(e *finder, r *Result) []Finding {
	return e.predictionFindings(r, correlation.predicts, "ranks the targets as %s does %s: %s",
		"to choose a folder for building, measuring that workload is enough; the ratio of a build is smaller, "+
			"because a build also computes")
}

func failsToPredictFindings(e *finder, r *Result) []Finding {
	return e.predictionFindings(r, correlation.fails, "does not rank the targets as %s does %s: %s",
		"do not choose a folder for building by these figures: measure the build itself")
}

func (e *finder) predictionFindings(r *Result, which func(correlation) bool, format, remedy string) []Finding {
	const most = 3
	var out []Finding
	for _, p := range e.predictions(r) {
		f := Finding{Targets: p.targets, Workloads: []string{p.build}, Remedy: remedy}
		var figures []string
		for _, c := range p.list {
			if which(c) {
				addWorkload(&f, c.workload)
				figures = append(figures, fmt.Sprintf("%s %.2f (p %.2g)", c.workload, c.rho, c.p))
			}
		}
		if len(figures) == 0 {
			continue
		}
		shown := strings.Join(figures[:min(most, len(figures))], ", ")
		if more := len(figures) - most; more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		f.Text = fmt.Sprintf("%s "+format, few(f.Workloads[1:]), p.build, p.where, "Spearman's rank correlation "+shown)
		if n := len(p.list); n > 1 {
			f.Text += fmt.Sprintf(", adjusted for the %d workloads tried", n)
		}
		out = append(out, f)
	}
	return out
}
