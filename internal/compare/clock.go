package compare

import (
	"fmt"
	"math"

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

// clock is what a set of trials says of an environment's clock.
type clock struct {
	off          float64 // median of agent/controller time minus 1
	disagreement float64 // median of the disagreement beyond the allowance, not signed
	trials       int     // trials with both times
	wrong        bool    // above clockWrong: use the controller's clock
}

// readClocks judges each target's clock over all its trials.
func (e *evaluation) readClocks() map[string]clock {
	all := map[string][]*record.Trial{}
	for k, s := range e.series {
		for _, t := range s.used {
			all[k.target] = append(all[k.target], t)
		}
	}
	out := map[string]clock{}
	for target, trials := range all {
		out[target] = readClock(trials)
	}
	return out
}

// cellClock judges the clock over the trials of one cell; a target whose clock is wrong on the whole is wrong in each of
// its cells.
func (e *evaluation) cellClock(target string, s *series) clock {
	trials := make([]*record.Trial, 0, len(s.keys))
	for _, k := range s.keys {
		trials = append(trials, s.used[k])
	}
	c := readClock(trials)
	c.wrong = c.wrong || e.clocks[target].wrong
	return c
}

func readClock(trials []*record.Trial) clock {
	var off, beyond []float64
	for _, t := range trials {
		if t.AgentNS <= 0 || t.ControllerNS <= 0 {
			continue
		}
		agent, controller := float64(t.AgentNS), float64(t.ControllerNS)
		off = append(off, agent/controller-1)
		// The controller's stamps ride on messages, so they are uncertain by as much as the round trip was seen to vary.
		beyond = append(beyond, math.Max(0, math.Abs(agent-controller)-math.Max(0, float64(t.RTTSpreadNS)))/controller)
	}
	if len(off) == 0 {
		return clock{}
	}
	c := clock{off: stats.Median(off), disagreement: stats.Median(beyond), trials: len(off)}
	c.wrong = c.disagreement > clockWrong
	return c
}

// doubtful is the share by which a figure taken on the environment's clock may be wrong.
func (c clock) doubtful() float64 {
	if c.wrong || c.disagreement <= clockWarn {
		return 0
	}
	return c.disagreement
}

// cost is the trial's cost by metric m, restated on the controller's clock where the environment's is wrong. NaN without
// a positive, finite figure.
func (c clock) cost(t *record.Trial, m unit.Metric) float64 {
	v, ok := t.Metrics[m.Name]
	if !ok {
		return math.NaN()
	}
	cost := m.Cost(v)
	if c.wrong && m.Timed && t.AgentNS > 0 && t.ControllerNS > 0 {
		// A duration seen as agent ns lasted controller ns; a rate is the inverse, which Cost has turned over already.
		cost *= float64(t.ControllerNS) / float64(t.AgentNS)
	}
	return cost
}

func clockWarning(target string, c clock) record.Warning {
	return record.Warning{
		Code: "clock-wrong",
		Text: fmt.Sprintf("the clock of %s runs %s the controller's (median of %s): figures are restated on the controller's clock",
			target, offText(c.off), plural(c.trials, "trial")),
		Remedy: "repair the guest's clock source (kvm-clock, tsc, hyperv) or its time synchronisation before trusting any time it prints",
	}
}

func clockDoubt(target string, c clock) record.Warning {
	return record.Warning{
		Code: "clock-disagrees",
		Text: fmt.Sprintf("the clocks of %s and of the controller disagree by %s in the median trial, more than the round trip explains; the interval is widened by that",
			target, percent(c.disagreement)),
		Remedy: "longer trials, a quieter host, or a better clock source in the environment",
	}
}

func clockWithheld(target string, c clock) record.Warning {
	return record.Warning{
		Code: "clock-wrong",
		Text: fmt.Sprintf("the clock of %s runs %s the controller's, and this figure was printed by a foreign tool on that clock: it cannot be restated",
			target, offText(c.off)),
		Remedy: "repair the environment's clock, or compare the elapsed time, which the controller measures too",
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
