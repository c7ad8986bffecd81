package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/record"
	"tare/internal/sys/energy"
	"tare/internal/unit"
)

// energyMetric is that of the energy for each unit of work, which the controller adds to trials of any kind.
var energyMetric = unit.Metric{Name: record.Energy, Unit: "J", Better: unit.Lower, Sparse: true,
	Doc: "energy that the whole machine used for each unit of work"}

// WithEnergy are the metrics of a kind, and that of energy, which trials may have or not, unless the kind has one of
// that name itself: a command's metrics have the names that its user gives.
func WithEnergy(ms []unit.Metric) []unit.Metric {
	if ownEnergy(ms) {
		return ms
	}
	return append(slices.Clone(ms), energyMetric)
}

func ownEnergy(ms []unit.Metric) bool {
	return slices.ContainsFunc(ms, func(m unit.Metric) bool { return m.Name == record.Energy })
}

// isEnergy tells whether a cell is of the energy that the controller measured.
func (e *finder) isEnergy(c *Cell) bool {
	if c.Metric != record.Energy {
		return false
	}
	k, ok := e.Kinds(c.Kind)
	w, too := e.Plan.Workload(c.Workload)
	return ok && too && !ownEnergy(k.MetricsFor(w.Params))
}

// energyFindings say for each target what its work costs in energy.
func energyFindings(e *finder, r *Result) []Finding {
	by := map[string][]*Cell{}
	for i := range r.Cells {
		if c := &r.Cells[i]; e.isEnergy(c) && c.Target != c.Baseline && c.Ratio.Center > 0 {
			by[c.Target] = append(by[c.Target], c)
		}
	}
	var out []Finding
	for i := range r.Targets {
		cells := by[r.Targets[i].Name]
		if len(cells) == 0 {
			continue
		}
		slices.SortStableFunc(cells, func(a, b *Cell) int {
			return cmp.Compare(math.Abs(math.Log(b.Ratio.Center)), math.Abs(math.Log(a.Ratio.Center)))
		})
		f := Finding{Targets: []string{r.Targets[i].Name},
			Remedy: "the figure is of the whole machine, idle power and other programs included: compare ratios, and " +
				"stop other programs"}
		var texts []string
		for _, c := range cells {
			addWorkload(&f, c.Workload)
			if len(texts) < mostEnergies {
				texts = append(texts, e.energyText(c))
			}
		}
		if n := len(cells) - len(texts); n > 0 {
			texts = append(texts, fmt.Sprintf("and %d more", n))
		}
		f.Text = fmt.Sprintf("energy for each unit of work in %s: %s", r.Targets[i].Name, strings.Join(texts, "; "))
		out = append(out, f)
	}
	return out
}

// mostEnergies bounds the workloads that a sentence about energy names.
const mostEnergies = 3

func (e *finder) energyText(c *Cell) string {
	of := "unit of work"
	if k, ok := e.Kinds(c.Kind); ok && k.WorkUnit != "" {
		of = k.WorkUnit
	}
	interval := ""
	if c.Level > 0 {
		interval = fmt.Sprintf(" [%.2f, %.2f]", c.Low, c.High)
	}
	return fmt.Sprintf("%s %.2fx%s, %s for each %s instead of %s in %s", c.Workload, c.Ratio.Center, interval,
		unit.Format(c.Center, c.Unit), of, unit.Format(c.BaselineCenter, c.Unit), c.Baseline)
}

// lacksTold is the share of a target's trials without energy from which on that is told.
const lacksTold = 0.2

// reasonShown is as much of a reason as tells it from others: what follows may be figures of one trial.
const reasonShown = 20

// noEnergyFindings say once why energy is not known, where it was asked for.
func noEnergyFindings(e *finder, _ *Result) []Finding {
	type count struct {
		lacks, all int
		why        string
	}
	by := map[string]*count{}
	for i := range e.Trials {
		t := &e.Trials[i]
		state := t.State["energy"]
		if t.Error != nil || t.Warmup() || t.Discarded != "" || state == "" {
			continue
		}
		if by[t.Target] == nil {
			by[t.Target] = &count{}
		}
		c := by[t.Target]
		c.all++
		if why, lacks := strings.CutPrefix(state, record.NotMeasured); lacks {
			c.lacks, c.why = c.lacks+1, cmp.Or(c.why, why)
		}
	}
	other := "`--energy meter:COMMAND` reads an external meter"
	if from := e.Plan.Energy; from != nil && from.From == energy.Meter {
		other = "call the meter's command by itself: it must print one number of joules that only grows, such as " +
			"123456.7"
	}
	var out []Finding
	at := map[string]int{}
	for i := range e.Plan.Targets {
		name := e.Plan.Targets[i].Name
		c := by[name]
		if c == nil || float64(c.lacks) < lacksTold*float64(c.all) {
			continue
		}
		what, remedy := "energy is unmeasurable here", other
		if c.lacks < c.all {
			what = fmt.Sprintf("energy is not known of %d of %s in %s", c.lacks, unit.Plural(c.all, "trial"), name)
			remedy = "use longer trials, or a meter that answers sooner"
		}
		key := what + c.why[:min(len(c.why), reasonShown)]
		if n, ok := at[key]; ok {
			out[n].Targets = append(out[n].Targets, name)
			continue
		}
		at[key] = len(out)
		out = append(out, Finding{Targets: []string{name}, Text: what + ": " + c.why, Remedy: remedy})
	}
	return out
}
