package log

import (
	"bytes"
	"strconv"
)

// pgRecord is a message of PostgreSQL, whatever the format that it was written in.
type pgRecord struct {
	at         reading // as the line has it; when turns it into
	time, prec int64
	user, db   []byte
	host       []byte
	session    uint64
	hasSession bool
	severity   severity
	message    []byte
	detail     []byte
	txID       uint64
	line       uint64 // its number in the session
	localTx    uint64
}

// virtual reads the number of a transaction of its process, such as 3/1234.
func (p *pgRecord) virtual(b []byte) {
	if _, local, ok := bytes.Cut(b, []byte("/")); ok {
		p.localTx, _ = strconv.ParseUint(string(local), 10, 64)
	}
}

type severity uint8

const (
	noSeverity severity = iota
	sevLog
	sevDetail    // follows a message: DETAIL
	sevStatement // STATEMENT, CONTEXT, HINT, QUERY, LOCATION
	sevMessage   // everything else
)

// severityNamed knows the words that stand before messages. They are English: lc_messages must be.
func severityNamed(word []byte) severity {
	switch string(word) {
	case "LOG":
		return sevLog
	case "DETAIL":
		return sevDetail
	case "STATEMENT", "CONTEXT", "HINT", "QUERY", "LOCATION", "BACKTRACE":
		return sevStatement
	case "ERROR", "FATAL", "PANIC", "WARNING", "NOTICE", "INFO", "DEBUG", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4",
		"DEBUG5":
		return sevMessage
	}
	return noSeverity
}

// severityAt reads "LOG:  " and the like, and returns how many bytes that is.
func severityAt(b []byte) (severity, int) {
	i := 0
	for i < len(b) && i < 10 && (b[i] >= 'A' && b[i] <= 'Z' || b[i]-'0' <= 9) {
		i++
	}
	if i >= len(b) || b[i] != ':' {
		return noSeverity, 0
	}
	s := severityNamed(b[:i])
	if s == noSeverity {
		return s, 0
	}
	i = skipSpace(b, i+1)
	if s == sevLog || s == sevMessage {
		i += addition(b[i:])
	}
	return s, i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] == ' ' {
		i++
	}
	return i
}

// addition is the length of the text that some settings and servers write between the severity and the message: an
// SQLSTATE (log_error_verbosity=verbose), or the place in the source in brackets (AlloyDB).
func addition(b []byte) int {
	n, digit := 0, false
	for n < len(b) && n < 5 && (b[n]-'0' <= 9 || b[n] >= 'A' && b[n] <= 'Z') {
		digit = digit || b[n]-'0' <= 9
		n++
	}
	if n == 5 && digit && len(b) > 6 && b[5] == ':' && b[6] == ' ' {
		return skipSpace(b, 6)
	}
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b[:min(len(b), 120)], ']')
		if end < 0 {
			return 0
		}
		file, line, ok := bytes.Cut(b[1:end], []byte{':'})
		if _, k := number(line); ok && k > 0 && k == len(line) && bytes.IndexByte(file, '.') > 0 &&
			bytes.IndexByte(file, ' ') < 0 && end+1 < len(b) && b[end+1] == ' ' {
			return skipSpace(b, end+1)
		}
	}
	return 0
}

// event makes an event of a message. It returns why it is none, if so. Sources: check_log_statement, exec_*_message and
// check_log_duration of PostgreSQL 17's postgres.c, ClientAuthentication and log_disconnections.
func (p *pgRecord) event(r *Reader, e *Event) (why string) {
	if p.severity != sevLog {
		return whyMessages
	}
	m := p.message
	duration := int64(-1)
	if rest, ok := bytes.CutPrefix(m, []byte("duration: ")); ok {
		n := bytes.IndexByte(rest, ' ')
		if n < 0 || !bytes.HasPrefix(rest[n:], []byte(" ms")) {
			return whyMessages
		}
		duration = milliseconds(rest[:n])
		if m = bytes.TrimLeft(rest[n+3:], " "); len(m) == 0 {
			return whyDuration
		}
	}
	kind, text, ok := bytes.Cut(m, []byte(": "))
	if !ok {
		// A statement whose first line is empty.
		if kind, text, ok = bytes.Cut(m, []byte(":")); !ok {
			return whyMessages
		}
	}
	word, name, _ := bytes.Cut(kind, []byte(" "))
	switch string(word) {
	case "statement":
		e.Op, e.Text = Query, text
	case "execute":
		if bytes.HasPrefix(name, []byte("fetch from ")) {
			return "further rows of what was carried out"
		}
		e.Op, e.Text = Execute, text
		if name, _, _ = bytes.Cut(name, []byte("/")); string(name) != "<unnamed>" {
			e.Name = name
		}
	case "parse", "bind":
		return whyParse
	case "plan":
		return "plans of auto_explain"
	case "connection":
		if string(kind) == "connection received" {
			return "connections received, before they say who they are"
		}
		e.Op = Connect
		p.authorized(text)
		if string(kind) != "connection authorized" {
			return whyMessages
		}
	case "disconnection":
		e.Op = Quit
	case "fastpath":
		return "calls of functions that are no SQL"
	default:
		return whyMessages
	}
	if duration >= 0 && e.Op == Connect {
		return whyMessages
	}
	p.fill(r, e, duration)
	return ""
}

