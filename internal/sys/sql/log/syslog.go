package log

import (
	"bytes"
	"time"
)

// pgSyslog reads PostgreSQL's messages in a syslog: a message in pieces of a line each, [5-1], [5-2] and so on, between
// those of other processes. A message is whole when its process begins another one, or has been silent for a while.
// Source: write_syslog of PostgreSQL 17's elog.c.
type pgSyslog struct {
	prefix  *prefix
	queue   []*pgMessage // in the order in which they began
	open    map[uint64]*pgMessage
	free    []*pgMessage
	lines   int64
	year    int
	month   time.Month
	current *pgMessage // whose bytes the last event has
}

// pgMessage is a message that is being put together.
type pgMessage struct {
	pid      uint64
	number   uint64 // of the message in its process; 0 where the lines have none
	text     []byte
	at       reading // of its first line
	lastLine int64   // when the last piece came
	done     bool
	tooLong  bool
	offset   int64
	length   int64
}

const (
	syslogPatience = 256 // lines after which a process will not go on with a message
	syslogBytes    = 16 << 20
)

// syslogLine is a line of a syslog taken apart.
type syslogLine struct {
	at            reading
	pid           uint64
	number, piece uint64
	text          []byte
}

// parse takes a line apart. It returns false for a line of another program.
func (p *pgSyslog) parse(r *Reader, line []byte) (s syslogLine, ok bool) {
	line = bytes.TrimRight(line, "\r\n")
	at, n := r.clock.stamp(line)
	if n == 0 {
		if at, n = p.oldTime(r, line); n == 0 {
			return s, false
		}
	}
	s.at = at
	rest := line[n:]
	// host program[pid]: or program[name.pid], with or without a colon.
	end := bytes.IndexByte(rest[:min(len(rest), 300)], ']')
	if end < 0 {
		return s, false
	}
	open := bytes.LastIndexByte(rest[:end], '[')
	if open < 0 {
		return s, false
	}
	program := rest[:end]
	if n := bytes.LastIndexByte(program[:open], ' '); n >= 0 {
		program = program[n+1:]
	}
	if !bytes.Contains(program, []byte("postgres")) {
		return s, false
	}
	pid := rest[open+1 : end]
	if n := bytes.LastIndexByte(pid, '.'); n >= 0 {
		pid = pid[n+1:]
	}
	if s.pid, n = number(pid); n == 0 || n != len(pid) {
		return s, false
	}
	s.text = bytes.TrimPrefix(bytes.TrimPrefix(rest[end+1:], []byte(":")), []byte(" "))
	// [5-1], behind whatever else stands in brackets.
	for at := s.text; len(at) > 0 && at[0] == '['; {
		n := bytes.IndexByte(at, ']')
		if n < 0 || n > 64 || n+1 >= len(at) {
			break
		}
		a, k := number(at[1:])
		if k > 0 && at[1+k] == '-' {
			if b, m := number(at[2+k:]); m > 0 && 2+k+m == n {
				s.number, s.piece = a, b
				s.text = at[n+1:]
				if s.text[0] == ' ' {
					s.text = s.text[1:]
				}
				break
			}
		}
		at = bytes.TrimLeft(at[n+1:], " ")
	}
	return s, true
}

// oldTime reads "Feb 11 13:15:39 ". It has no year: the first is 2000, and after December comes another.
func (p *pgSyslog) oldTime(r *Reader, b []byte) (t reading, length int) {
	if len(b) < 16 || b[3] != ' ' || b[6] != ' ' || b[15] != ' ' {
		return t, 0
	}
	month := time.Month(bytes.Index([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), b[:3])/3 + 1)
	day, ok := digits(b[4:6])
	clock, n := timeOfDay(b[7:15])
	if month < 1 || !ok || day < 1 || day > 31 || n == 0 {
		return t, 0
	}
	year := max(2000, p.year)
	switch {
	case p.year > 0 && p.month-month > 6:
		year++
	case p.year > 0 && month-p.month > 6:
		year-- // a line of December behind one of January
	}
	if year >= p.year {
		p.year, p.month = year, month
	}
	r.note("the lines have no year: times are those of the year 2000")
	return reading{us: time.Date(year, month, day, 0, 0, 0, 0, time.UTC).UnixMicro() + clock, precision: second,
		local: true}, 15
}

func (p *pgSyslog) next(r *Reader, e *Event) error {
	if p.open == nil {
		p.open = map[uint64]*pgMessage{}
	}
	p.recycle()
	for {
		for len(p.queue) > 0 && p.ready(p.queue[0]) {
			if p.finish(r, e) {
				return nil
			}
			p.recycle()
		}
		if len(r.in.atLeast(1)) == 0 {
			if len(p.queue) == 0 {
				return r.in.err
			}
			p.queue[0].done = true
			continue
		}
		offset := r.in.took
		line := r.line()
		if line == nil {
			continue
		}
		p.lines++
		s, ok := p.parse(r, line)
		if !ok {
			if len(bytes.TrimRight(line, "\r\n")) == 0 {
				r.skip(len(line), whyBlank)
			} else {
				r.skip(len(line), "lines of other programs")
			}
			continue
		}
		p.add(r, &s, line, offset)
	}
}

