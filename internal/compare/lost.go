package compare

import (
	"fmt"

	"tare/internal/record"
)

// GivenUp is the number of trials in a row that may fail before a cell is given up: the scheduler runs no more of it, and
// what it measured until then is no ground for a verdict. Trials that fail are not a random part of all trials.
const GivenUp = 3

// The kinds of failure after which an environment may be gone for good.
const (
	kindDied    = "environment-died"
	kindTimeout = "timeout"
)

const lostRemedy = "see the evidence in the bundle's console folder, mend it and run again"

// gateLost withholds the verdict of a cell that was given up, or whose environment was lost before its figures decided
// anything. A verdict that was reached before the loss stands.
func (e *evaluation) gateLost(c *work) {
	for _, side := range []struct {
		target string
		series *series
	}{{c.Target, c.candidate}, {c.Baseline, c.baseline}} {
		if f := side.series.givenUp(); f != nil {
			c.withhold("given-up", fmt.Sprintf("its trials in %s failed one after the other after %s: %s", side.target, plural(len(c.keys), "block"), f.Message), lostRemedy)
			return
		}
		if f := e.lostTarget(side.target); f != nil && c.decision.Verdict == record.Inconclusive {
			c.withhold("target-lost", fmt.Sprintf("%s was lost after %s: %s", side.target, plural(len(c.keys), "block"), f.Message), lostRemedy)
			return
		}
	}
}

// givenUp returns the failure for which the series was given up; nil if it was not.
func (s *series) givenUp() *record.Failure {
	last := 0
	for _, t := range s.used {
		last = max(last, t.Seq)
	}
	n := 0
	for _, t := range s.failed {
		if t.Seq > last {
			n++
		}
	}
	if n < GivenUp {
		return nil
	}
	return s.failed[len(s.failed)-1].Error
}

// lostTarget returns the failure with which a target left for good; nil if it served to the end.
func (e *evaluation) lostTarget(target string) *record.Failure {
	t := e.last[target]
	if t == nil || t.Error == nil || t.Error.Kind != kindDied && t.Error.Kind != kindTimeout {
		return nil
	}
	return t.Error
}
