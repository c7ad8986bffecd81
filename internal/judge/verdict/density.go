package verdict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// Density has the pace of each copy and of all, by the number of copies of an environment that do the same work at
// once.
type Density struct {
	Environment string  `json:"environment"` // its name
	Workload    string  `json:"workload"`    // label
	Metric      string  `json:"metric"`      // that decides
	Floor       float64 `json:"floor"`       // the share of what one does alone that each copy is to keep, (0, 1]
	// Keeps is the greatest number of copies of which it is shown that they keep the floor, as all smaller numbers do;
	// 0 if not even one copy was measured. Breaks is the smallest of which it is shown that they do not; 0 if there is
	// none.
	Keeps  int `json:"keeps"`
	Breaks int `json:"breaks,omitempty"`
	// Steps are one copy alone, and the other numbers of copies, ascending.
	Steps []DensityStep `json:"steps"`
	Text  string        `json:"text"` // what is shown of the floor, a sentence
}

// DensityStep is so many copies at once, compared with one in the same blocks. Figures are 0 where there are none.
type DensityStep struct {
	Copies int    `json:"copies"`
	Target string `json:"target"` // as in the cells
	// Share is the mean pace of a copy as a share of the pace of one alone: the inverse of the cell's ratio.
	Share  float64 `json:"share"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	Blocks int     `json:"blocks"`
	// Throughput is the pace of all copies together as a multiple of the pace of one alone: Copies times Share, and so
	// is its interval.
	Throughput float64        `json:"throughput"`
	Verdict    record.Verdict `json:"verdict,omitempty"` // of the cell; empty for one copy
	// Slowest is the pace of the slowest copy as a share of the pace of one alone, the median over the blocks.
	Slowest float64 `json:"slowest"`
	// TailMetric is the first tail latency of the work, and Tail its centre, in TailUnit: the mean of the copies'. Its
	// ratio to that of one alone, with the interval, is that of the cell.
	TailMetric string  `json:"tail_metric,omitempty"`
	TailUnit   string  `json:"tail_unit,omitempty"`
	Tail       float64 `json:"tail,omitempty"`
	TailRatio  float64 `json:"tail_ratio,omitempty"`
	TailLow    float64 `json:"tail_low,omitempty"`
	TailHigh   float64 `json:"tail_high,omitempty"`
	// Resident and Proportional are the memory of a copy's processes on the controller's machine when all is prepared
	// and the work has not begun, in bytes: medians over copies and trials; 0 where that is not known.
	Resident     int64 `json:"resident_bytes,omitempty"`
	Proportional int64 `json:"proportional_bytes,omitempty"`
	// Covered is the least share of a trial in which all copies were at work.
	Covered float64 `json:"covered"`
	// State is one of the words below.
	State string `json:"state"`
	Why   string `json:"why,omitempty"` // there is no figure
}

// The states of a step.
const (
	KeepsFloor  = "keeps"     // the whole interval is at the floor or above
	BreaksFloor = "breaks"    // the whole interval is below the floor
	OpenFloor   = "open"      // the interval holds the floor, or there is no interval
	NotTried    = "not-tried" // fewer copies were far below the floor
	NotOpen     = "not-open"  // so many copies did not open
	NoFigure    = "no-figure" // Why has the reason
)

// kindBelowFloor is the failure that marks a step that was not tried.
const kindBelowFloor = "below-floor"

// notTried tells whether the copies of a target were not tried in a workload, because fewer were far below the floor.
func (x *index) notTried(workload, target string) *record.Failure {
	s := x.of(workload, target, "")
	if len(s.used) > 0 {
		return nil
	}
	for _, t := range s.failed {
		if t.Error.Kind == kindBelowFloor {
			return t.Error
		}
	}
	return nil
}

// density tells of each environment with copies, and each workload in it.
func (cm *cellMaker) density() (out []Density) {
	c := cm.plan.Copies
	if c == nil {
		return nil
	}
	for _, name := range c.Targets {
		for i := range cm.plan.Workloads {
			w := &cm.plan.Workloads[i]
			kind, ok := cm.kinds(w.Kind)
			if !ok || !w.On(name) && cm.plan.Base(w) != name {
				continue
			}
			primary, metrics := kind.Primary(w.Params), kind.MetricsFor(w.Params)
			d := Density{Environment: name, Workload: w.Label, Metric: primary.Name, Floor: c.Floor}
			tail := slices.IndexFunc(metrics, func(m unit.Metric) bool { return m.Tail && m.Name != primary.Name })
			one := DensityStep{Copies: 1, Target: name}
			if cm.alone(&one, w.Label); tail >= 0 {
				cm.tailAlone(&one, w.Label, metrics[tail])
			}
			d.Steps = append(d.Steps, one)
			for j := range cm.plan.Targets {
				e := &cm.plan.Targets[j]
				if e.Like != name || e.Copies == 0 {
					continue
				}
				s := DensityStep{Copies: e.Copies, Target: e.Name}
				cm.step(&s, w.Label, primary, c.Floor)
				if tail >= 0 {
					cm.tail(&s, w.Label, metrics[tail].Name)
				}
				d.Steps = append(d.Steps, s)
			}
			d.reach()
			d.Text = d.sentence()
			out = append(out, d)
		}
	}
	return out
}

// reach fills in Keeps and Breaks.
func (d *Density) reach() {
	unbroken := true
	for i := range d.Steps {
		s := &d.Steps[i]
		if unbroken = unbroken && s.State == KeepsFloor; unbroken {
			d.Keeps = s.Copies
		}
		if s.State == BreaksFloor && d.Breaks == 0 {
			d.Breaks = s.Copies
		}
	}
}

// sentence has the numbers of copies that are shown to keep the floor, or not to.
func (d *Density) sentence() string {
	var open []string
	for i := range d.Steps {
		if s := &d.Steps[i]; s.State == OpenFloor && s.Copies > d.Keeps && (d.Breaks == 0 || s.Copies < d.Breaks) {
			open = append(open, strconv.Itoa(s.Copies))
		}
	}
	alone := fmt.Sprintf("%.4g %% of what one does alone", 100*d.Floor)
	text := ""
	switch {
	case d.Keeps == 0:
		return "Nothing is known of the floor: one copy alone was not measured."
	case d.Keeps == 1 && d.Breaks == 0:
		text = "For no number of copies is it shown whether each keeps " + alone
	case d.Keeps == 1:
		text = fmt.Sprintf("With %d copies each does less than %s", d.Breaks, alone)
	case d.Breaks == 0:
		text = fmt.Sprintf("Up to %d copies each keep %s, and no larger number is shown to keep less", d.Keeps,
			alone)
	default:
		text = fmt.Sprintf("Up to %d copies each keep %s; with %d they do not", d.Keeps, alone, d.Breaks)
	}
	if len(open) > 0 {
		text += "; open: " + strings.Join(open, ", ")
	}
	return text + "."
}

// alone is the single copy, with which the others are compared.
func (cm *cellMaker) alone(s *DensityStep, workload string) {
	of := cm.index.of(workload, s.Target, "")
	s.State, s.Blocks = NoFigure, len(of.used)
	if len(of.used) == 0 {
		s.Why = "it was not measured"
		if f := cm.opened.openFailure(s.Target); f != nil {
			s.State, s.Why = NotOpen, f.Message
		}
		return
	}
	s.State, s.Share, s.Throughput, s.Slowest, s.Covered = KeepsFloor, 1, 1, 1, 1
	s.memory(of, of.keys)
}

// step is a number of copies.
func (cm *cellMaker) step(s *DensityStep, workload string, primary unit.Metric, floor float64) {
	if f := cm.index.notTried(workload, s.Target); f != nil {
		s.State, s.Why = NotTried, f.Message
		return
	}
	c := cm.cell(workload, s.Target, primary.Name)
	switch {
	case c == nil:
		s.State, s.Why = NoFigure, "it was not measured"
		return
	case !(c.Ratio.Center > 0):
		s.State, s.Verdict, s.Why = NoFigure, c.Verdict, "it was not measured"
		if c.Failure != nil {
			s.Why = c.Failure.Message
		} else if len(c.Warnings) > 0 {
			s.Why = c.Warnings[0].Text
		}
		if cm.opened.openFailure(s.Target) != nil && len(c.candidate.used) == 0 {
			s.State = NotOpen
		}
		return
	}
	s.Verdict, s.Blocks, s.Level = c.Verdict, c.Ratio.Blocks, c.Level
	s.Share = finite(1 / c.Ratio.Center)
	if s.State = OpenFloor; c.Level > 0 {
		s.Low, s.High = finite(1/c.High), finite(1/c.Low)
		switch {
		case c.withheld:
		case s.Low >= floor:
			s.State = KeepsFloor
		case s.High < floor:
			s.State = BreaksFloor
		}
	}
	s.Throughput = float64(s.Copies) * s.Share
	s.slowest(c, primary)
	s.memory(c.candidate, c.keys)
}

// cell is the builder of a cell; nil if there is none.
func (cm *cellMaker) cell(workload, target, metric string) *cellBuilder {
	for _, c := range cm.cells {
		if c.Workload == workload && c.Target == target && c.Metric == metric {
			return c
		}
	}
	return nil
}

// slowest looks for the slowest copy of each trial, and for the trial of which the least was covered.
func (s *DensityStep) slowest(c *cellBuilder, m unit.Metric) {
	var shares []float64
	for i, k := range c.keys {
		t := c.candidate.used[k]
		if t.Copies == nil {
			continue
		}
		if i == 0 || t.Copies.Covered < s.Covered {
			s.Covered = t.Copies.Covered
		}
		worst := 0.0
		for _, one := range t.Copies.Each {
			worst = max(worst, m.Cost(one.Metrics[m.Name]))
		}
		if base := m.Cost(c.baseline.used[k].Metrics[m.Name]); worst > 0 && base > 0 && !math.IsInf(worst, 0) {
			shares = append(shares, base/worst)
		}
	}
	s.Slowest = finite(stats.Median(shares))
}

// memory is that of a copy in some trials.
func (s *DensityStep) memory(of *series, keys []blockKey) {
	var resident, proportional []float64
	for _, k := range keys {
		if of.used[k].Copies == nil {
			continue
		}
		for _, one := range of.used[k].Copies.Each {
			if one.Resident > 0 {
				resident = append(resident, float64(one.Resident))
			}
			if one.Proportional > 0 {
				proportional = append(proportional, float64(one.Proportional))
			}
		}
	}
	s.Resident, s.Proportional = int64(finite(stats.Median(resident))), int64(finite(stats.Median(proportional)))
}

// tail is the tail latency of a step.
func (cm *cellMaker) tail(s *DensityStep, workload, metric string) {
	c := cm.cell(workload, s.Target, metric)
	if c == nil || !(c.Ratio.Center > 0) {
		return
	}
	s.TailMetric, s.TailUnit, s.Tail, s.TailRatio = metric, c.Unit, c.Center, c.Ratio.Center
	if c.Level > 0 {
		s.TailLow, s.TailHigh = c.Low, c.High
	}
}

// tailAlone is that of a single copy.
func (cm *cellMaker) tailAlone(s *DensityStep, workload string, m unit.Metric) {
	of := cm.index.of(workload, s.Target, "")
	var all []float64
	for _, k := range of.keys {
		if v, ok := of.used[k].Metrics[m.Name]; ok {
			all = append(all, v)
		}
	}
	if len(all) > 0 {
		s.TailMetric, s.TailUnit, s.Tail, s.TailRatio = m.Name, m.Unit, finite(stats.Median(all)), 1
	}
}
