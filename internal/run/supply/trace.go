package supply

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"slices"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/trace"
)

// Reasons why an event is not replayed, besides those of package log.
const (
	whyNotPrepared = "EXECUTE of what was prepared before the log began"
	whyNotKnown    = "the end of a prepared statement that is not known"
)

// convert writes the events of a log that a policy allows to a trace, and closes it.
func convert(ctx context.Context, r *log.Reader, p log.Policy, w *trace.Writer) error {
	c := converter{w: w, plan: log.Planner{Policy: p, Dialect: r.Dialect()}, sessions: map[uint64]*session{},
		seed: maphash.MakeSeed()}
	m := &w.Meta
	m.Dialect, m.Writes, m.Locks = r.Dialect(), p.Writes, p.Locks
	var e log.Event
	for {
		err := r.Next(&e)
		if err == io.EOF {
			break
		}
		if err == nil && c.number%1024 == 0 {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		part, reason, err := c.event(&e)
		if err != nil {
			return err
		}
		r.Settle(part, reason)
		if e.Op.Statement() {
			c.number++
		}
	}
	a := r.Account()
	m.Statements, m.Bytes = trace.Parts(a.Statements), trace.Parts(a.Bytes)
	return w.Close()
}

// converter converts the events of a log to those of a trace.
type converter struct {
	w        *trace.Writer
	plan     log.Planner
	sessions map[uint64]*session // open sessions
	number   uint64              // of the next statement
	e        trace.Event
	buf      []byte // values of e.Params
	seed     maphash.Seed
}

// session is the state of an open session.
type session struct {
	database string              // default database, as far as it is known from the log
	last     uint32              // number of the last prepared statement
	prepared map[string]prepared // by name
	texts    map[uint64]struct{} // hashes of the PREPARE statements
}

// prepared is a prepared statement.
type prepared struct {
	number uint32
	hash   uint64 // of the text
}

// maxPrepared bounds the size of session.prepared and session.texts. A forgotten statement is prepared again.
const maxPrepared = 1 << 12

// ops maps the operations of package log to those of package trace.
var ops = [...]trace.Op{log.Connect: trace.Connect, log.Quit: trace.Quit, log.InitDB: trace.InitDB,
	log.Query: trace.Query, log.Prepare: trace.Prepare, log.Execute: trace.Execute, log.CloseStmt: trace.CloseStmt,
	log.ResetStmt: trace.ResetStmt, log.ChangeUser: trace.ChangeUser, log.ResetConnection: trace.ResetConnection}

// event adds an event to the trace, or returns why not.
func (c *converter) event(e *log.Event) (part log.Part, reason string, err error) {
	d := c.plan.Decide(e)
	if d.Part != log.Replayed {
		return d.Part, d.Reason, nil
	}
	s := c.sessions[e.Session]
	if s == nil {
		s = &session{}
	}
	if reason := c.lacks(e, s); reason != "" {
		return log.Skipped, reason, nil
	}
	t := &c.e
	*t = trace.Event{Op: ops[e.Op], At: c.at(e), Number: c.number, Rows: e.Rows, Text: e.Text, Name: e.Name,
		Params: t.Params[:0], Types: t.Types[:0]}
	if c.sessions[e.Session] == nil {
		c.sessions[e.Session], s.database = s, string(e.Database)
		if e.Op != log.Connect {
			err = c.before(e, trace.Event{Op: trace.Connect, User: e.User, Database: e.Database})
		}
	}
	switch e.Op {
	case log.Connect, log.ChangeUser, log.InitDB:
		t.User, t.Database, s.database = e.User, e.Database, string(e.Database)
		if e.Op == log.ChangeUser {
			s.prepared, s.texts = nil, nil
		}
	case log.Quit:
		delete(c.sessions, e.Session)
	case log.ResetConnection:
		s.prepared, s.texts = nil, nil
	case log.Query:
		c.follow(e, s)
	case log.Prepare:
		t.Statement = c.prepare(s, e.Name, e.Text).number
	case log.Execute:
		err = errors.Join(err, c.execute(e, s))
	case log.CloseStmt, log.ResetStmt:
		if t.Statement = s.prepared[string(e.Name)].number; e.Op == log.CloseStmt {
			delete(s.prepared, string(e.Name))
		}
	}
	if e.Op.Statement() {
		t.Fingerprint, t.Volatile = c.w.Fingerprint(e.Text, d.Verdict), d.Verdict.Volatile != ""
		err = errors.Join(err, c.use(e, s))
	}
	return log.Replayed, "", errors.Join(err, c.w.Add(e.Session, t))
}

// before inserts an event that is not in the log before e.
func (c *converter) before(e *log.Event, t trace.Event) error {
	t.At, t.Number, t.Rows = c.e.At, c.number, -1
	return c.w.Add(e.Session, &t)
}

// lacks returns why an event that the policy allows cannot be replayed, or "".
func (c *converter) lacks(e *log.Event, s *session) string {
	switch e.Op {
	case log.Query:
		if len(e.Prepared) > 0 { // EXECUTE
			if _, ok := s.texts[c.hash(e.Prepared)]; !ok {
				return whyNotPrepared
			}
		}
	case log.CloseStmt, log.ResetStmt:
		if _, ok := s.prepared[string(e.Name)]; !ok || len(e.Name) == 0 {
			return whyNotKnown
		}
	}
	return ""
}

// at returns the time of an event in the trace. The trace starts at the first event with a time.
func (c *converter) at(e *log.Event) int64 {
	if e.Time == log.NoTime {
		return -1
	}
	m := &c.w.Meta
	if m.Start == 0 {
		m.Start = e.Time
	}
	at := max(0, e.Time-m.Start) // records in the order of their ends may begin earlier than the first one
	m.Span, m.Precision = max(m.Span, at), max(m.Precision, e.Precision)
	return at
}

// use inserts a change of the database before a statement if its record names another one: slow logs and audit logs do
// not record the changes themselves.
func (c *converter) use(e *log.Event, s *session) error {
	if len(e.Database) == 0 || string(e.Database) == s.database || c.plan.Dialect != lex.MySQL {
		return nil
	}
	s.database = string(e.Database)
	return c.before(e, trace.Event{Op: trace.InitDB, Database: e.Database})
}

// follow updates the prepared statements of a session for a statement that changes them.
func (c *converter) follow(e *log.Event, s *session) {
	l := lex.Tokens(e.Text, lex.Options{Dialect: c.plan.Dialect})
	t, _ := l.Skip()
	switch first := e.Text[t.Start:t.End]; {
	case bytes.EqualFold(first, []byte("prepare")):
		if s.texts == nil {
			s.texts = map[uint64]struct{}{}
		}
		if len(s.texts) < maxPrepared {
			s.texts[c.hash(e.Text)] = struct{}{}
		}
	case bytes.EqualFold(first, []byte("discard")), bytes.EqualFold(first, []byte("deallocate")):
		s.prepared, s.texts = nil, nil
	}
}

// execute completes an Execute. If the log does not contain the prepared statement or the values, it becomes a Query. A
// statement that the session has not prepared in the trace is prepared now: logs of PostgreSQL do not record that, and
// a log may begin later.
func (c *converter) execute(e *log.Event, s *session) error {
	t := &c.e
	text := e.Prepared
	if c.plan.Dialect == lex.PostgreSQL {
		text = e.Text
		t.Params = append(t.Params, e.Params...)
		if len(e.Name) == 0 {
			return nil // the unnamed statement
		}
	} else if text == nil || !c.values(e) {
		t.Op, t.Name, t.Params, t.Types = trace.Query, nil, t.Params[:0], t.Types[:0]
		return nil
	}
	p, ok := s.prepared[string(e.Name)]
	if ok && p.hash == c.hash(text) {
		t.Statement = p.number
		return nil
	}
	p = c.prepare(s, e.Name, text)
	t.Statement = p.number
	return c.before(e, trace.Event{Op: trace.Prepare, Statement: p.number, Name: e.Name, Text: text})
}

// values sets the parameters of an Execute of MySQL. It returns false if a literal cannot be the value of a parameter.
func (c *converter) values(e *log.Event) bool {
	o := lex.Options{NoBackslashEscapes: e.NoBackslash}
	// Values are never longer than their literals, so that append does not move the buffer.
	c.buf = slices.Grow(c.buf[:0], len(e.Text))
	for _, l := range e.Params {
		value, is, ok := literal(c.buf[len(c.buf):], l, o)
		if !ok {
			return false
		}
		c.buf = c.buf[:len(c.buf)+len(value)]
		c.e.Params, c.e.Types = append(c.e.Params, value), append(c.e.Types, is)
	}
	return true
}

// prepare registers a prepared statement under its name.
func (c *converter) prepare(s *session, name, text []byte) prepared {
	if s.prepared == nil || len(s.prepared) >= maxPrepared {
		s.prepared = map[string]prepared{}
	}
	s.last++
	p := prepared{s.last, c.hash(text)}
	s.prepared[string(name)] = p
	return p
}

func (c *converter) hash(text []byte) uint64 { return maphash.Bytes(c.seed, text) }
