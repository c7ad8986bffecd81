package schedule

import (
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// slotKey names a place in a block.
type slotKey struct{ target, slot string }

// workloadHistory follows the trials of one workload in the order they ran.
type workloadHistory struct {
	warm       map[string]bool // targets that were warmed up since the environments were opened: only they take part
	lastWarmed string          // the last of them
	failed     map[string]bool // targets whose last trial of the workload failed
	block      int             // the block that the last trial was in; 0: none since the warm-up
	slots      map[slotKey]bool
	previous   map[slotKey]bool // slots of the block before it; nil: there was none
	complete   bool             // all that could take part in the block have
	discarded  bool             // the block was discarded
}

// recount finds how far an interrupted run got in this session, so that a resumed one goes on after it.
//
// A block that was cut short keeps its pairs, but does not count towards the next look. A block is complete if another
// follows it, unless the environments were opened again in between. The last block counts as complete unless a healthy
// target is missing. A target that was not there must not be missed: no block would count, all looks would be taken
// once more, and the level holds for so many looks only. In doubt a block counts, for the same reason.
func (p *progress) recount() {
	courses := map[string]*workloadHistory{}
	gone := map[string]bool{} // targets whose last trial failed: their environment may be lost
	p.whole = map[string]bool{}
	for i := range p.journal.trials {
		t := &p.journal.trials[i]
		w, ok := p.plan.Workload(t.Workload)
		if t.Session != p.journal.session || !ok {
			continue
		}
		c := courses[w.Label]
		if c == nil {
			c = &workloadHistory{failed: map[string]bool{}}
			courses[w.Label] = c
		}
		switch {
		case t.Discarded != "":
			c.discarded = c.discarded || t.Block == c.block
			continue
		case t.Warmup():
			p.count(w.Label, c, c.complete)
			c.warmUp(t)
		default:
			if t.Block != c.block {
				p.count(w.Label, c, true)
				c.previous = c.slots
				c.block, c.slots, c.discarded = t.Block, map[slotKey]bool{}, false
			}
			c.slots[slotKey{t.Target, t.Slot}] = true
			p.blocks[w.Label] = max(p.blocks[w.Label], t.Block)
		}
		c.failed[t.Target], gone[t.Target] = t.Error != nil, t.Error != nil
		c.complete = p.complete(w, c, gone)
	}
	for label, c := range courses {
		p.whole[label] = c.block > 0 && c.complete && !c.discarded
		p.count(label, c, c.complete)
	}
}

// warmUp takes a warm-up into account. The first after a block, or after that of another target when this one had its
// own already, is of environments that were opened again.
func (c *workloadHistory) warmUp(t *record.Trial) {
	if c.warm == nil || c.block > 0 || c.warm[t.Target] && c.lastWarmed != t.Target {
		c.warm, c.failed, c.block = map[string]bool{}, map[string]bool{}, 0
		c.slots, c.previous = nil, nil
	}
	c.warm[t.Target], c.lastWarmed = true, t.Target
}

// count counts the block that a course is in, at its end.
func (p *progress) count(label string, c *workloadHistory, whole bool) {
	if c.block > 0 && whole && !c.discarded {
		p.kept[label]++
	}
}

// complete tells whether all that could take part in a block have. A target whose last trial failed may have been given
// up.
func (p *progress) complete(w *plan.Workload, c *workloadHistory, gone map[string]bool) bool {
	// Once candidates are screened, whoever was in the block before goes on.
	screened := p.plan.Screen > 0 && p.kept[w.Label] > plan.ScreenBlocks && c.previous != nil
	missing := func(target, slot string) bool {
		if screened && !c.previous[slotKey{target, slot}] {
			return false
		}
		return w.On(target) && (c.warm == nil || c.warm[target]) && !c.slots[slotKey{target, slot}] &&
			!c.failed[target] && !gone[target]
	}
	for i := range p.plan.Targets {
		if missing(p.plan.Targets[i].Name, "") {
			return false
		}
	}
	for _, base := range p.plan.Bases(w) {
		if missing(base, record.NullSlot) {
			return false
		}
	}
	return true
}

// recountDiscards counts the blocks of the sessions before this one, and those of all sessions that were discarded: the
// share that may be is one of the whole run.
func (p *progress) recountDiscards(session int) {
	type series struct {
		session  int
		workload string
	}
	last := map[series]int{}
	for i := range p.journal.trials {
		t := &p.journal.trials[i]
		// for the host's sake, not because tare was stopped
		if t.Discarded == ruleSteal || t.Discarded == ruleThrottle {
			p.discards++
		}
		if s := (series{t.Session, t.Workload}); t.Session < session {
			last[s] = max(last[s], t.Block)
		}
	}
	for _, n := range last {
		p.past += n
	}
}

// lookAgain takes the look at which an interrupted run ended: whether it was taken then is not on record, and a
// workload that it settled gets no more blocks. A look after which a block was begun had settled nothing; taken again
// with the trials since, it would be one look more than the level holds for.
func (r *runner) lookAgain() {
	var ended []*plan.Workload
	for i := range r.plan.Workloads {
		if w := &r.plan.Workloads[i]; r.progress.whole[w.Label] {
			ended = append(ended, w)
		}
	}
	r.look(ended)
}

// Left tells whether a run that ended has blocks left that could still tell something: c.Prior ends before the plan
// does, and not for want of something to measure.
func Left(c Config) bool {
	r := newRunner(c, nil)
	if r.journal.session < r.plan.Sessions {
		return true
	}
	r.progress.recount()
	res := r.journal.evaluate()
	for i := range r.plan.Workloads {
		if w := &r.plan.Workloads[i]; r.progress.kept[w.Label] < r.plan.MaxBlocks() && !verdict.Settled(res, w.Label) {
			return true
		}
	}
	return false
}
