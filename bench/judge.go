package main

import (
	"fmt"
	"math"

	"tare/internal/stats"
	"tare/internal/unit"
)

// level is the level of the intervals.
const level = 0.95

// tolerance is how far the medians of both sides may lie apart where they are to agree, unless the peer's own runs
// spread further.
const tolerance = 0.03

// judged is a figure of a row with what follows from it.
type judged struct {
	tare, peer string         // medians, for people; peer is "" without one
	estimate   stats.Estimate // of the ratio tare/peer or, without a peer, of the figure
	spread     float64        // of the peer's runs: robust standard deviation over median; without a peer, of tare's
	verdict    string         // "" without a goal
	agreement  string         // "" when the medians need not agree
	agreed     bool
}

// differ says of two medians that they neither lie close to each other nor within the peer's spread.
const differ = "they differ"

// judge turns the runs of one figure into words. peer is nil when there is none; else it is as long as tare.
func judge(f figure, tare, peer []float64) judged {
	j := judged{tare: unit.Format(stats.Median(tare), f.unit)}
	if peer == nil {
		j.estimate = stats.EstimateCenter([][]float64{tare}, 1-level)
		j.spread = stats.RobustSD(tare) / stats.Median(tare)
		j.verdict = verdict(f, j.estimate)
		return j
	}
	j.peer = unit.Format(stats.Median(peer), f.unit)
	logs := make([]float64, len(tare))
	for i := range tare {
		logs[i] = math.Log(tare[i] / peer[i])
	}
	e := stats.EstimateCenter([][]float64{logs}, 1-level)
	e.Center, e.Low, e.High = math.Exp(e.Center), math.Exp(e.Low), math.Exp(e.High)
	j.estimate = e
	j.spread = stats.RobustSD(peer) / stats.Median(peer)
	j.verdict = verdict(f, e)
	if f.agrees {
		apart := stats.Median(tare)/stats.Median(peer) - 1
		j.agreed = math.Abs(apart) <= max(tolerance, j.spread)
		word := differ
		switch {
		case math.Abs(apart) <= tolerance:
			word = "agree"
		case j.agreed:
			word = "agree within the peer's spread"
		}
		j.agreement = fmt.Sprintf("%+.1f %%: %s", 100*apart, word)
	}
	return j
}

// verdict compares an estimate with the goal. Which side of the goal the centre lies on decides; that the interval
// reaches across is said.
func verdict(f figure, e stats.Estimate) string {
	if f.goal == 0 || e.Method == stats.MethodNone {
		return ""
	}
	met, sure := e.Center >= f.goal, e.Low >= f.goal || e.High < f.goal
	if f.atMost {
		met, sure = e.Center <= f.goal, e.High <= f.goal || e.Low > f.goal
	}
	s := map[bool]string{true: "met", false: "missed"}[met]
	if !sure {
		s += ", not surely"
	}
	return s
}

// interval writes the ends of an interval.
func interval(e stats.Estimate, format func(float64) string) string {
	if math.IsInf(e.Low, 0) || math.IsInf(e.High, 0) {
		return "too few pairs"
	}
	return format(e.Low) + " to " + format(e.High)
}
