package log

import (
	"bytes"
	"strconv"

	"tare/internal/sys/sql/lex"
)

// generalLog reads MySQL's general log. A record is a time or two tabs, the id of the connection, a command, and its
// text, which may have lines that look like records themselves. Sources: File_query_log::write_general of MySQL 5.6 and
// 8.4, MYSQL_QUERY_LOG::write of 5.1 and MariaDB 10.11, MYSQL_LOG::write of 3.23 and 5.0.
type generalLog struct {
	o    lex.Options // of the session whose record is read
	time int64
	prec int64
	any  bool        // a record came
	head generalHead // the one that begins found last
}

// generalHead is the head of a record.
type generalHead struct {
	id      uint64
	command command
	stamp   int // bytes of the time, 0 for none
	iso     bool
	text    int // where the text begins
}

type command struct {
	op   Op
	name string
}

// commands are all that the servers write. A word that is none of them is data: a generic pattern takes the fifth line
// of a statement for a record.
var commands = func() map[string]command {
	m := map[string]command{
		"Connect": {Connect, ""}, "Quit": {Quit, ""}, "Init DB": {InitDB, ""}, "Query": {Query, ""},
		"Prepare": {Prepare, ""}, "Execute": {Execute, ""}, "Close stmt": {CloseStmt, ""},
		"Reset stmt":  {ResetStmt, ""},
		"Change user": {ChangeUser, ""}, "Reset Connection": {ResetConnection, ""},
		"Reset connection": {ResetConnection, ""},
	}
	for _, name := range []string{"Sleep", "Field List", "Create DB", "Drop DB", "Refresh", "Shutdown", "Statistics",
		"Processlist", "Kill", "Debug", "Ping", "Time", "Delayed insert", "Binlog Dump", "Table Dump", "Connect Out",
		"Register Slave", "Register Replica", "Long Data", "Set option", "Fetch", "Daemon", "Binlog Dump GTID", "Error",
		"Clone", "Bulk_execute", "Com_multi", "Slave_worker", "Slave_IO", "Slave_SQL", "Unimpl get tid",
		"Subscribe Group Replication Stream", "Group Replication Data Stream subscription"} {
		m[name] = command{Other, "command " + name}
	}
	// MySQL before 5.1 cuts them off.
	for name, c := range m {
		for _, width := range []int{10, 11} {
			if len(name) > width {
				m[name[:width]] = c
			}
		}
	}
	return m
}()

// maxCommand is longer than any name of a command.
const maxCommand = 48

// parseGeneral takes the head of a record apart. The text may lie beyond b.
func parseGeneral(b []byte) (h generalHead, ok bool) {
	i := 0
	switch {
	case len(b) < 8:
		return h, false
	case b[0] == '\t' && b[1] == '\t':
		i = 2
	case b[0] == ' ':
		// Two tabs that a terminal or a web page made blanks of: the id stands far to the right.
		for i < len(b) && b[i] == ' ' {
			i++
		}
		if i < 16 {
			return h, false
		}
	case b[0]-'0' > 9:
		return h, false
	case b[4] == '-':
		if h.stamp = isoLength(b); h.stamp == 0 {
			return h, false
		}
		h.iso, i = true, h.stamp
	case b[6] == ' ':
		if h.stamp = oldLength(b); h.stamp == 0 {
			return h, false
		}
		i = h.stamp
		if i >= len(b) || b[i] != '\t' && b[i] != ' ' {
			return h, false
		}
	default:
		return h, false
	}
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	begin := i
	for ; i < len(b) && b[i]-'0' <= 9 && i < begin+20; i++ {
		h.id = h.id*10 + uint64(b[i]-'0')
	}
	if i == begin || i >= len(b) || b[i] != ' ' {
		return h, false
	}
	i++
	if i >= len(b) || (b[i]|0x20) < 'a' || (b[i]|0x20) > 'z' {
		return h, false
	}
	end := i
	for end < len(b) && end < i+maxCommand && b[end] != '\t' && b[end] != '\n' {
		end++
	}
	name := b[i:end]
	if end < len(b) && b[end] == '\t' {
		h.command, ok = commandNamed(name)
		h.text = end + 1
		return h, ok
	}
	return h.padded(b, i, end)
}

