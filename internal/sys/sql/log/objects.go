package log

import (
	"bytes"
	"strconv"
)

// object makes the window begin with a whole JSON object and returns its length, 0 at the end of the log. It accounts
// for the text before it, and for text that cannot be read.
func (r *Reader) object() int {
	for {
		b := r.in.atLeast(1)
		if len(b) == 0 {
			return 0
		}
		n := 0
		for n < len(b) && (b[n] <= ' ' || b[n] == ',' || b[n] == '[' || b[n] == ']') {
			n++
		}
		if n > 0 {
			r.skip(n, whyWrapping)
			continue
		}
		if b[0] != '{' {
			r.lose(len(r.in.line(4<<10)), 0, whyBadJSON)
			continue
		}
		var s jsonScan
		for seen := 0; ; {
			b = r.in.bytes()
			if n = s.scan(b[seen:]); n > 0 {
				return seen + n
			}
			if seen = len(b); seen > r.o.MaxStatement {
				r.lose(len(b), 1, whyTooLong)
				break
			}
			if s.broken || !r.in.more() {
				why := whyBadJSON
				if !s.broken {
					why = whyCut
				}
				r.lose(len(r.lineAt(0)), 1, why)
				break
			}
		}
	}
}

// pgJSON reads jsonlog, and CloudNativePG's form of csvlog.
type pgJSON struct {
	rec  pgRecord
	text []byte // of all members, decoded
}

func (p *pgJSON) next(r *Reader, e *Event) error {
	for {
		offset := r.in.took
		n := r.object()
		if n == 0 {
			return r.in.err
		}
		p.rec = pgRecord{time: NoTime, prec: second}
		p.text = roomFor(p.text, n)
		var session, process []byte
		p.members(r, r.in.bytes()[:n], &session, &process)
		p.rec.identify(session, process)
		if why := p.rec.event(r, e); why != "" {
			e.clear()
			r.skip(n, why)
			continue
		}
		e.Offset = offset
		e.Length = r.in.take(n)
		return nil
	}
}

// roomFor empties text and returns it with room for the members of an object of n bytes. They are decoded one behind
// the other, and each is shorter than it stands there.
func roomFor(text []byte, n int) []byte {
	switch {
	case cap(text) < n:
		return make([]byte, 0, 2*n)
	case cap(text) > keptSize && n < chunk:
		return make([]byte, 0, chunk)
	}
	return text[:0]
}

func (p *pgJSON) members(r *Reader, object []byte, session, process *[]byte) {
	rec := &p.rec
	for f := fieldsOf(object); ; {
		name, value, ok := f.next()
		if !ok {
			return
		}
		switch string(name) {
		case "timestamp", "log_time":
			rec.when(r, p.decoded(value))
		case "user", "user_name":
			rec.user = p.decoded(value)
		case "dbname", "database_name":
			rec.db = p.decoded(value)
		case "remote_host":
			rec.host = p.decoded(value)
		case "connection_from":
			rec.host, _, _ = bytes.Cut(p.decoded(value), []byte(":"))
		case "pid", "process_id":
			*process = p.decoded(value)
		case "session_id":
			*session = p.decoded(value)
		case "txid", "transaction_id":
			rec.txID, _ = strconv.ParseUint(string(p.decoded(value)), 10, 64)
		case "vxid", "virtual_transaction_id":
			rec.virtual(p.decoded(value))
		case "error_severity":
			rec.severity = severityNamed(p.decoded(value))
		case "message":
			rec.message = p.decoded(value)
		case "detail":
			rec.detail = p.decoded(value)
		case "record":
			if value[0] == '{' {
				p.members(r, value, session, process)
			}
		}
	}
}

func (p *pgJSON) decoded(value []byte) []byte {
	from := len(p.text)
	p.text = unquote(p.text, value)
	return p.text[from:len(p.text):len(p.text)]
}

// auditJSON reads the audit logs of Percona Server and MySQL Enterprise in JSON. They are written when a statement has
// ended. Sources: "JSON" and "NEW" formats of Percona Server 8.0's audit_log, "JSON Audit Log File Format" of MySQL
// 8.4.
type auditJSON struct {
	text []byte
	rec  auditRecord
}

// auditRecord is a record of an audit log.
type auditRecord struct {
	time, prec            int64
	id                    uint64
	hasID                 bool
	command               []byte // as in the general log, in any case
	user, host, db, query []byte
	status                int64
	duration, rows        int64
}

