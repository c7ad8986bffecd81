package log

import (
	"bytes"

	"tare/internal/sys/sql/lex"
)

// plainFile reads a file of statements, with semicolons between them or one in each line, as one session. A client
// program's own commands are left out: DELIMITER sections, commands that begin with a backslash, data of COPY.
type plainFile struct {
	o     lex.Options
	lines bool
	copy  bool // data of COPY follows
}

func (p *plainFile) next(r *Reader, e *Event) error {
	for {
		b := r.in.atLeast(maxHead)
		if len(b) == 0 {
			return r.in.err
		}
		if p.copy {
			p.data(r)
			continue
		}
		n := 0
		for n < len(b) && (b[n] <= ' ' || b[n] == ';') {
			n++
		}
		if n > 0 {
			r.skip(n, whyBlank)
			continue
		}
		if p.client(r, b) {
			continue
		}
		if p.statement(r, e) {
			return nil
		}
	}
}

// data takes the lines after COPY ... FROM stdin, up to a line with \. in it.
func (p *plainFile) data(r *Reader) {
	begin := true
	for {
		line := r.in.line(4 << 10)
		if len(line) == 0 {
			return
		}
		text := bytes.TrimRight(line, "\r\n")
		end := begin && string(text) == `\.`
		begin = line[len(line)-1] == '\n'
		r.skip(len(line), whyCopy)
		if end {
			p.copy = false
			return
		}
	}
}

// client takes a line that is for a client program.
func (p *plainFile) client(r *Reader, b []byte) bool {
	switch {
	case b[0] == '\\':
		r.skip(len(r.in.line(4<<10)), whyClient)
		return true
	case p.o.Dialect == lex.MySQL && len(b) > 10 && equalFold(b[:10], "delimiter "):
		// Until DELIMITER ; is the text of routines.
		for first := true; ; first = false {
			line := r.in.line(4 << 10)
			if len(line) == 0 {
				return true
			}
			text := bytes.TrimSpace(line)
			r.skip(len(line), whyDelimiter)
			if !first && len(text) >= 11 && equalFold(text[:10], "delimiter ") && text[len(text)-1] == ';' {
				return true
			}
		}
	}
	return false
}

// statement takes the statement that begins the window, and tells whether e is it.
func (p *plainFile) statement(r *Reader, e *Event) bool {
	var span lex.Span
	end := 0
	ambiguous := ""
	if p.lines {
		line := r.line()
		if line == nil {
			return false
		}
		end = len(line)
		span.End = len(bytes.TrimRight(line, "; \t\r\n"))
	} else {
		for ask := chunk; ; ask = max(2*len(r.in.bytes()), ask) {
			b := r.in.bytes()
			var whole bool
			if span, end, whole = lex.Next(b, p.o); whole {
				break
			}
			if len(b) > r.o.MaxStatement {
				r.account.resyncs++
				r.loseLine(1, whyTooLong)
				return false
			}
			if len(r.in.atLeast(ask)) == len(b) {
				ambiguous = "" // the last needs no semicolon
				break
			}
		}
	}
	b := r.in.bytes()[:end]
	if span.End <= span.Start {
		r.skip(end, "comments")
		return false
	}
	text := b[span.Start:span.End]
	l := lex.Tokens(text, p.o)
	for {
		if _, ok := l.Next(); !ok {
			break
		}
	}
	if l.Cut() {
		r.account.resyncs++
		r.loseLine(1, whyOpen)
		return false
	}
	s := r.sess.get(1)
	e.Op, e.Session, e.Begun, e.Text, e.Ambiguous = Query, s.number, s.fresh, text, ambiguous
	s.fresh = false
	e.Offset = r.in.took
	p.copy = p.o.Dialect == lex.PostgreSQL && copiesIn(text)
	e.Length = r.in.take(end)
	return true
}

// copiesIn tells whether data follow a statement.
func copiesIn(text []byte) bool {
	l := lex.Tokens(text, lex.Options{Dialect: lex.PostgreSQL})
	t, _ := l.Skip()
	if !equalFold(text[t.Start:t.End], "copy") {
		return false
	}
	for from := false; ; {
		t, ok := l.Skip()
		if !ok {
			return false
		}
		word := text[t.Start:t.End]
		if from && equalFold(word, "stdin") {
			return true
		}
		from = equalFold(word, "from")
	}
}
