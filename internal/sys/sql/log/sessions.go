package log

// sessions gives the sessions of a log their numbers. It remembers those that are open, and no more than a server can
// have: the one that was silent for longest is forgotten first.
type sessions struct {
	recent, old map[uint64]*session
	free        []*session
	count       uint64
	forgotten   int64
	prepared    int // bytes of prepared statements that are remembered
}

// session is the state of a session that its records depend on.
type session struct {
	number    uint64
	fresh     bool // no event of it was handed out
	connected bool // its Connect came, and nothing after it
	denied    bool // its login failed
	// EXECUTE and PREPARE as a text are logged a second time, as the statements that they carried out and prepared.
	textExecute, textPrepare int
	noBackslash, ansi        bool // by its last SET sql_mode
	statements               []prepared
	prepares                 int64
}

type prepared struct {
	number int64
	text   []byte
}

const (
	maxSessions   = 1 << 16 // in each of two generations
	maxPrepared   = 64      // statements of a session
	maxRemembered = 8 << 20 // bytes of prepared statements
)

func (s *sessions) init() { s.recent, s.old = map[uint64]*session{}, map[uint64]*session{} }

// reset leaves nothing of the state that a session has on the server.
func (x *session) reset() {
	*x = session{number: x.number, fresh: x.fresh, statements: x.statements, prepares: x.prepares}
}

// get returns the session with the server's id: the one that is open, or a new one.
func (s *sessions) get(id uint64) *session {
	if x := s.recent[id]; x != nil {
		return x
	}
	x := s.old[id]
	if x == nil {
		if n := len(s.free); n > 0 {
			x = s.free[n-1]
			s.free = s.free[:n-1]
		} else {
			x = new(session)
		}
		s.count++
		*x = session{number: s.count, fresh: true, statements: x.statements[:0]}
	} else {
		delete(s.old, id)
	}
	if len(s.recent) >= maxSessions {
		for id, x := range s.old {
			s.forgotten++
			delete(s.old, id)
			s.release(x)
		}
		s.recent, s.old = s.old, s.recent
	}
	s.recent[id] = x
	return x
}

// end forgets a session that is over.
func (s *sessions) end(id uint64) {
	x := s.recent[id]
	if x == nil {
		if x = s.old[id]; x == nil {
			return
		}
	}
	delete(s.recent, id)
	delete(s.old, id)
	s.release(x)
}

func (s *sessions) release(x *session) {
	s.forget(x)
	if len(s.free) < maxSessions {
		s.free = append(s.free, x)
	}
}

// forget drops the statements that a session prepared.
func (s *sessions) forget(x *session) {
	for i := range x.statements {
		s.drop(&x.statements[i])
	}
	x.statements = x.statements[:0]
}

func (s *sessions) drop(p *prepared) {
	s.prepared -= len(p.text)
	p.text = nil
}

// prepare remembers a text, if there is room.
func (s *sessions) prepare(x *session, text []byte) int64 {
	x.prepares++
	if s.prepared+len(text) > maxRemembered {
		return x.prepares
	}
	if len(x.statements) == maxPrepared {
		s.drop(&x.statements[0])
		copy(x.statements, x.statements[1:])
		x.statements = x.statements[:maxPrepared-1]
	}
	s.prepared += len(text)
	x.statements = append(x.statements, prepared{x.prepares, append([]byte(nil), text...)})
	return x.prepares
}