// aside takes the message, which begins the window and is no event. Those of the server's own processes, which have
// neither a user nor a client, are no session's.
func (p *pgRecord) aside(r *Reader, n int, why string) {
	if r.o.Aside == nil || !p.hasSession || len(p.user) == 0 && len(p.host) == 0 {
		r.skip(n, why)
		return
	}
	r.aside(r.sess.get(p.session).number, n, why)
}

// authorized reads user=x database=y.
func (p *pgRecord) authorized(text []byte) {
	for word := range bytes.FieldsSeq(text) {
		if v, ok := bytes.CutPrefix(word, []byte("user=")); ok {
			p.user = v
		} else if v, ok := bytes.CutPrefix(word, []byte("database=")); ok {
			p.db = v
		}
	}
}

// fill sets the fields that all events have.
func (p *pgRecord) fill(r *Reader, e *Event, duration int64) {
	e.Time, e.Precision, e.Duration = p.time, p.prec, duration
	if duration > 0 && p.time != NoTime {
		e.Time -= duration // it is written at the end
	}
	id := p.session
	if !p.hasSession {
		r.note("the lines name no process and no session: what one user asked of one database is one session")
		id = hash(p.user, p.db, p.host)
	}
	s := r.sess.get(id)
	switch e.Op {
	case Connect:
		if !s.fresh {
			r.sess.end(id)
			s = r.sess.get(id)
		}
		s.fresh = false
	case Quit:
		r.sess.end(id)
	}
	e.Session, e.Begun = s.number, s.fresh
	s.fresh = false
	e.User, e.Host, e.Database, e.TxID = p.user, p.host, p.db, p.txID
	e.LocalTx, e.logged = p.localTx, true
	if e.Op.Statement() {
		p.values(r, e)
	}
}

// values reads the detail of a statement: its parameters, or the statement that EXECUTE carries out.
func (p *pgRecord) values(r *Reader, e *Event) {
	if rest, ok := bytes.CutPrefix(p.detail, []byte("prepare: ")); ok {
		e.Prepared = rest
		return
	}
	rest, ok := bytes.CutPrefix(p.detail, []byte("parameters: "))
	if !ok {
		if rest, ok = bytes.CutPrefix(p.detail, []byte("Parameters: ")); !ok {
			return
		}
	}
	r.params = r.params[:0]
	// The values are taken apart where they stand: a doubled quote becomes one.
	for len(rest) > 0 && rest[0] == '$' {
		n := bytes.Index(rest, []byte(" = "))
		if n < 0 {
			break
		}
		number, err := strconv.Atoi(string(rest[1:n]))
		if err != nil || number != len(r.params)+1 {
			break
		}
		rest = rest[n+3:]
		if bytes.HasPrefix(rest, []byte("NULL")) {
			r.params = append(r.params, nil)
			rest = rest[4:]
		} else if len(rest) > 0 && rest[0] == '\'' {
			w, end := undouble(rest, '\'')
			if end < 0 {
				break
			}
			if r.params = append(r.params, rest[:w:w]); bytes.HasSuffix(rest[:w], []byte("...")) {
				e.Unfit = whyCutValue
			}
			rest = rest[end:]
		}
		if rest = bytes.TrimPrefix(rest, []byte(",")); len(rest) > 0 && rest[0] == ' ' {
			rest = rest[1:]
		} else if len(rest) > 0 {
			break
		}
	}
	if len(rest) > 0 {
		e.Ambiguous = "its parameters cannot be read"
	}
	e.Params = r.params
}

// undouble moves the text between quotes, the first of which begins b, to the beginning of b, with one quote for each
// doubled one. It returns its length and where the quotes end, -1 if they do not.
func undouble(b []byte, quote byte) (length, end int) {
	for i := 1; i < len(b); i++ {
		if b[i] == quote {
			if i++; i == len(b) || b[i] != quote {
				return length, i
			}
		}
		b[length] = b[i]
		length++
	}
	return length, -1
}

// milliseconds reads 0.054 as microseconds.
func milliseconds(b []byte) int64 {
	n, i := int64(0), 0
	for ; i < len(b) && b[i]-'0' <= 9 && i < 15; i++ {
		n = n*10 + int64(b[i]-'0')
	}
	us, _, _ := fraction(b[i:])
	return n*1000 + us/1000
}

