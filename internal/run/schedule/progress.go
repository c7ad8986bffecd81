package schedule

import "tare/internal/plan"

// progress counts blocks, in this session and in all.
type progress struct {
	plan     *plan.Plan
	journal  *journal
	settled  map[string]bool // workload labels that get no more blocks
	blocks   map[string]int  // last block number begun, by workload, in this session
	kept     map[string]int  // blocks completed and not discarded, by workload, in this session
	whole    map[string]bool // workloads whose last block was completed before the run was resumed
	past     int             // blocks begun in earlier sessions
	discards int             // blocks that the host spoilt and that were discarded, in all sessions
}

// begin begins a session: the blocks of the interrupted part of the run in it count.
func (p *progress) begin() {
	p.past = p.totalBlocks()
	p.settled, p.blocks, p.kept = map[string]bool{}, map[string]int{}, map[string]int{}
	p.recount()
}

// totalBlocks is the number of blocks begun in the whole run.
func (p *progress) totalBlocks() int {
	n := p.past
	for _, b := range p.blocks {
		n += b
	}
	return n
}

// nextLook is the number of blocks at which the workload is decided next.
func (p *progress) nextLook(w *plan.Workload) int {
	if p.plan.Sessions > 1 {
		return p.plan.MaxBlocks()
	}
	for _, n := range p.plan.Looks {
		if n > p.kept[w.Label] {
			return min(n, p.plan.MaxBlocks())
		}
	}
	return p.plan.MaxBlocks()
}

// done tells whether the interrupted part of the run left nothing to do in this session, so that no environment needs
// to be opened.
func (p *progress) done() bool {
	for i := range p.plan.Workloads {
		if w := &p.plan.Workloads[i]; !p.settled[w.Label] && p.kept[w.Label] < p.plan.MaxBlocks() {
			return false
		}
	}
	return len(p.plan.Workloads) > 0
}
