package verdict

import (
	"cmp"
	"math"
	"strconv"

	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/stats"
)

// Counters are the counts of the system and the processor for a run of a command, in one target and in the baseline: of
// the processes of the run, without the switches of the worker that waits for them. They are for exploration.
type Counters struct {
	Workload string    `json:"workload"` // label
	Target   string    `json:"target"`
	Baseline string    `json:"baseline"`
	Unit     string    `json:"unit"` // of work: "run"
	Counts   []Counter `json:"counts"`
	// Unmeasured has a reason for each that a side does not tell, with the side's name where the other one tells it.
	Unmeasured map[string]string `json:"unmeasured,omitempty"`
}

// Counter is one of them. Its ratio has an interval at the level of a part of Why; all three are 0 without one.
type Counter struct {
	Name      string  `json:"name"`      // "context_switches", "instructions", "cycles"
	Base      float64 `json:"base"`      // the baseline's for each unit of work, median
	Candidate float64 `json:"candidate"` // the candidate's
	Ratio     float64 `json:"ratio"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
	Shown     bool    `json:"shown"` // the interval excludes 1
}

// The names of counters.
const (
	ContextSwitches = "context_switches"
	Instructions    = "instructions"
	Cycles          = "cycles"
)

// counterSums are the counters, each with the counts of an account that together are it.
var counterSums = []struct {
	name string
	of   []string
}{
	{ContextSwitches, []string{record.SwitchesVoluntary, record.SwitchesInvoluntary}},
	{Instructions, []string{record.InstructionsUser, record.InstructionsKernel}},
	{Cycles, []string{record.CyclesUser, record.CyclesKernel}},
}

// ofCommand tells whether a cell is of a command of the user's, whose runs are processes of their own.
func ofCommand(c *cellBuilder) bool { return all.Named(c.Kind).Is.Command }

// counters compares the counters of commands, where trials have accounts. A cell without a verdict has figures, too,
// but no ratios.
func (cm *cellMaker) counters() []Counters {
	var out []Counters
	for _, c := range cm.cells {
		if c.Primary && ofCommand(c) && c.Target != c.Baseline {
			if k := cm.countersOf(c); len(k.Counts)+len(k.Unmeasured) > 0 {
				out = append(out, k)
			}
		}
	}
	return out
}

func (cm *cellMaker) countersOf(c *cellBuilder) Counters {
	k := Counters{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, Unit: "run", Counts: []Counter{},
		Unmeasured: map[string]string{}}
	if kind, ok := cm.kinds(c.Kind); ok && kind.WorkUnit != "" {
		k.Unit = kind.WorkUnit
	}
	for _, sum := range counterSums {
		base, noBase := countedIn(c.baseline, sum.of)
		cand, noCand := countedIn(c.candidate, sum.of)
		if why := c.untold(noBase, noCand); why != "" {
			k.Unmeasured[sum.name] = why
		}
		if len(base)+len(cand) > 0 {
			k.Counts = append(k.Counts, cm.counter(c, sum.name, base, cand))
		}
	}
	return k
}

// untold returns the reason why a counter is not told of both sides; "" if it is.
func (c *cellBuilder) untold(noBase, noCand string) string {
	switch {
	case noBase == noCand:
		return noBase
	case noBase != "":
		return c.Baseline + ": " + noBase
	}
	return c.Target + ": " + noCand
}

// tally is the count of one trial, and its units of work.
type tally struct{ n, work float64 }

// countedIn has the sum of some counts of each trial that tells all of them. Without such a trial there is a reason, if
// any trial has an account.
func countedIn(s *series, names []string) (by map[blockKey]tally, why string) {
	by = map[blockKey]tally{}
	for _, at := range s.keys {
		t := s.used[at]
		if t.Account == nil || t.Work <= 0 {
			continue
		}
		sum, all := 0.0, true
		for _, name := range names {
			n, ok := t.Account.Counts[name]
			if !ok {
				all = false
				why = cmp.Or(why, t.Account.Unmeasured[name], "it is not in the bundle")
				continue
			}
			sum += math.Max(0, float64(n)-ofWorker(t, name))
		}
		if all {
			by[at] = tally{sum, float64(t.Work)}
		}
	}
	if len(by) > 0 {
		why = ""
	}
	return by, why
}

// ofWorker returns the worker's own part of a count, by the trial's state. The account has that, too, and of a command
// it is only the waiting for its end.
func ofWorker(t *record.Trial, name string) float64 {
	v, err := strconv.ParseInt(t.State[name], 10, 64)
	if err != nil || v < 0 {
		return 0
	}
	return float64(v)
}

// counter compares a counter of both sides, block by block. Half of one is added to what a trial counted, so that none
// has a logarithm as well.
func (cm *cellMaker) counter(c *cellBuilder, name string, base, cand map[blockKey]tally) Counter {
	x := Counter{Name: name, Base: perUnit(base), Candidate: perUnit(cand)}
	if c.withheld || c.incomparable || c.decision == nil {
		return x
	}
	d := map[blockKey]float64{}
	var keys []blockKey
	for _, at := range c.keys {
		a, ok := cand[at]
		b, too := base[at]
		if ok && too {
			d[at] = math.Log((a.n+0.5)/a.work) - math.Log((b.n+0.5)/b.work)
			keys = append(keys, at)
		}
	}
	keys = sampled(keys)
	e := stats.EstimateCenter(bySession(d, keys), cm.alpha/float64(len(record.AccountParts())))
	if e.Method == stats.MethodNone || math.IsInf(e.Low, 0) || math.IsInf(e.High, 0) {
		return x
	}
	x.Ratio, x.Low, x.High = finite(math.Exp(e.Center)), finite(math.Exp(e.Low)), finite(math.Exp(e.High))
	x.Shown = e.Low > 0 || e.High < 0
	return x
}

func perUnit(by map[blockKey]tally) float64 {
	var v []float64
	for _, t := range by {
		v = append(v, t.n/t.work)
	}
	return finite(medianOf(v))
}