func (a *auditJSON) next(r *Reader, e *Event) error {
	for {
		offset := r.in.took
		n := r.object()
		if n == 0 {
			return r.in.err
		}
		a.rec = auditRecord{time: NoTime, prec: second, duration: -1, rows: -1}
		a.text = roomFor(a.text, n)
		a.members(r, r.in.bytes()[:n])
		if why := a.rec.event(r, e); why != "" {
			e.clear()
			r.skip(n, why)
			continue
		}
		e.Offset = offset
		e.Length = r.in.take(n)
		return nil
	}
}

func (a *auditJSON) members(r *Reader, object []byte) {
	rec := &a.rec
	var class, event []byte
	for f := fieldsOf(object); ; {
		name, value, ok := f.next()
		if !ok {
			break
		}
		switch string(name) {
		case "audit_record", "account", "general_data", "connection_data", "query_statistics":
			if value[0] == '{' {
				a.members(r, value)
			}
		case "timestamp":
			b := a.decoded(value)
			if t, n := r.clock.stamp(b); n > 0 {
				rec.time, rec.prec = r.clock.at(t), t.precision
			}
		case "connection_id":
			id, err := strconv.ParseUint(string(a.decoded(value)), 10, 64)
			rec.id, rec.hasID = id, err == nil
		case "name", "command":
			rec.command = a.decoded(value)
		case "class":
			class = a.decoded(value)
		case "event":
			event = a.decoded(value)
		case "sqltext", "query":
			rec.query = a.decoded(value)
		case "user":
			rec.user, _, _ = bytes.Cut(a.decoded(value), []byte("["))
		case "host":
			rec.host = a.decoded(value)
		case "db":
			rec.db = a.decoded(value)
		case "status":
			rec.status, _ = strconv.ParseInt(string(a.decoded(value)), 10, 64)
		case "query_time":
			rec.duration = decimal(a.decoded(value))
		case "rows_sent":
			rec.rows, _ = strconv.ParseInt(string(a.decoded(value)), 10, 64)
		}
	}
	if string(class) == "connection" {
		switch string(event) {
		case "connect":
			rec.command = []byte("Connect")
		case "disconnect":
			rec.command = []byte("Quit")
		}
	}
}

func (a *auditJSON) decoded(value []byte) []byte {
	from := len(a.text)
	a.text = unquote(a.text, value)
	return a.text[from:len(a.text):len(a.text)]
}

// event makes an event of a record. It returns why it is none, if so.
func (a *auditRecord) event(r *Reader, e *Event) (why string) {
	switch {
	case equalFold(a.command, "query"), equalFold(a.command, "execute"):
		if len(a.query) == 0 {
			return whyAdmin
		}
		e.Op, e.Text = Query, a.query
	case equalFold(a.command, "connect"):
		e.Op = Connect
		if a.status != 0 {
			e.Op = Denied
		}
	case equalFold(a.command, "quit"), equalFold(a.command, "disconnect"):
		e.Op = Quit
	case equalFold(a.command, "init db"):
		e.Op, e.Database = InitDB, a.db
		if len(a.db) == 0 {
			e.Database = a.query
		}
	case equalFold(a.command, "change user"):
		e.Op = ChangeUser
	case equalFold(a.command, "reset connection"):
		e.Op = ResetConnection
	default:
		return whyAdmin
	}
	id := a.id
	if !a.hasID {
		r.note("the log has no connection ids: what one user asked from one host is one session")
		id = hash(a.user, a.host)
	}
	s := r.sess.get(id)
	switch e.Op {
	case Connect, Denied:
		if !s.fresh {
			r.sess.end(id)
			s = r.sess.get(id)
		}
		s.fresh = false
	}
	e.Session, e.Begun = s.number, s.fresh
	s.fresh = false
	if e.Op == Quit || e.Op == Denied {
		r.sess.end(id)
	}
	e.User, e.Host = a.user, a.host
	if len(a.db) > 0 {
		e.Database = a.db
	}
	e.Time, e.Precision, e.Duration, e.Rows = a.time, a.prec, a.duration, a.rows
	if a.duration > 0 && a.time != NoTime {
		e.Time -= a.duration
	}
	return ""
}

// auditCSV reads the audit logs of MariaDB and Aurora: a line for each event, with a query in quotes. Source:
// server_audit.c of MariaDB 10.11.
type auditCSV struct{ rec auditRecord }

// auditColumns are time, server, user, host, connection, query, operation, database, object, result.
const auditColumns = 8

// begins tells whether a line is a record: the operation is known.
func (a *auditCSV) begins(line []byte) bool {
	var columns [auditColumns][]byte
	return a.columns(line, &columns) != nil
}

