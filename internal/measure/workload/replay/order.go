package replay

import (
	"slices"
	"sync"
)

// turn is the place of a transaction among all of the work whose order is kept.
type turn struct {
	number uint64 // trace.Event.Number of its first event
	place  int64
}

// order gives the transactions of the work their places, sorts the jobs by their first ones, and says how many lanes
// there must be: as many as there are sessions that have begun a transaction and have another to come, at any time.
// With fewer lanes all of them could wait for the transaction of a session that no lane has taken yet. Jobs without
// transactions stay behind the job that they were behind.
func (w *work) order() {
	jobOf := make([]int, w.trace.Sessions()) // from 1
	for begin := 0; begin < len(w.jobs); {
		clear(jobOf)
		end := begin
		for ; end < len(w.jobs) && w.jobs[end].round == w.jobs[begin].round; end++ {
			jobOf[w.jobs[end].session] = end + 1
		}
		for _, x := range w.trace.Transactions() {
			if i := jobOf[x.Session]; i > 0 {
				w.jobs[i-1].turns = append(w.jobs[i-1].turns, turn{x.First, w.turns})
				w.turns++
			}
		}
		begin = end
	}
	// A key has the place of a job, and where the job is now.
	const bits = 32
	keys, place, ends := make([]int64, len(w.jobs)), int64(0), []int64{}
	for i := range w.jobs {
		if left := w.jobs[i].turns; len(left) > 0 {
			place = left[0].place
			ends = append(ends, left[len(left)-1].place)
		}
		keys[i] = place<<bits | int64(i)
	}
	slices.Sort(keys)
	slices.Sort(ends)
	jobs, begun, ended := make([]job, len(w.jobs)), 0, 0
	for i, key := range keys {
		jobs[i] = w.jobs[key&(1<<bits-1)]
		if len(jobs[i].turns) == 0 {
			continue
		}
		for begun++; ends[ended] < key>>bits; ended++ {
		}
		w.lanes = max(w.lanes, begun-ended)
	}
	w.jobs = jobs
}

// turns lets the transactions of a pass begin in their order.
type turns struct {
	mu      sync.Mutex
	next    int64           // the place of the one that may begin
	waiting []chan struct{} // by place
	stopped bool
}

// wait waits until it is a place's turn. It returns false when the pass is to stop. woken is the lane's own, and empty.
func (t *turns) wait(place int64, woken chan struct{}) bool {
	t.mu.Lock()
	if place != t.next && !t.stopped {
		t.waiting[place] = woken
		t.mu.Unlock()
		<-woken
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	return !t.stopped
}

// done ends the turn of the place whose turn it is.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next++; t.next < int64(len(t.waiting)) {
		t.wake(t.next)
	}
}

// wake wakes the lane that waits for a place, if there is one.
func (t *turns) wake(place int64) {
	if woken := t.waiting[place]; woken != nil {
		t.waiting[place] = nil
		woken <- struct{}{}
	}
}

// stop ends all waits.
func (t *turns) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	for place := range t.waiting {
		t.wake(int64(place))
	}
}
