package supply

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"slices"
	"strings"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/trace"
)

// Reasons why an event is not replayed, besides those of package log.
const (
	whyNotPrepared = "EXECUTE of what was prepared before the log began"
	whyNotKnown    = "the end of a prepared statement that is not known"
)

// convert writes the events of a log that a policy allows to a trace, and closes it. With ordered the trace has the
// order of the transactions, and there must be some whose ids the log tells.
func convert(ctx context.Context, r *log.Reader, p log.Policy, w *trace.Writer, ordered bool) error {
	c := converter{w: w, ordered: ordered, plan: log.Planner{Policy: p, Dialect: r.Dialect()},
		sessions: map[uint64]*session{}, seed: maphash.MakeSeed()}
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
	if ordered && w.Transactions() == 0 {
		return errNoTransactions
	}
	a := r.Account()
	m.Statements, m.Bytes, m.Database = trace.Parts(a.Statements), trace.Parts(a.Bytes), c.databases.only()
	return w.Close()
}

// errNoTransactions is why a log cannot be replayed in the order of its transactions.
var errNoTransactions = errors.New("order=transactions: the log tells no ids of transactions; PostgreSQL's csvlog " +
	"and jsonlog do, and its stderr with %v and %x in log_line_prefix, for transactions of several statements, and " +
	"the slow log of Percona Server with log_slow_verbosity=innodb")

// converter converts the events of a log to those of a trace.
type converter struct {
	w         *trace.Writer
	plan      log.Planner
	sessions  map[uint64]*session // open sessions
	number    uint64              // of the next statement
	e         trace.Event
	buf       []byte // values of e.Params
	seed      maphash.Seed
	databases databases
	ordered   bool   // the trace has the order of the transactions
	lastID    uint64 // of PostgreSQL, with the part that the log leaves out
}

// databases are those that the log names: the first two, without the server's own, and whether there is "postgres",
// which is both.
type databases struct {
	named    []string
	postgres bool
}

// systems are the databases that servers have of their own.
var systems = []string{"mysql", "information_schema", "performance_schema", "sys", "template0", "template1"}

// name notes the name of a database.
func (d *databases) name(b []byte) {
	switch {
	case len(b) == 0, len(d.named) > 0 && d.named[0] == string(b), len(d.named) == 2:
	case string(b) == "postgres":
		d.postgres = true
	case !slices.ContainsFunc(systems, func(s string) bool { return strings.EqualFold(s, string(b)) }):
		d.named = append(d.named, string(b))
	}
}

// only returns the only database that the log names, or "".
func (d *databases) only() string {
	switch {
	case len(d.named) == 1:
		return d.named[0]
	case len(d.named) == 0 && d.postgres:
		return "postgres"
	}
	return ""
}

// session is the state of an open session.
type session struct {
	database string              // default database, as far as it is known from the log
	last     uint32              // number of the last prepared statement
	prepared map[string]prepared // by name
	texts    map[uint64]struct{} // hashes of the PREPARE statements
	tx       transaction
}

// transaction is the last one of a session.
type transaction struct {
	local uint64 // log.Event.LocalTx
	id    uint64 // 0 until it is known
	begun bool   // first is the number of its first statement in the trace
	first uint64
	told  bool // the trace has it
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
	c.databases.name(e.Database)
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
	err = errors.Join(err, c.w.Add(e.Session, t))
	if e.Op.Statement() && c.ordered && err == nil {
		err = c.transaction(e, s)
	}
	return log.Replayed, "", err
}

// maxID is more than any id of a transaction that writes: InnoDB makes those of the others from addresses.
const maxID = 1 << 48

// transaction tells the trace of a transaction once both its id and its first statement are known: servers give
// transactions their ids when they write for the first time.
func (c *converter) transaction(e *log.Event, s *session) error {
	x, id := &s.tx, e.TxID
	switch {
	case id == 0:
	case c.plan.Dialect == lex.PostgreSQL: // the log has the last 32 bits, which begin again at some time
		if c.lastID == 0 {
			c.lastID = 1<<32 + id
		}
		c.lastID += uint64(int64(int32(uint32(id) - uint32(c.lastID))))
		id = c.lastID
	case id >= maxID:
		id = 0
	}
	begins, ends := false, false
	if e.LocalTx != 0 {
		begins = e.LocalTx != x.local
	} else {
		begins, ends = bounds(e.Text, c.plan.Dialect)
		begins = begins || id != 0 && x.id != 0 && x.id != id
	}
	if begins {
		*x = transaction{local: e.LocalTx}
	}
	if !x.begun && (begins || id != 0 || e.LocalTx != 0) {
		x.begun, x.first = true, c.number
	}
	if x.id == 0 {
		x.id = id
	}
	var err error
	if x.begun && x.id != 0 && !x.told {
		x.told = true
		err = c.w.Transaction(e.Session, x.id, x.first)
	}
	if ends {
		*x = transaction{}
	}
	return err
}

// bounds tells whether a statement begins a transaction or ends one.
func bounds(text []byte, d lex.Dialect) (begins, ends bool) {
	l := lex.Tokens(text, lex.Options{Dialect: d})
	t, _ := l.Skip()
	switch string(bytes.ToLower(text[t.Start:min(t.End, t.Start+len("rollback "))])) {
	case "begin", "start":
		return true, false
	case "commit", "end", "abort":
		return false, true
	case "rollback":
		for ok := true; ok; t, ok = l.Skip() {
			if bytes.EqualFold(text[t.Start:t.End], []byte("to")) { // a savepoint
				return false, false
			}
		}
		return false, true
	}
	return false, false
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

// follow updates the prepared statements of a session for a statement that changes them, and notes the database that
// one names.
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
	case bytes.EqualFold(first, []byte("use")) && c.plan.Dialect == lex.MySQL:
		t, _ = l.Skip()
		c.databases.name(bytes.ReplaceAll(bytes.Trim(e.Text[t.Start:t.End], "`"), []byte("``"), []byte("`")))
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
