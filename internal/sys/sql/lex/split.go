package lex

// Span is a part of a text: the bytes from Start to End.
type Span struct{ Start, End int }

// Split appends the statements of a text, which semicolons separate, without these and without what has no token but
// comments. The body of a routine, trigger or event is a part of the statement that makes it.
func Split(dst []Span, text []byte, o Options) []Span {
	l := Tokens(text, o)
	for {
		s, ok := l.statement()
		if !ok {
			return dst
		}
		dst = append(dst, s)
	}
}

// statement returns the next statement up to a semicolon, and goes past that.
func (l *Lexer) statement() (Span, bool) {
	var s Span
	body := bodyFinder{l: l}
	for tokens := 0; ; {
		t, ok := l.Next()
		switch {
		case !ok:
			return s, tokens > 0
		case t.Kind == Comment:
			continue
		case t.Kind == Op && l.text[t.Start] == ';' && !body.inside():
			if tokens == 0 {
				continue
			}
			return s, true
		}
		if tokens == 0 {
			s.Start = t.Start
		}
		tokens++
		s.End = t.End
		if t.Kind == Word {
			body.word(t)
		}
	}
}

// bodyFinder knows when semicolons belong to the body of a routine.
type bodyFinder struct {
	l       *Lexer
	words   int
	create  bool
	routine bool // CREATE PROCEDURE and the like
	begin   bool // PostgreSQL: the last word was BEGIN
	atomic  bool // PostgreSQL: a body in SQL, which ends
	depth   int
}

func (f *bodyFinder) inside() bool {
	if f.l.o.Dialect == MySQL {
		return f.routine
	}
	return f.atomic && f.depth > 0
}

func (f *bodyFinder) word(t Token) {
	f.words++
	// DEFINER = a@b and the like stand between CREATE and what is created; a body comes where there is a routine.
	if f.words > 12 && !f.routine {
		return
	}
	var buf [maxWord]byte
	word := string(lower(buf[:0], f.l.text[t.Start:t.End]))
	begin := f.begin
	f.begin = false
	switch word {
	case "create":
		f.create = f.words == 1
	case "procedure", "function", "trigger", "event", "package":
		f.routine = f.routine || f.create
	case "begin":
		f.begin = f.routine
		if f.atomic {
			f.depth++
		}
		// MariaDB: BEGIN NOT ATOMIC ... END is one statement.
	case "not":
		f.begin = begin
		f.routine = f.routine || begin
	case "atomic":
		if begin && !f.atomic {
			f.atomic, f.depth = true, 1
		}
	case "case":
		if f.atomic {
			f.depth++
		}
	case "end":
		if f.atomic {
			f.depth--
		}
	}
}
