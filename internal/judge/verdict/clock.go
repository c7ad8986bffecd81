package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// The disagreement of the two clocks of a trial from which it is told, and from which the environment's clock is not
// used any more. Shares of the trial.
const (
	clockWarn  = 0.002
	clockWrong = 0.01
)

// clockAlpha is the level of the interval of a clock's rate.
const clockAlpha = 0.05

// clock is the rate of an environment's clock against the controller's, by a set of trials. The stamps of the
// controller ride on messages, and each is off by what its message met on its way. That is noise of the measurement and
// not of the clock: it goes both ways, and many trials narrow it.
type clock struct {
	off       float64 // Hodges-Lehmann centre of agent/controller time minus 1
	low, high float64 // its interval; all that was seen where the trials are too few for one
	trials    int     // trials with both times
	wrong     bool    // beyond clockWrong for certain: use the controller's clock
	shared    bool    // the controller's own kernel counts the time: there is one clock and nothing to doubt
}

// clockReader knows how far the clocks of the targets are off.
type clockReader struct {
	index     *index
	opened    *opened
	ofTargets map[string]clock
	// ofCells are those of cells, by the trials behind them: each workload has several metrics.
	ofCells map[*series]clock
}

func newClockReader(x *index, op *opened) *clockReader {
	cr := &clockReader{index: x, opened: op, ofCells: map[*series]clock{}}
	cr.ofTargets = cr.readClocks()
	return cr
}

// readClocks judges each target's clock over all its trials.
func (cr *clockReader) readClocks() map[string]clock {
	all := map[string][]*record.Trial{}
	for k, s := range cr.index.series {
		for _, at := range s.keys {
			all[k.target] = append(all[k.target], s.used[at])
		}
	}
	out := map[string]clock{}
	for target, trials := range all {
		out[target] = readClock(trials, cr.opened.sharesKernel(target))
	}
	return out
}

// cellClock judges the clock over the trials of one cell. Where those agree with all of the target's trials, these tell
// more; where they do not, or lie beyond the bound for themselves, the clock did not run the same all the time. A
// target whose clock is wrong on the whole is wrong in each of its cells.
func (cr *clockReader) cellClock(target string, s *series) clock {
	whole := cr.ofTargets[target]
	if len(s.keys) == 0 {
		return whole
	}
	if c, ok := cr.ofCells[s]; ok {
		return c
	}
	trials := make([]*record.Trial, 0, len(s.keys))
	for _, k := range s.keys {
		trials = append(trials, s.used[k])
	}
	c := readClock(trials, whole.shared)
	certain := c.low > clockWrong || c.high < -clockWrong // whatever the others say
	if !certain && c.low <= whole.off && whole.off <= c.high {
		c = whole
	}
	c.wrong = c.wrong || whole.wrong
	cr.ofCells[s] = c
	return c
}

func readClock(trials []*record.Trial, shared bool) clock {
	var off []float64
	for _, t := range trials {
		if t.AgentNS > 0 && t.ControllerNS > 0 {
			off = append(off, float64(t.AgentNS)/float64(t.ControllerNS)-1)
		}
	}
	if len(off) == 0 {
		return clock{shared: shared}
	}
	r := stats.EstimateCenter([][]float64{off}, clockAlpha)
	c := clock{off: r.Center, low: r.Low, high: r.High, trials: len(off), shared: shared}
	if math.IsInf(r.High, 0) {
		c.low, c.high = slices.Min(off), slices.Max(off)
	}
	c.wrong = !shared && math.Abs(c.off) > clockWrong && c.differs()
	return c
}

// differs tells whether the clock is off for certain: the trials agree on the direction.
func (c clock) differs() bool { return c.low > 0 || c.high < 0 }

// doubtful is the share by which a figure taken on the environment's clock may be wrong: the farther end of the
// interval, since whatever the trials do not exclude may be true.
func (c clock) doubtful() float64 {
	far := math.Max(math.Abs(c.low), math.Abs(c.high))
	if c.wrong || c.shared || far <= clockWarn {
		return 0
	}
	return far
}

// nature is the declaration of an environment's driver about all of its environments.
func nature(re *record.Environment) env.Nature { return drivers.Known().Nature(driver(re)) }

// driver is the first part of the spec that makes an environment.
func driver(re *record.Environment) string {
	if i := strings.IndexAny(re.Spec, ":?"); i >= 0 {
		return re.Spec[:i]
	}
	return re.Spec
}

// cost is the trial's cost by metric m, restated on the controller's clock where the environment's is wrong. NaN
// without a positive, finite figure.
func (c clock) cost(t *record.Trial, m unit.Metric) float64 {
	v, ok := t.Metrics[m.Name]
	if !ok {
		return math.NaN()
	}
	cost := m.Cost(v)
	if m.Timed {
		cost *= c.correction(t) // also of a rate, which Cost has turned over already
	}
	return cost
}

// correction is the factor on a duration in the trial by the environment's clock.
func (c clock) correction(t *record.Trial) float64 {
	if c.wrong && t.AgentNS > 0 && t.ControllerNS > 0 {
		return float64(t.ControllerNS) / float64(t.AgentNS)
	}
	return 1
}

func clockWarning(target string, c clock) record.Warning {
	return record.Warning{
		Code: "clock-wrong",
		Text: fmt.Sprintf("the clock of %s runs %s the controller's (over %s): figures are restated on the "+
			"controller's clock",
			target, offText(c.off), unit.Plural(c.trials, "trial")),
		Remedy: "repair the guest's clock source (kvm-clock, tsc, hyperv) or its time synchronisation; do not trust " +
			"the times it prints until then",
	}
}

func clockDoubt(target string, c clock) record.Warning {
	text := fmt.Sprintf("the clock of %s runs %s the controller's (over %s)", target, offText(c.off),
		unit.Plural(c.trials, "trial"))
	if !c.differs() {
		text = fmt.Sprintf("the round trips to %s vary so much that %s cannot compare its clock with the "+
			"controller's more precisely", target, unit.Plural(c.trials, "trial"))
	}
	return record.Warning{
		Code:   "clock-disagrees",
		Text:   fmt.Sprintf("%s; the interval is widened by %s, the possible error", text, percent(c.doubtful())),
		Remedy: "use longer trials, a quieter host, or a better clock source in the environment",
	}
}

func clockWithheld(target string, c clock) record.Warning {
	return record.Warning{
		Code: "clock-wrong",
		Text: fmt.Sprintf("the clock of %s runs %s the controller's, and an external tool printed this figure by "+
			"that clock: it cannot be restated",
			target, offText(c.off)),
		Remedy: "repair the environment's clock, or compare the elapsed time, which the controller also measures",
	}
}

// offText says in words how far a clock is off, where off is agent/controller time minus 1.
func offText(off float64) string {
	if off < 0 {
		return percent(-off) + " slow against"
	}
	return percent(off) + " fast against"
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
