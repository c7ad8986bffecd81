package httplog

import "hash/maphash"

// silence bounds the time for which a client may be silent within a session, in microseconds.
const silence = 30 * 60 * second

// maxSessions bounds how many sessions are remembered in each of two generations.
const maxSessions = 1 << 17

// sessions tells sessions apart by client and user agent. It has two generations, so that clients that were silent for
// long are forgotten: those of the last maxSessions clients, and those before.
type sessions struct {
	seed        maphash.Seed
	recent, old map[uint64]*session
	count       uint64
	most        int // at the same time
	now         int64
	ended       func(uint64)
}

type session struct {
	number uint64
	last   int64
}

func (s *sessions) init(ended func(uint64)) {
	if ended == nil {
		ended = func(uint64) {}
	}
	s.seed, s.recent, s.old, s.ended, s.now = maphash.MakeSeed(), map[uint64]*session{}, map[uint64]*session{}, ended,
		NoTime
}

// of sets the session of a request.
func (s *sessions) of(q *Request) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.Write(q.Client)
	_ = h.WriteByte(0)
	_, _ = h.Write(q.Agent)
	key := h.Sum64()
	x := s.recent[key]
	if x == nil {
		if x = s.old[key]; x != nil {
			delete(s.old, key)
		}
	}
	if x != nil && q.Time != NoTime && x.last != NoTime && q.Time-x.last > silence {
		s.ended(x.number)
		x = nil
	}
	if x == nil {
		s.count++
		x = &session{number: s.count, last: NoTime}
	}
	if s.recent[key] != x {
		if len(s.recent) >= maxSessions {
			s.turn()
		}
		s.recent[key] = x
	}
	if q.Time != NoTime {
		x.last = max(x.last, q.Time)
		if s.now == NoTime || q.Time > s.now+silence {
			s.sweep(q.Time)
		}
	}
	s.most = max(s.most, len(s.recent)+len(s.old))
	q.Session = x.number
}

// sweep ends the sessions that have been silent for too long at a time.
func (s *sessions) sweep(now int64) {
	s.now = now
	for _, all := range []map[uint64]*session{s.recent, s.old} {
		for key, x := range all {
			if x.last != NoTime && now-x.last > silence {
				s.ended(x.number)
				delete(all, key)
			}
		}
	}
}

// turn forgets the old generation.
func (s *sessions) turn() {
	for _, x := range s.old {
		s.ended(x.number)
	}
	s.old, s.recent = s.recent, map[uint64]*session{}
}

// end ends all sessions.
func (s *sessions) end() {
	s.turn()
	s.turn()
}