// padded takes the command and the place of the text from a record of MySQL before 5.1: a name filled up with blanks to
// 10 or 11 bytes, and one blank more.
func (h generalHead) padded(b []byte, i, end int) (generalHead, bool) {
	var ok bool
	if end >= len(b) || b[end] == '\n' {
		if h.command, ok = commandNamed(bytes.TrimRight(b[i:end], " \r")); ok {
			h.text = end
			return h, true
		}
	}
	for _, width := range []int{10, 11} {
		if i+width >= len(b) || b[i+width] != ' ' {
			continue
		}
		if h.command, ok = commandNamed(bytes.TrimRight(b[i:i+width], " ")); ok {
			for h.text = i + width + 1; h.text < len(b) && b[h.text] == ' '; h.text++ {
			}
			return h, true
		}
	}
	return h, false
}

func commandNamed(name []byte) (command, bool) {
	if string(name) == "Query" {
		return command{op: Query}, true
	}
	c, ok := commands[string(name)]
	return c, ok
}

// isoLength is the length of a time such as 2020-05-27T05:03:27.500301Z or with +02:00 at its end, 0 for none.
func isoLength(b []byte) int {
	const plain = len("2020-05-27T05:03:27.500301")
	if len(b) < plain+1 || b[10] != 'T' || b[13] != ':' || b[16] != ':' || b[19] != '.' {
		return 0
	}
	for i := range plain {
		if c := b[i] - '0'; c > 9 && i != 4 && i != 7 && i != 10 && i != 13 && i != 16 && i != 19 {
			return 0
		}
	}
	switch {
	case b[plain] == 'Z':
		return plain + 1
	case len(b) >= plain+6 && (b[plain] == '+' || b[plain] == '-') && b[plain+3] == ':':
		return plain + 6
	}
	return 0
}

// oldLength is the length of a time such as 071015  1:43:52, 0 for none.
func oldLength(b []byte) int {
	for i := range 6 {
		if b[i]-'0' > 9 {
			return 0
		}
	}
	i := 7
	for i < 10 && i < len(b) && b[i] == ' ' {
		i++
	}
	if i >= len(b) {
		return 0
	}
	_, n := timeOfDay(b[i:])
	if n == 0 {
		return 0
	}
	return i + n
}

func (g *generalLog) begins(b []byte) (int, bool) {
	// For nearly all lines of a statement a byte tells.
	if len(b) >= 16 && b[0] != '\t' && b[0]-'0' > 9 && (b[0] != ' ' || b[15] != ' ') {
		return 0, false
	}
	h, ok := parseGeneral(b)
	if ok {
		g.head = h
	}
	return h.text, ok
}

func (g *generalLog) closes(text []byte, at int) bool { return closes(text, at, g.o) }

func (g *generalLog) plausible(text []byte) bool { return plausible(text, g.o) }

func (g *generalLog) next(r *Reader, e *Event) error {
	for {
		b := r.in.head(0)
		if len(b) == 0 {
			return r.in.err
		}
		if r.zeros() {
			continue
		}
		if !r.cutter.begun {
			if _, ok := g.begins(b); !ok {
				r.between(g)
				continue
			}
		}
		if g.record(r, e, g.head) {
			return nil
		}
	}
}

// between takes a line that is no record and no part of one.
func (r *Reader) between(f shape) {
	line := r.in.line(4 << 10)
	text := bytes.TrimRight(line, "\r\n")
	switch {
	case len(text) == 0:
		r.skip(len(line), whyBlank)
	case banner(text), bytes.HasPrefix(text, []byte("Tcp port: ")), bytes.HasPrefix(text, []byte("TCP Port: ")),
		bytes.HasPrefix(text, []byte("Time   ")), bytes.HasPrefix(text, []byte("Time\t")):
		r.skip(len(line), whyHeader)
	default:
		// The rest of a record whose head is elsewhere is one statement, however many lines it has.
		n := len(line)
		statements := int64(1)
		for {
			r.lose(n, statements, whyNoBegin)
			statements = 0
			whole := line[n-1] == '\n'
			b := r.in.atLeast(maxHead)
			if _, ok := f.begins(b); len(b) == 0 || whole && ok {
				return
			}
			line = r.in.line(4 << 10)
			if n = len(line); whole && banner(bytes.TrimRight(line, "\r\n")) {
				return
			}
		}
	}
}

