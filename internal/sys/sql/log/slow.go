package log

import (
	"bytes"
	"strconv"

	"tare/internal/sys/sql/lex"
)

// slowLog reads the slow log of MySQL, MariaDB and Percona Server: lines of facts that begin with #, then the log's own
// statements (use, SET timestamp), then the statement with a semicolon. It is written when the statement has ended, so
// events come in the order of their ends. Sources: File_query_log::write_slow of MySQL 5.7 and 8.4,
// MYSQL_QUERY_LOG::write of MariaDB 10.11, the samples of Percona Toolkit.
type slowLog struct {
	o        lex.Options
	end      int64 // of the record, from # Time
	prec     int64
	database []byte // the last one that the log named, for all sessions
	// ahead is the time by which clocks on the wall were ahead of UTC, by the last SET timestamp beside a # Time
	// without a zone.
	ahead    int64
	hasAhead bool
	f        slowFacts
}

// slowFacts are those of one record.
type slowFacts struct {
	id                 uint64
	hasID              bool
	user, host, schema []byte
	hasSchema          bool
	query              int64 // Query_time, -1 for none
	rows               int64
	trx                uint64
	start              int64   // Start, of MySQL's log_slow_extra
	stamp              int64   // SET timestamp
	end                reading // # Time
	routine            bool    // a stored routine carried it out
}

// slowKeys are the facts that the first line of a record can begin with.
var slowKeys = [][]byte{[]byte("Time: "), []byte("User@Host: "), []byte("Query_time: "), []byte("Thread_id: "),
	[]byte("Schema: "), []byte("User: "), []byte("Client: "), []byte("Query_time\t"), []byte("administrator command: ")}

func (s *slowLog) begins(b []byte) (int, bool) {
	if len(b) < 8 || b[0] != '#' || b[1] != ' ' {
		return 0, false
	}
	for _, k := range slowKeys {
		if bytes.HasPrefix(b[2:], k) {
			return 2 + len(k), true
		}
	}
	return 0, false
}

func (s *slowLog) closes(text []byte, at int) bool { return closes(text, at, s.o) }

func (s *slowLog) plausible(text []byte) bool { return plausible(text, s.o) }

func (s *slowLog) next(r *Reader, e *Event) error {
	for {
		b := r.in.head(0)
		if len(b) == 0 {
			return r.in.err
		}
		if r.zeros() {
			continue
		}
		if _, ok := s.begins(b); !ok {
			r.between(s)
			continue
		}
		if s.record(r, e) {
			return nil
		}
	}
}

// maxFacts bounds the lines of facts of a record, in bytes: MariaDB writes a plan there.
const maxFacts = 256 << 10

// factsEnd tells where the lines of facts end.
func (s *slowLog) factsEnd(r *Reader) (at int) {
	for timed := false; at < maxFacts; {
		line := r.lineAt(at)
		if len(line) == 0 || line[0] != '#' || bytes.HasPrefix(line, adminPrefix) {
			break
		}
		// After the times another time or user begins another record, where this one has no statement.
		if fact := line[1:]; timed &&
			(bytes.HasPrefix(fact, []byte(" Time: ")) || bytes.HasPrefix(fact, []byte(" User@Host: "))) {
			break
		}
		timed = timed || bytes.HasPrefix(line[1:], []byte(" Query_time"))
		at += len(line)
	}
	return at
}

// facts takes the lines of facts apart.
func (s *slowLog) facts(r *Reader, b []byte) {
	s.f = slowFacts{query: -1, rows: -1, start: NoTime, stamp: NoTime}
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		s.factLine(r, bytes.TrimRight(line[1:], "\r"))
		b = rest
	}
}

// lineAt returns the line that begins at an offset of the window, with its line feed, as far as it is there.
func (r *Reader) lineAt(at int) []byte {
	for from := at; ; {
		b := r.in.bytes()
		if n := bytes.IndexByte(b[from:], '\n'); n >= 0 {
			return b[at : from+n+1]
		}
		if from = len(b); from-at > maxFacts || !r.in.more() {
			return r.in.bytes()[at:]
		}
	}
}

var adminPrefix = []byte("# administrator command: ")

