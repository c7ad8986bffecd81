package verdict

import (
	"fmt"

	"tare/internal/record"
	"tare/internal/unit"
)

// GivenUp is the number of trials in a row that may fail before a cell is given up: the scheduler runs no more of it,
// and what it measured until then is no ground for a verdict. Trials that fail are not a random part of all trials.
const GivenUp = 3

// mostMissing is the share of a cell's blocks in which a side may fail. Beyond it, what is left of the blocks is not
// what the environment is like: it fails where it is slowest.
const mostMissing = 0.1

// The kinds of failure after which an environment may be gone for good.
const (
	kindDied    = "environment-died"
	kindTimeout = "timeout"
	kindServer  = "server-died" // of what serves a mount
)

// kindPeer is the failure of work on the network whose other end has ended. The target goes on with other work.
const kindPeer = "peer-died"

// kindLoadHost is the failure of a load one of whose hosts is lost. The target, where the server is, goes on.
const kindLoadHost = "load-host-died"

// kindNeighbour is the failure of a target whose neighbour's environment is lost.
const kindNeighbour = "neighbour-died"

const lostRemedy = "see the evidence in the bundle's console folder, fix the cause and run again"

// withholdLost withholds the verdict of a cell that was given up, or whose environment was lost before its figures
// decided anything. A verdict that was reached before the loss stands.
func (wh *withholder) withholdLost(c *cellBuilder) {
	for _, side := range []struct {
		target string
		series *series
	}{{c.Target, c.candidate}, {c.Baseline, c.baseline}} {
		if f := side.series.givenUp(); f != nil {
			c.withhold("given-up", fmt.Sprintf("after %[2]s, its trials in %[1]s all failed: %[3]s", side.target,
				unit.Plural(len(c.keys), "block"), f.Message), lostRemedy)
			return
		}
		if f := side.series.lostPeer(); f != nil && c.decision.Verdict == record.Inconclusive {
			c.withhold("given-up", fmt.Sprintf("it could not continue after %s: %s", unit.Plural(len(c.keys), "block"),
				f.Message), lostRemedy)
			return
		}
		if f := wh.opened.lostTarget(side.target); f != nil && c.decision.Verdict == record.Inconclusive {
			c.withhold("target-lost", fmt.Sprintf("%s was lost after %s: %s", side.target,
				unit.Plural(len(c.keys), "block"), f.Message), lostRemedy)
			return
		}
	}
}

// givenUp returns the failure for which the series was given up; nil if it was not.
func (s *series) givenUp() *record.Failure {
	last, n := s.lastUsed(), 0
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

// lastUsed is the number of the last trial with figures.
func (s *series) lastUsed() (last int) {
	for _, t := range s.used {
		last = max(last, t.Seq)
	}
	return last
}

// lostPeer returns the failure by which the series ended with the run's peer, or with a host that offered its load; nil
// if it did not, or a run that was resumed went on with another.
func (s *series) lostPeer() *record.Failure {
	last := s.lastUsed()
	for _, t := range s.failed {
		if k := t.Error.Kind; (k == kindPeer || k == kindLoadHost) && t.Seq > last {
			return t.Error
		}
	}
	return nil
}

// withholdMissing tells of the blocks without a figure of one side, and withholds the verdict where they are many. One
// failure is never many.
func withholdMissing(c *cellBuilder) {
	for _, s := range []struct {
		target string
		of     *series
	}{{c.Target, c.candidate}, {c.Baseline, c.baseline}} {
		if n := len(s.of.missing); !c.withheld && n > 1 && float64(n) > mostMissing*float64(c.begun) {
			last := sortedKeys(s.of.missing)[n-1]
			c.withhold("too-many-failed", fmt.Sprintf("%d of %d trials in %s gave no figure, the last because: %s", n,
				c.begun, s.target, s.of.missing[last].Error.Message),
				"fix what fails and run again: the trials that succeeded are not a fair sample")
		}
	}
	sides := fmt.Sprintf("%s of %s and %d of %s failed", unit.Plural(len(c.candidate.missing), "trial"), c.Target,
		len(c.baseline.missing), c.Baseline)
	if n := len(c.judged) - len(c.keys); n > 0 {
		c.warn("deadline-reached",
			fmt.Sprintf("%s in which only one side missed its deadline: counted as the largest differences, against "+
				"that side (%s)",
				unit.Plural(n, "block"), sides),
			"find out what stalls there; if it is rare, more blocks narrow the interval")
	}
	if n := c.incomplete; n > 0 {
		c.warn("blocks-incomplete", fmt.Sprintf("left out: %s without a figure for one of the two sides (%s)",
			unit.Plural(n, "block"), sides),
			"see the failures in the bundle's trials; if slow trials fail more often, the ratio favours that side")
	}
	if n := c.zeros; n > 0 {
		c.warn("blocks-incomplete",
			fmt.Sprintf("left out: %s in which %s is 0 or missing on one side, so that there is no ratio",
				unit.Plural(n, "block"), c.Metric),
			"lengthen the trials, so that there is more to count")
	}
}
