package log

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// prefix is PostgreSQL's log_line_prefix, taken apart.
type prefix struct {
	text  string
	parts []prefixPart
	// Of the line that was matched:
	steps   int
	stopped bool // it ends at %q
}

// prefixPart is an escape, or a literal text for 0.
type prefixPart struct {
	escape byte
	text   []byte
}

// parsePrefix takes a log_line_prefix apart. Source: log_status_format of PostgreSQL 17's elog.c.
func parsePrefix(text string) (*prefix, error) {
	p := &prefix{text: text}
	literal := func(c byte) {
		if n := len(p.parts); n == 0 || p.parts[n-1].escape != 0 {
			p.parts = append(p.parts, prefixPart{})
		}
		last := &p.parts[len(p.parts)-1]
		last.text = append(last.text, c)
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			literal(text[i])
			continue
		}
		for i++; i < len(text) && (text[i] == '-' || text[i]-'0' <= 9); i++ {
		}
		if i == len(text) {
			return nil, errors.New("log_line_prefix ends with %")
		}
		switch c := text[i]; c {
		case '%':
			literal('%')
		case 'a', 'u', 'd', 'r', 'h', 'b', 'p', 'P', 't', 'm', 'n', 'i', 'e', 'c', 'l', 's', 'v', 'x', 'Q', 'L', 'q':
			if n := len(p.parts); n > 0 && p.parts[n-1].escape != 0 && p.parts[n-1].escape != 'q' && c != 'q' {
				return nil, fmt.Errorf("log_line_prefix has %%%c and %%%c with nothing between them, so that "+
					"nobody can tell where one ends", p.parts[n-1].escape, c)
			}
			p.parts = append(p.parts, prefixPart{escape: c})
		default:
			return nil, fmt.Errorf("log_line_prefix has %%%c, which PostgreSQL does not know", c)
		}
	}
	return p, nil
}

// match reads the prefix and the severity after it. It returns where the message begins.
func (p *prefix) match(r *Reader, line []byte, rec *pgRecord) (n int, s severity) {
	*rec = pgRecord{time: NoTime, prec: second}
	if len(line) == 0 || line[0] == '\t' {
		return 0, noSeverity
	}
	p.steps, p.stopped = 0, false
	if n, s = p.from(r, line, rec, 0, 0); s != noSeverity || line[0] != ' ' {
		return n, s
	}
	// Blanks in front that the prefix does not have, as in a copied text.
	*rec = pgRecord{time: NoTime, prec: second}
	return p.from(r, line, rec, 0, len(line)-len(bytes.TrimLeft(line, " ")))
}

// maxEpoch bounds times that are counted from 1970 on, in seconds: they end in 2242.
const maxEpoch = 1 << 33

const (
	maxField = 200   // bytes of a name in a prefix
	maxSteps = 5_000 // that a line is worth
)

// from reads the parts of the prefix from one on.
func (p *prefix) from(r *Reader, line []byte, rec *pgRecord, part, at int) (int, severity) {
	stopped := false
	for ; part < len(p.parts); part++ {
		if p.steps++; p.steps > maxSteps {
			return 0, noSeverity
		}
		x := &p.parts[part]
		if x.escape == 0 {
			if !bytes.HasPrefix(line[at:], x.text) {
				return 0, noSeverity
			}
			at += len(x.text)
			continue
		}
		if x.escape == 'q' {
			if n, s := p.from(r, line, rec, part+1, at); s != noSeverity {
				return n, s
			}
			stopped = true
			break // a line of no session ends here
		}
		// Padding.
		for at < len(line) && line[at] == ' ' && bytes.IndexByte([]byte("pPlxn"), x.escape) >= 0 {
			at++
		}
		n := p.fixed(r, line[at:], rec, x.escape)
		if n == isOther {
			return 0, noSeverity
		}
		if n != isName {
			at += n
			continue
		}
		// A name: it ends where the part after it begins, at the first such place from which the rest fits.
		var stop []byte
		if part+1 < len(p.parts) {
			stop = p.parts[part+1].text
		}
		if len(stop) == 0 {
			stop = []byte{' '}
		}
		for end := at; end < min(len(line), at+maxField); end++ {
			if line[end] == '\n' {
				return 0, noSeverity
			}
			if !bytes.HasPrefix(line[end:], stop) {
				continue
			}
			saved := *rec
			p.name(rec, x.escape, bytes.TrimRight(line[at:end], " "))
			if n, s := p.from(r, line, rec, part+1, end); s != noSeverity {
				return n, s
			}
			*rec = saved
		}
		return 0, noSeverity
	}
	for at < len(line) && line[at] == ' ' {
		at++
	}
	s, n := severityAt(line[at:])
	if s != noSeverity {
		p.stopped = stopped
	}
	rec.severity = s
	return at + n, s
}