// ready tells whether nothing more comes to a message.
func (p *pgSyslog) ready(m *pgMessage) bool { return m.done || p.lines-m.lastLine > syslogPatience }

// recycle gives up the message that was handed out last.
func (p *pgSyslog) recycle() {
	if p.current != nil {
		p.free = append(p.free, p.current)
		p.current = nil
	}
}

// add puts a line where it belongs.
func (p *pgSyslog) add(r *Reader, s *syslogLine, line []byte, offset int64) {
	m := p.open[s.pid]
	begins := s.piece == 1
	var rec pgRecord
	if s.number == 0 {
		_, sev := p.prefix.match(r, s.text, &rec)
		begins = sev == sevLog || sev == sevMessage
	}
	if m != nil && (begins || m.number != s.number) {
		m.done = true
		delete(p.open, s.pid)
		m = nil
	}
	if m == nil {
		if !begins {
			r.lose(len(line), 1, whyNoBegin)
			return
		}
		if n := len(p.free); n > 0 {
			m = p.free[n-1]
			p.free = p.free[:n-1]
		} else {
			m = new(pgMessage)
		}
		if cap(m.text) > keptSize {
			m.text = nil
		}
		*m = pgMessage{pid: s.pid, number: s.number, text: m.text[:0], at: s.at, offset: offset}
		p.queue = append(p.queue, m)
		p.open[s.pid] = m
	}
	m.lastLine = p.lines
	m.piece(p.prefix, r, s.text)
	if len(m.text) > r.o.MaxStatement || p.held() > syslogBytes+r.o.MaxStatement {
		m.tooLong, m.text = true, m.text[:min(len(m.text), 4<<10)]
	}
	m.length += r.in.take(len(line))
}

// held is the number of bytes of the messages that are being put together.
func (p *pgSyslog) held() (n int) {
	if len(p.queue) < 16 {
		return 0
	}
	for _, m := range p.queue {
		n += len(m.text)
	}
	return n
}

// piece adds the text of a line. One that begins with a tab is the next line of the statement, and one with a prefix
// the detail; any other goes on where the last was too long for syslog.
func (m *pgMessage) piece(p *prefix, r *Reader, text []byte) {
	if m.tooLong {
		return
	}
	if len(m.text) > 0 {
		var rec pgRecord
		tab := len(text) > 0 && text[0] == '\t' || bytes.HasPrefix(text, []byte("#011"))
		if _, sev := p.match(r, text, &rec); tab || sev != noSeverity {
			m.text = append(m.text, '\n')
		}
	}
	m.text = appendControls(m.text, text)
}

// appendControls appends a text in which rsyslog wrote control characters as #011. A colour such as #011223 is none.
func appendControls(dst, text []byte) []byte {
	for {
		n := bytes.IndexByte(text, '#')
		if n < 0 || n+4 > len(text) {
			return append(dst, text...)
		}
		dst = append(dst, text[:n]...)
		hex := n + 1
		for hex < len(text) && hex < n+8 && isHexDigit(text[hex]) {
			hex++
		}
		a, b, c := text[n+1]-'0', text[n+2]-'0', text[n+3]-'0'
		if a == 0 && b <= 3 && c <= 7 && hex != n+7 {
			dst = append(dst, b<<3|c)
			text = text[n+4:]
		} else {
			dst = append(dst, '#')
			text = text[n+1:]
		}
	}
}

// finish makes an event of the first message of the queue. It returns false if it is none.
func (p *pgSyslog) finish(r *Reader, e *Event) bool {
	m := p.queue[0]
	p.queue = p.queue[:copy(p.queue, p.queue[1:])]
	if p.open[m.pid] == m {
		delete(p.open, m.pid)
	}
	p.current = m
	if m.tooLong {
		r.account.Add(Lost, whyTooLong, 1, m.length)
		return false
	}
	var rec, detail pgRecord
	n, sev := p.prefix.match(r, m.text, &rec)
	if sev == noSeverity {
		r.account.Add(Lost, whyNoRecord, 0, m.length)
		return false
	}
	rec.severity = sev
	if rec.at.precision == 0 {
		rec.at = m.at
	}
	rec.settle(r)
	if !rec.hasSession {
		rec.session, rec.hasSession = m.pid, true
	}
	text := m.text[n:]
	for at := 0; ; {
		k := bytes.IndexByte(text[at:], '\n')
		if k < 0 {
			break
		}
		at += k + 1
		if at < len(text) && text[at] == '\t' {
			continue
		}
		n, sev := p.prefix.match(r, text[at:], &detail)
		if sev == noSeverity {
			continue
		}
		if sev == sevDetail {
			rest := text[at+n:]
			// Until the line that begins something else.
			for end := 0; ; {
				k := bytes.IndexByte(rest[end:], '\n')
				if k < 0 {
					break
				}
				if end += k + 1; end < len(rest) && rest[end] != '\t' {
					rest = rest[:end-1]
					break
				}
			}
			rec.detail = untab(rest)
		}
		text = text[:at-1]
		break
	}
	rec.message = untab(text)
	if why := rec.event(r, e); why != "" {
		e.clear()
		r.account.Add(Skipped, why, 0, m.length)
		return false
	}
	e.Offset, e.Length = m.offset, m.length
	return true
}
