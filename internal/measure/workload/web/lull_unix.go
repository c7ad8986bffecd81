//go:build unix

package web

import "time"

// lull is the behaviour of a thread when no response is there, before it sleeps until there is one. A server that is
// the bottleneck has to wake a client that sleeps, for each response, and each time that costs both of them. So, while
// responses come thick and fast, a thread
//
//   - looks for the next one for a short while, if a response takes so short a time that waking up would be a good part
//     of it, as with few connections. It learns whether that is worth it: while less than half of the looks see a
//     response in time, only one wait in many begins with one.
//   - naps by the clock, if a response takes so long a time that a nap is nothing to it, as with many connections of
//     which each waits for its turn: the server need not wake it, and several responses are there when it looks again.
type lull struct {
	most  time.Duration // of a look; 0: neither look nor nap
	score int           // from 0 to worthy, up with each look that saw a response and down with each that did not
	rest  int           // waits until the next look, when few are made
}

const (
	// lookTime bounds a look.
	lookTime = 20 * time.Microsecond
	worthy   = 16
	seldom   = 64

	// napTime is the length of a nap: two or three responses of a server that is one process.
	napTime = 30 * time.Microsecond
	// napShare is the least ratio of the mean time of a response to that of a nap at which a thread naps. A nap adds
	// half of its time to a response that arrives during it, so that it adds at most 1/16 of the mean.
	napShare = 8
)

// lullFor returns the time for which each of so many threads may look, and the text about it in a trial's state. A
// thread that looks keeps a processor from the server, so there must be one more than the threads.
func lullFor(threads int, open bool) (time.Duration, string) {
	switch {
	case open:
		return 0, "no: open model"
	case processors() <= threads:
		return 0, "no: no processor to spare"
	case canNap:
		return lookTime, "looks for " + lookTime.String() + ", naps for " + napTime.String()
	}
	return lookTime, "looks for " + lookTime.String()
}

// naps tells if a thread should nap that had so many responses on so many connections in so long a time: one comes
// during a nap, and takes much longer than that.
func naps(elapsed, done, connections int64) bool {
	return canNap && done > 0 && elapsed <= int64(napTime)*done && elapsed*connections >= napShare*int64(napTime)*done
}

// wait is the poller's wait. With nap, it naps and does not look.
func (s *lull) wait(p *poller, d time.Duration, nap bool) (int, error) {
	if s.most == 0 {
		return p.wait(d)
	}
	if nap {
		hits, err := p.wait(0)
		if hits > 0 || err != nil {
			return hits, err
		}
		p.nap(napTime)
		return p.wait(d)
	}
	if s.score < worthy/2 {
		if s.rest--; s.rest > 0 {
			return p.wait(d)
		}
		s.rest = seldom
	}
	hits, err := p.wait(0)
	for began := time.Now(); hits == 0 && err == nil && time.Since(began) < s.most; {
		hits, err = p.wait(0)
	}
	if hits > 0 || err != nil {
		if s.score < worthy {
			s.score++
		}
		return hits, err
	}
	s.score = max(s.score-1, 0)
	return p.wait(d)
}