// fixed reads a part that has a form of its own, and returns its length.
func (p *prefix) fixed(r *Reader, b []byte, rec *pgRecord, escape byte) int {
	switch escape {
	case 't', 'm', 's':
		t, n := r.clock.stamp(b)
		if n > 0 && escape != 's' {
			rec.at = t
		}
		if n == 0 {
			return isOther
		}
		return n
	case 'n':
		whole, n := number(b)
		us, prec, k := fraction(b[n:])
		if n == 0 || whole >= maxEpoch {
			return isOther
		}
		rec.at = reading{us: int64(whole)*second + us, precision: prec}
		return n + k
	case 'p':
		pid, n := number(b)
		if n == 0 {
			return isOther
		}
		if !rec.hasSession {
			rec.session, rec.hasSession = pid, true
		}
		return n
	case 'c':
		n := 0
		for n < len(b) && n < 40 && (b[n] == '.' || isHexDigit(b[n])) {
			n++
		}
		rec.identify(b[:n], nil)
		return n
	case 'P', 'l', 'x':
		x, n := number(b)
		switch escape {
		case 'x':
			rec.txID = x
		case 'l':
			rec.line = x
		}
		return n
	case 'Q':
		if len(b) > 0 && b[0] == '-' {
			_, n := number(b[1:])
			return n + 1
		}
		_, n := number(b)
		return n
	case 'v':
		n := 0
		for n < len(b) && n < 40 && (b[n] == '/' || b[n]-'0' <= 9) {
			n++
		}
		rec.virtual(b[:n])
		return n
	case 'e':
		n := 0
		for n < len(b) && n < 5 && (b[n]-'0' <= 9 || b[n] >= 'A' && b[n] <= 'Z') {
			n++
		}
		return n
	case 'r':
		if bytes.HasPrefix(b, []byte("[local]")) {
			return 7
		}
		open := bytes.IndexByte(b[:min(len(b), 80)], '(')
		if open < 0 || bytes.IndexByte(b[:open], ' ') >= 0 || bytes.IndexByte(b[:open], '[') >= 0 {
			return 0
		}
		n := bytes.IndexByte(b[open:min(len(b), open+8)], ')')
		if n < 0 {
			return 0
		}
		rec.host = b[:open]
		return open + n + 1
	}
	return isName
}

// Results of fixed that are no length.
const (
	isName  = -1 // anything may stand there
	isOther = -2 // the part that should be there is not
)

func isHexDigit(c byte) bool { return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f' }

func number(b []byte) (uint64, int) {
	n := 0
	for n < len(b) && n < 20 && b[n]-'0' <= 9 {
		n++
	}
	x, err := strconv.ParseUint(string(b[:n]), 10, 64)
	if err != nil {
		return 0, 0
	}
	return x, n
}

func (p *prefix) name(rec *pgRecord, escape byte, text []byte) {
	switch escape {
	case 'u':
		rec.user = text
	case 'd':
		rec.db = text
	case 'h':
		rec.host = text
	}
}