// pgStderr reads PostgreSQL's standard error: each message with a prefix, each further line of it with a tab.
type pgStderr struct {
	prefix *prefix
	rec    pgRecord
}

func (p *pgStderr) next(r *Reader, e *Event) error {
	for {
		b := r.in.atLeast(1)
		if len(b) == 0 {
			return r.in.err
		}
		if r.zeros() {
			continue
		}
		line := r.lineAt(0)
		if _, sev := p.prefix.match(r, line, &p.rec); sev == noSeverity {
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				r.skip(len(line), whyBlank)
			} else {
				r.lose(len(line), 0, whyNoRecord)
			}
			continue
		}
		if p.record(r, e) {
			return nil
		}
	}
}

// message returns where the message ends that begins at an offset, and whether lines belong to it that have no tab.
func (p *pgStderr) message(r *Reader, at int) (end int, unplaced bool) {
	var other pgRecord
	for end = at + len(r.lineAt(at)); ; {
		b := r.in.atLeast(end + 1)
		if len(b) <= end {
			return end, unplaced
		}
		line := r.lineAt(end)
		if line[0] != '\t' {
			if _, sev := p.prefix.match(r, line, &other); sev != noSeverity {
				return end, unplaced
			}
			unplaced = true
			if n := zerosEnd(line, 0); n > 0 {
				if _, sev := p.prefix.match(r, line[n:], &other); sev != noSeverity {
					return end, true
				}
			}
		}
		end += len(line)
		if end-at > r.o.MaxStatement {
			return end, unplaced
		}
	}
}

// record takes the message that begins the window, with its detail, and tells whether e is an event of it.
func (p *pgStderr) record(r *Reader, e *Event) bool {
	offset := r.in.took
	first, unplaced := p.message(r, 0)
	end := first
	if first > r.o.MaxStatement {
		r.lose(first, 1, whyTooLong)
		return false
	}
	// Its additions follow at once, from the same process.
	var detail pgRecord
	at := 0
	if len(r.in.atLeast(first+1)) > first {
		n, sev := p.prefix.match(r, r.lineAt(first), &detail)
		if sev == sevDetail {
			var more bool
			end, more = p.message(r, first)
			unplaced = unplaced || more
			at = first + n
		}
	}
	b := r.in.bytes()[:end]
	last := b[end-1] == '\n'
	rec := &p.rec
	n, sev := p.prefix.match(r, b[:first], rec)
	rec.settle(r)
	rec.severity = sev
	if at > 0 && rec.hasSession && rec.session != detail.session {
		end, at = first, 0
		b = b[:end]
	}
	rec.message, rec.detail = untab(b[n:first]), nil
	if at > 0 {
		rec.detail = untab(b[at:end])
	}
	if why := rec.event(r, e); why != "" {
		e.clear()
		rec.aside(r, end, why)
		return false
	}
	e.Offset = offset
	switch {
	case e.Ambiguous != "":
	case unplaced && e.Op.Statement():
		e.Ambiguous = whyUnplaced
	case !last:
		e.Ambiguous = whyLastLine
	}
	e.Length = r.in.take(end)
	return true
}

// untab takes the tab away that begins each line but the first, and the last line feed, in place.
func untab(b []byte) []byte {
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	n := bytes.Index(b, []byte("\n\t"))
	if n < 0 {
		return b
	}
	w := n
	for i := n; i < len(b); i++ {
		b[w] = b[i]
		w++
		if b[i] == '\n' && i+1 < len(b) && b[i+1] == '\t' {
			i++
		}
	}
	return b[:w]
}

// csvState follows a text in CSV: it is inside of a quoted field, or not.
type csvState struct{ in bool }

func (s *csvState) Advance(b []byte) {
	if bytes.Count(b, []byte{'"'})&1 == 1 {
		s.in = !s.in
	}
}

func (s *csvState) Inside() bool { return s.in }

// pgCSV reads csvlog: a row for each message.
type pgCSV struct {
	rec    pgRecord
	fields [][]byte
}

// The columns of csvlog that matter.
const (
	csvTime = iota
	csvUser
	csvDatabase
	csvProcess
	csvFrom
	csvSession
	csvVirtual  = 9
	csvTxID     = 10
	csvSeverity = 11
	csvMessage  = 13
	csvDetail   = 14
	csvLeast    = 22 // columns
)