// record takes the record that begins the window, and tells whether e is an event of it.
func (g *generalLog) record(r *Reader, e *Event, h generalHead) bool {
	b := r.in.bytes()
	var t reading
	n := 1
	switch {
	case h.iso:
		t, n = r.clock.stamp(b[:h.stamp])
	case h.stamp > 0:
		t, n = r.clock.old(b[:h.stamp])
	}
	if h.stamp > 0 && n > 0 {
		g.time, g.prec = r.clock.at(t), t.precision
	}
	if n == 0 || !g.any && h.stamp == 0 {
		g.time = NoTime
	}
	g.any = true
	s := r.sess.get(h.id)
	g.o = lex.Options{NoBackslashEscapes: s.noBackslash, AnsiQuotes: s.ansi}
	r.cutter.state.Reset(g.o)
	r.cutter.guess.Reset(g.o)
	r.cutter.asks, r.cutter.skeleton = g.o == lex.Options{}, r.cutter.skeleton[:0]
	offset := r.in.took
	end, how := r.cut(g, h.text, &r.cutter.state, &r.cutter.guess)
	if how == endsLost {
		return false
	}
	b = r.in.bytes()[:end]
	text := unbroken(b[min(h.text, end):])
	ambiguous, lost := how.reasons()
	if lost != "" {
		statements := int64(0)
		if h.command.op.Statement() {
			statements = 1
		}
		r.lose(end, statements, lost)
		return false
	}
	e.Op, e.Session, e.Begun = h.command.op, s.number, s.fresh
	e.Time, e.Precision, e.Ambiguous, e.Offset = g.time, g.prec, ambiguous, offset
	if why := g.fill(r, e, s, h, text); why != "" {
		e.clear()
		r.aside(s.number, end, why)
		return false
	}
	if len(r.cutter.skeleton) > 0 && len(e.Text) == len(text) {
		e.skeleton = r.cutter.skeleton
	}
	s.fresh = false
	e.Length = r.in.take(end)
	return true
}

// fill sets the fields that depend on the command. It returns why the record is no event, if it is none.
func (g *generalLog) fill(r *Reader, e *Event, s *session, h generalHead, text []byte) (why string) {
	connected, executes, prepares := s.connected, s.textExecute, s.textPrepare
	s.connected = false
	switch h.command.op {
	case Other:
		s.connected = connected
		return h.command.name
	case Connect:
		return g.connect(r, e, s, h.id, text, connected)
	case Quit:
		r.sess.end(h.id)
	case InitDB:
		e.Database = text
	case Query:
		s.textExecute, s.textPrepare = 0, 0
		e.Text = text
		why = s.follow(text, g.o)
		r.textExecutes += s.textExecute
		return why
	case Prepare:
		if prepares > 0 {
			s.textPrepare--
			return whyTwice
		}
		e.Text = numbered(text)
		e.Name = r.number(r.sess.prepare(s, e.Text))
	case Execute:
		e.Text = numbered(text)
		if executes > 0 {
			// It stands for the EXECUTE before it, which was left out.
			r.textExecutes--
			s.textExecute--
			e.Op = Query
			return ""
		}
		r.bind(e, s)
	case ChangeUser:
		r.sess.forget(s)
		s.reset()
		connection(e, text)
	case ResetConnection:
		r.sess.forget(s)
		s.reset()
	case CloseStmt:
		if len(s.statements) == 1 {
			e.Name = r.number(s.statements[0].number)
			r.sess.forget(s)
		}
	}
	return ""
}

// number writes the number of a prepared statement.
func (r *Reader) number(n int64) []byte {
	r.name = strconv.AppendInt(r.name[:0], n, 10)
	return r.name
}

// numbered is a text without the [1] that MySQL before 5.1 writes before statements that are prepared and executed.
func numbered(text []byte) []byte {
	if len(text) > 3 && text[0] == '[' {
		if n := bytes.IndexByte(text[:min(len(text), 24)], ']'); n > 1 && n+1 < len(text) && text[n+1] == ' ' {
			if _, ok := digits(text[1:n]); ok {
				return text[n+2:]
			}
		}
	}
	return text
}