// factLine takes "Key: value  Key: value" apart.
func (s *slowLog) factLine(r *Reader, line []byte) {
	line = bytes.TrimLeft(line, " ")
	if rest, ok := bytes.CutPrefix(line, []byte("Time: ")); ok {
		// A name where the date should be, or a user on the same line, is known from logs that were written to.
		t, n := r.clock.stamp(rest)
		if n == 0 {
			t, n = r.clock.old(rest)
		}
		if s.end = NoTime; n > 0 {
			s.f.end = t
		}
		at := bytes.Index(rest, []byte("# User@Host: "))
		if at < 0 {
			return
		}
		line = rest[at+2:]
	}
	if rest, ok := bytes.CutPrefix(line, []byte("User@Host: ")); ok {
		line = s.userHost(rest)
	}
	for len(line) > 0 {
		key, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return
		}
		if n := bytes.LastIndexByte(key, ' '); n >= 0 {
			key = key[n+1:]
		}
		rest = bytes.TrimLeft(rest, " \t")
		// A schema may be empty: then the next key follows, which ends in a colon.
		value := rest
		if n := bytes.IndexAny(rest, " \t"); n >= 0 {
			value = rest[:n]
		}
		if bytes.HasSuffix(value, []byte(":")) && string(key) == "Schema" {
			value = nil
		}
		s.fact(r, key, value)
		line = rest[len(value):]
	}
}

func (s *slowLog) fact(r *Reader, key, value []byte) {
	switch string(key) {
	case "Id", "Thread_id":
		if n, err := strconv.ParseUint(string(value), 10, 64); err == nil {
			s.f.id, s.f.hasID = n, true
		}
	case "Schema":
		s.f.schema, s.f.hasSchema = value, true
	case "Query_time":
		if s.f.query = decimal(value); s.f.query > longestQuery {
			s.f.query = -1 // old servers subtract unsigned numbers when the clock goes back
		}
	case "Rows_sent":
		if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
			s.f.rows = n
		}
	case "InnoDB_trx_id":
		s.f.trx, _ = strconv.ParseUint(string(value), 16, 64)
	case "Start":
		if t, n := r.clock.stamp(value); n > 0 {
			s.f.start = r.clock.at(t)
		}
	case "Stored_routine", "Stored routine":
		s.f.routine = len(value) > 0
	}
}

// longestQuery is a year, in microseconds: no statement takes that.
const longestQuery = 365 * 86400 * second

// decimal reads seconds such as 0.000043 as microseconds; -1 if it is no number.
func decimal(b []byte) int64 {
	n, i := int64(0), 0
	for ; i < len(b) && b[i]-'0' <= 9 && i < 12; i++ {
		n = n*10 + int64(b[i]-'0')
	}
	if i == 0 {
		return -1
	}
	us, _, _ := fraction(b[i:])
	return n*second + us
}

// userHost reads NAME[NAME] @ HOST [ADDRESS], and returns the rest.
func (s *slowLog) userHost(b []byte) []byte {
	user, rest, ok := bytes.Cut(b, []byte(" @ "))
	if !ok {
		return nil
	}
	if n := bytes.IndexByte(user, '['); n > 0 {
		user = user[:n]
	}
	s.f.user = user
	open := bytes.IndexByte(rest, '[')
	if open < 0 {
		s.f.host = bytes.TrimSpace(rest)
		return nil
	}
	s.f.host = bytes.TrimSpace(rest[:open])
	n := bytes.IndexByte(rest[open:], ']')
	if n < 0 {
		return nil
	}
	if len(s.f.host) == 0 {
		s.f.host = rest[open+1 : open+n]
	}
	return rest[open+n+1:]
}

// record takes the record that begins the window, and tells whether e is an event of it.
func (s *slowLog) record(r *Reader, e *Event) bool {
	head := s.factsEnd(r)
	offset := r.in.took
	b := r.in.head(head)
	if _, ok := s.begins(b[min(head, len(b)):]); head >= len(b) || ok && !bytes.HasPrefix(b[head:], adminPrefix) {
		r.lose(min(head, len(b)), 0, "facts without a statement")
		return false
	}
	r.cutter.state.Reset(s.o)
	r.cutter.guess.Reset(s.o)
	end, how := r.cut(s, head, &r.cutter.state, &r.cutter.guess)
	if how == endsLost {
		return false
	}
	from := head
	if line := r.lineAt(end); len(line) < maxHead && bytes.HasPrefix(line, adminPrefix) &&
		stamps(r.in.bytes()[head:end]) {
		// MySQL adds the same before a command as before a statement.
		from, end = end, end+len(line)
	}
	b = r.in.bytes()[:end]
	s.facts(r, b[:head])
	s.statement(b[head:from])
	ambiguous, lost := how.reasons()
	if lost != "" {
		r.lose(end, 1, lost)
		return false
	}
	s.fill(r, e, b[from:])
	e.Ambiguous, e.Offset = ambiguous, offset
	if e.Op == Other {
		e.clear()
		r.aside(r.sess.get(s.session(r)).number, end, whyAdmin)
		return false
	}
	e.Length = r.in.take(end)
	return true
}

// stamps tells whether a text ends with the line that sets the time.
func stamps(text []byte) bool {
	line := bytes.TrimRight(text, "\r\n")
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	return len(line) > 14 && equalFold(line[:14], "set timestamp=")
}

