package schedule

import (
	"time"

	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// table has the run's state of each target and of each cell, a workload in a target.
type table struct {
	plan    *plan.Plan
	targets map[string]*target
	cells   map[cellKey]*cell
	ready   map[string]bool // workloads whose work is frozen and warm-up done in this session
	// screened are the workloads of this session whose candidates were screened.
	screened map[string]bool
}

// target is an open environment in a run.
type target struct {
	Target
	dead *record.Failure
	// peer has the addresses of the peer in this environment, separated by spaces, if it was asked for one.
	peer *wire.Peer
	// peers are those in other environments, by their names, as this one reaches them.
	peers map[string]*wire.Peer
}

type cellKey struct{ workload, target string }

// cell is the run's state of one workload in one target.
type cell struct {
	work     int64
	frozen   bool          // work is final
	unit     float64       // least time of one unit of work seen so far, ns; 0 unknown
	expected time.Duration // one trial with everything around it; a guess unless known
	known    bool          // something was done in the cell in this session
	failures int           // consecutive
	dead     *record.Failure
	screened bool // others differ more, and it gets no more blocks
}

// recordPace takes the pace of a trial into account.
func (c *cell) recordPace(work, ns int64) {
	if work <= 0 || ns <= 0 {
		return
	}
	if u := float64(ns) / float64(work); c.unit == 0 || u < c.unit {
		c.unit = u
	}
}

// makeCells makes the cells of the session. How long their trials take is not known yet.
func (l *table) makeCells() {
	l.screened = map[string]bool{}
	for i := range l.plan.Workloads {
		w := &l.plan.Workloads[i]
		if w.Work == nil {
			w.Work = map[string]int64{}
		}
		for j := range l.plan.Targets {
			e := l.plan.Targets[j].Name
			if w.On(e) && l.targets[e] != nil && l.targets[e].dead == nil {
				l.cells[cellKey{w.Label, e}] = &cell{work: w.Work[e],
					expected: trialLength(l.plan, w) + assumedTrialOverhead, frozen: w.Work[e] > 0}
			}
		}
	}
}

func (l *table) alive(w *plan.Workload, target string) bool {
	t, c := l.targets[target], l.cells[cellKey{w.Label, target}]
	return t != nil && t.dead == nil && c != nil && c.dead == nil && !c.screened
}

// measurable tells whether the workload can still tell anything: its baseline and a candidate are alive.
func (l *table) measurable(w *plan.Workload) bool {
	if !l.alive(w, l.plan.Base(w)) {
		return false
	}
	if l.plan.Alone(w) {
		return true // a baseline alone is measured against itself
	}
	for i := range l.plan.Targets {
		if e := l.plan.Targets[i].Name; e != l.plan.Base(w) && w.On(e) && l.alive(w, e) {
			return true
		}
	}
	return false
}
