//go:build unix

package web

import "time"

// spinner has a thread look for responses for a short while before it sleeps. A server that is the bottleneck has to
// wake a client that sleeps, for each response; with many connections the next one is only microseconds away.
//
// It learns whether that is worth it: while less than half of the looks see a response in time, as with few connections
// or a slow server, only one wait in many begins with one.
type spinner struct {
	most  time.Duration // of a look; 0: never
	score int           // from 0 to worthy, up with each look that saw a response and down with each that did not
	rest  int           // waits until the next look, when few are made
}

const (
	// spinTime bounds a look.
	spinTime = 20 * time.Microsecond
	worthy   = 16
	seldom   = 64
)

// spinFor is how long each of so many threads may look, and what a trial's state says of it. A thread that looks keeps
// a processor from the server, so there must be one more than the threads.
func spinFor(threads int, open bool) (time.Duration, string) {
	switch {
	case open:
		return 0, "no: open model"
	case processors() <= threads:
		return 0, "no: no processor to spare"
	}
	return spinTime, spinTime.String()
}

// wait is the poller's wait.
func (s *spinner) wait(p *poller, d time.Duration) (int, error) {
	if s.most == 0 {
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