// fill makes an event of the facts and the text that follows them.
func (s *slowLog) fill(r *Reader, e *Event, text []byte) {
	f := &s.f
	x := r.sess.get(s.session(r))
	if _, admin := bytes.CutPrefix(text, adminPrefix); !admin {
		e.Text = s.statement(text)
	}
	if f.end.precision > 0 {
		s.end, s.prec = s.ended(r), f.end.precision
	}
	if rest, ok := bytes.CutPrefix(text, adminPrefix); ok {
		switch command := bytes.TrimRight(rest, "; \r\n"); {
		case equalFold(command, "quit"):
			e.Op, e.Session, e.Begun = Quit, x.number, x.fresh
			r.sess.end(s.session(r))
		case equalFold(command, "reset connection"):
			e.Op, e.Session, e.Begun = ResetConnection, x.number, x.fresh
		default:
			return
		}
	} else {
		e.Op, e.Session, e.Begun = Query, x.number, x.fresh
	}
	x.fresh = false
	e.User, e.Host, e.Database = f.user, f.host, s.database
	if f.hasSchema {
		e.Database = f.schema
	}
	e.Duration, e.Rows, e.TxID = f.query, f.rows, f.trx
	e.Routine = f.routine
	switch {
	case f.start != NoTime:
		e.Time, e.Precision = f.start, 1
	case s.end != NoTime:
		e.Time, e.Precision = s.end-max(0, f.query), s.prec
		// In logs of whole seconds SET timestamp tells when statements that took less began.
		if s.prec == second && f.stamp != NoTime && f.query < second && f.stamp > e.Time && f.stamp-e.Time < second {
			e.Time = f.stamp
		}
	case f.stamp != NoTime:
		e.Time, e.Precision = f.stamp, second
	}
}

// ended is the time at which the record was written. SET timestamp is in UTC; # Time has no zone in logs of MariaDB and
// of MySQL before 5.7: the two are a whole number of quarters of an hour apart, and for as long as the statement took.
func (s *slowLog) ended(r *Reader) int64 {
	t := s.f.end
	if !t.local {
		return t.us
	}
	if s.f.stamp != NoTime {
		for _, took := range []int64{0, max(0, s.f.query)} {
			apart := t.us - took - s.f.stamp
			ahead := (apart + 14*hour + hour/8) / (hour / 4) * (hour / 4)
			ahead -= 14 * hour
			if off := apart - ahead; apart > -13*hour && apart < 15*hour && max(off, -off) <= 2*second {
				s.ahead, s.hasAhead = ahead, true
				return t.us - ahead
			}
		}
	}
	if s.hasAhead {
		return t.us - s.ahead
	}
	return r.clock.at(t)
}

// session is the number of the connection, or one made of the user where the log has none.
func (s *slowLog) session(r *Reader) uint64 {
	if s.f.hasID {
		return s.f.id
	}
	r.note("the log has no connection ids: what one user asked from one host is one session")
	return hash(s.f.user, s.f.host)
}

// hash makes an id of texts. (FNV-1a.)
func hash(texts ...[]byte) uint64 {
	h := uint64(14695981039346656037)
	for _, t := range texts {
		for _, c := range t {
			h = (h ^ uint64(c)) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return h
}

// statement removes the log's own text before and behind a statement. Where nothing else is there, that was the
// statement.
func (s *slowLog) statement(text []byte) []byte {
	text = trimStatement(text)
	stamped := false
	for {
		line, rest, more := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimRight(line, "\r")
		switch {
		case !stamped && len(line) > 5 && line[len(line)-1] == ';' && equalFold(line[:4], "use "):
			s.database = append(s.database[:0], bytes.Trim(line[4:len(line)-1], "` ")...)
		case len(line) > 15 && line[len(line)-1] == ';' && equalFold(line[:4], "set ") &&
			(equalFold(line[4:14], "timestamp=") || equalFold(line[4:14], "insert_id=") ||
				equalFold(line[4:14], "last_inser")):
			if equalFold(line[4:14], "timestamp=") {
				stamped = true
				if us := decimal(line[14 : len(line)-1]); us >= 0 && us < maxEpoch*second {
					s.f.stamp = us
				}
			}
		default:
			if !more && len(line) > 5 && equalFold(line[:4], "use ") {
				s.database = append(s.database[:0], bytes.Trim(line[4:], "`; ")...)
			}
			return text
		}
		text = rest
	}
}

// trimStatement takes the semicolon and the line feed away that the log writes behind a statement.
func trimStatement(text []byte) []byte {
	text = bytes.TrimRight(text, "\r\n")
	return bytes.TrimSuffix(text, []byte(";"))
}