func (p *pgCSV) begins(b []byte) (int, bool) {
	i := 0
	if len(b) > 0 && b[0] == '"' {
		i = 1
	}
	if len(b) < i+24 || b[i+4] != '-' || b[i+7] != '-' || b[i+10] != ' ' || b[i+13] != ':' || b[i+16] != ':' {
		return 0, false
	}
	for _, k := range []int{0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18} {
		if b[i+k]-'0' > 9 {
			return 0, false
		}
	}
	n := bytes.IndexByte(b[i+19:min(len(b), i+40)], ',')
	return 0, n >= 0
}

// closes is shape's: after a quoted field comes a comma or the end of the row.
func (p *pgCSV) closes(text []byte, at int) bool {
	in := bytes.Count(text[:at], []byte{'"'})&1 == 1
	if !in {
		return true
	}
	for i := at; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			i++
			continue
		}
		return i+1 == len(text) || text[i+1] == ',' || text[i+1] == '\n' || text[i+1] == '\r'
	}
	return true
}

func (p *pgCSV) plausible([]byte) bool { return true }

func (p *pgCSV) next(r *Reader, e *Event) error {
	for {
		b := r.in.head(0)
		if len(b) == 0 {
			return r.in.err
		}
		if r.zeros() {
			continue
		}
		if _, ok := p.begins(b); !ok {
			line := r.in.line(4 << 10)
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				r.skip(len(line), whyBlank)
			} else {
				r.lose(len(line), 0, whyNoRecord)
			}
			continue
		}
		offset := r.in.took
		r.cutter.quotes, r.cutter.guesses = csvState{}, csvState{}
		end, how := r.cut(p, 0, &r.cutter.quotes, &r.cutter.guesses)
		if how == endsLost {
			continue
		}
		if how == endsCut || how == endsOpen {
			_, lost := endsCut.reasons()
			r.lose(end, 1, lost)
			continue
		}
		b = r.in.bytes()[:end]
		p.split(b)
		if len(p.fields) < csvLeast {
			r.lose(end, 0, whyNoRecord)
			continue
		}
		p.read(r)
		if why := p.rec.event(r, e); why != "" {
			e.clear()
			p.rec.aside(r, end, why)
			continue
		}
		e.Offset = offset
		if ambiguous, _ := how.reasons(); ambiguous != "" {
			e.Ambiguous = ambiguous
		}
		e.Length = r.in.take(end)
		return nil
	}
}

// split takes a row apart, in place.
func (p *pgCSV) split(b []byte) {
	b = bytes.TrimRight(b, "\r\n")
	p.fields = p.fields[:0]
	for len(p.fields) < 64 {
		if len(b) == 0 || b[0] != '"' {
			n := bytes.IndexByte(b, ',')
			if n < 0 {
				p.fields = append(p.fields, b)
				return
			}
			p.fields = append(p.fields, b[:n])
			b = b[n+1:]
			continue
		}
		w, end := undouble(b, '"')
		p.fields = append(p.fields, b[:w:w])
		if end < 0 || end == len(b) || b[end] != ',' {
			return
		}
		b = b[end+1:]
	}
}

func (p *pgCSV) read(r *Reader) {
	f := p.fields
	p.rec = pgRecord{user: f[csvUser], db: f[csvDatabase], severity: severityNamed(f[csvSeverity]),
		message: f[csvMessage], detail: f[csvDetail]}
	p.rec.when(r, f[csvTime])
	p.rec.host, _, _ = bytes.Cut(f[csvFrom], []byte(":"))
	p.rec.identify(f[csvSession], f[csvProcess])
	p.rec.txID, _ = strconv.ParseUint(string(f[csvTxID]), 10, 64)
	p.rec.virtual(f[csvVirtual])
}

// when reads a time.
func (p *pgRecord) when(r *Reader, b []byte) {
	p.time, p.prec = NoTime, second
	if t, n := r.clock.stamp(b); n > 0 {
		p.time, p.prec = r.clock.at(t), t.precision
	}
}

// settle sets the time of the record by the times in its line. It moves the clock: once for each record.
func (p *pgRecord) settle(r *Reader) {
	if p.at.precision > 0 {
		p.time, p.prec = r.clock.at(p.at), p.at.precision
	} else if r.in.unwrap != nil {
		p.time, p.prec = r.in.unwrap.time()
	}
}

// identify reads a session's id, which is two hexadecimal numbers with a dot between them, or its process.
func (p *pgRecord) identify(session, process []byte) {
	if begun, pid, ok := bytes.Cut(session, []byte(".")); ok {
		a, err1 := strconv.ParseUint(string(begun), 16, 64)
		b, err2 := strconv.ParseUint(string(pid), 16, 32)
		if err1 == nil && err2 == nil {
			p.session, p.hasSession = a<<24^b, true
			return
		}
	}
	if pid, err := strconv.ParseUint(string(process), 10, 64); err == nil {
		p.session, p.hasSession = pid, true
	}
}