// columns splits off the first columns of a line and returns the rest, nil for a line that is no record.
func (a *auditCSV) columns(line []byte, columns *[auditColumns][]byte) []byte {
	for i := range columns {
		n := bytes.IndexByte(line, ',')
		if n < 0 || n > 1000 {
			return nil
		}
		columns[i] = line[:n]
		line = line[n+1:]
	}
	if _, ok := digits(bytes.TrimLeft(columns[4], " ")); !ok || len(columns[4]) == 0 {
		return nil
	}
	switch string(columns[6]) {
	case "QUERY", "CONNECT", "DISCONNECT", "FAILED_CONNECT", "READ", "WRITE", "CREATE", "ALTER", "RENAME", "DROP",
		"CHANGEUSER":
		return line
	}
	return nil
}

func (a *auditCSV) next(r *Reader, e *Event) error {
	for {
		if len(r.in.atLeast(1)) == 0 {
			return r.in.err
		}
		offset := r.in.took
		line := r.line()
		if line == nil {
			continue
		}
		var columns [auditColumns][]byte
		rest := a.columns(bytes.TrimRight(line, "\r\n"), &columns)
		if rest == nil {
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				r.skip(len(line), whyBlank)
			} else {
				r.lose(len(line), 0, whyNoRecord)
			}
			continue
		}
		why := a.read(r, e, &columns, rest)
		if why == "" {
			why = a.rec.event(r, e)
		}
		if why != "" {
			e.clear()
			r.skip(len(line), why)
			continue
		}
		e.Offset = offset
		if line[len(line)-1] != '\n' && e.Ambiguous == "" {
			e.Ambiguous = whyLastLine
		}
		e.Length = r.in.take(len(line))
		return nil
	}
}

// line returns the line that begins the window. One that is too long is lost, and nil is returned.
func (r *Reader) line() []byte {
	for from := 0; ; {
		b := r.in.bytes()
		if n := bytes.IndexByte(b[from:], '\n'); n >= 0 {
			return b[:from+n+1]
		}
		if from = len(b); from > r.o.MaxStatement {
			r.loseLine(1, whyTooLong)
			return nil
		}
		if !r.in.more() {
			return r.in.bytes()
		}
	}
}

// loseLine takes the rest of a line.
func (r *Reader) loseLine(statements int64, why string) {
	for {
		b := r.in.atLeast(1)
		n := bytes.IndexByte(b, '\n')
		if n >= 0 || len(b) == 0 {
			r.lose(n+1, statements, why)
			return
		}
		r.lose(len(b), statements, why)
		statements = 0
	}
}

// auditLimit is the length in bytes to which the server cuts a query off, unless told otherwise.
const auditLimit = 1024

func (a *auditCSV) read(r *Reader, e *Event, columns *[auditColumns][]byte, rest []byte) (why string) {
	a.rec = auditRecord{time: NoTime, prec: second, duration: -1, rows: -1}
	rec := &a.rec
	if t, n := a.when(r, columns[0]); n > 0 {
		rec.time, rec.prec = r.clock.at(t), t.precision
	}
	rec.user, rec.host, rec.db = columns[2], columns[3], columns[7]
	rec.id, _ = number(bytes.TrimLeft(columns[4], " "))
	rec.hasID = true
	switch string(columns[6]) {
	case "CONNECT":
		rec.command = []byte("connect")
	case "FAILED_CONNECT":
		rec.command, rec.status = []byte("connect"), 1
	case "DISCONNECT":
		rec.command = []byte("quit")
	case "CHANGEUSER":
		rec.command = []byte("change user")
	case "QUERY":
		rec.command = []byte("query")
		n := bytes.LastIndexByte(rest, ',')
		if n < 2 || rest[0] != '\'' || rest[n-1] != '\'' {
			return whyNoRecord
		}
		if rec.query = unescape(rest[1 : n-1]); len(rec.query) == auditLimit {
			e.Ambiguous = "as long as server_audit_query_log_limit: it may be cut off"
		}
	default:
		return "tables that a statement touches"
	}
	return ""
}

// when reads 20170817 16:04:33, or microseconds since 1970.
func (a *auditCSV) when(r *Reader, b []byte) (t reading, length int) {
	if us, n := number(b); n >= 15 && n <= 16 {
		return reading{us: int64(us), precision: 1}, n
	}
	if len(b) > 8 && b[8] == ' ' {
		return r.clock.old(b[2:])
	}
	return t, 0
}

// unescape takes the backslashes away that the audit log writes, in place.
func unescape(b []byte) []byte {
	w := 0
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '\\' && i+1 < len(b) {
			i++
			switch c = b[i]; c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case '0':
				c = 0
			}
		}
		b[w] = c
		w++
	}
	return b[:w]
}