// bind finds the statement of an Execute among those that its session prepared.
func (r *Reader) bind(e *Event, s *session) {
	o := lex.Options{NoBackslashEscapes: s.noBackslash, AnsiQuotes: s.ansi}
	for i := len(s.statements) - 1; i >= 0; i-- {
		p := &s.statements[i]
		var ok bool
		if r.spans, ok = lex.Bind(r.spans[:0], p.text, e.Text, o); !ok {
			continue
		}
		r.params = r.params[:0]
		for _, span := range r.spans {
			r.params = append(r.params, e.Text[span.Start:span.End])
		}
		e.Prepared, e.Params, e.Name = p.text, r.params, r.number(p.number)
		e.NoBackslash = s.noBackslash
		return
	}
}

// connect looks at a Connect. A login that fails has two: the second says why.
func (g *generalLog) connect(r *Reader, e *Event, s *session, id uint64, text []byte, connected bool) string {
	if !connection(e, text) {
		e.Op, e.Begun = Denied, false
		if s.denied = !connected; connected {
			r.sess.end(id)
		}
		return ""
	}
	if s.denied {
		return "logins that failed"
	}
	if !e.Begun {
		// The id comes again: the server was started anew, or the end of the session before is not in the log.
		r.sess.end(id)
		s = r.sess.get(id)
		e.Session = s.number
	}
	e.Begun, s.fresh, s.connected = false, false, true
	return ""
}

// connection takes USER@HOST [as USER] on [DATABASE] [using TCP/IP] apart.
func connection(e *Event, text []byte) bool {
	at := bytes.LastIndex(text, []byte(" on "))
	if at < 0 {
		if !bytes.HasSuffix(text, []byte(" on")) {
			return false
		}
		at = len(text) - 3
	}
	who := text[:at]
	user, host, ok := bytes.Cut(who, []byte("@"))
	if !ok || bytes.ContainsAny(user, "'") {
		return false
	}
	host, _, _ = bytes.Cut(host, []byte(" as "))
	db := text[min(at+4, len(text)):]
	if n := bytes.LastIndex(db, []byte(" using ")); n >= 0 {
		db = db[:n]
	} else if bytes.HasPrefix(db, []byte("using ")) {
		db = nil
	}
	e.User, e.Host, e.Database = user, host, bytes.TrimSpace(db)
	return true
}

// follow updates the session's state by a statement. It returns why that is no event, if it is none.
func (s *session) follow(text []byte, o lex.Options) string {
	if len(text) == 0 {
		return ""
	}
	l := lex.Tokens(text, o)
	t, ok := l.Skip()
	if !ok || t.Kind != lex.Word {
		return ""
	}
	switch c := text[t.Start] | 0x20; {
	case c == 's' && equalFold(text[t.Start:t.End], "set"):
		s.set(text, o)
	case c == 'e' && equalFold(text[t.Start:t.End], "execute"):
		next, _ := l.Skip()
		s.textExecute = 1
		if equalFold(text[next.Start:next.End], "immediate") {
			s.textPrepare = 1
		}
		return whyTwice
	case c == 'p' && equalFold(text[t.Start:t.End], "prepare"):
		s.textPrepare = 1
		return whyTwice
	case (c == 'd' || c == 'x') && equalFold(text[t.Start:t.End], "deallocate"):
		return whyTwice
	}
	return ""
}

// equalFold compares with a word in lower case.
func equalFold(word []byte, lower string) bool {
	if len(word) != len(lower) {
		return false
	}
	for i := range word {
		c := word[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// set looks for sql_mode, which decides the meaning of a backslash and a double quote.
func (s *session) set(text []byte, o lex.Options) {
	l := lex.Tokens(text, o)
	for {
		t, ok := l.Skip()
		if !ok {
			return
		}
		name := text[t.Start:t.End]
		if t.Kind == lex.Variable {
			name = name[bytes.LastIndexByte(name, '.')+1:]
			name = bytes.TrimLeft(name, "@")
		}
		if t.Kind != lex.Word && t.Kind != lex.Variable || !equalFold(name, "sql_mode") {
			continue
		}
		for {
			if t, ok = l.Skip(); !ok || t.Kind == lex.Op && text[t.Start] == ',' {
				return
			}
			if t.Kind == lex.String || t.Kind == lex.Word {
				value := bytes.ToUpper(text[t.Start:t.End])
				s.noBackslash = bytes.Contains(value, []byte("NO_BACKSLASH_ESCAPES"))
				s.ansi = bytes.Contains(value, []byte("ANSI"))
			}
		}
	}
}
