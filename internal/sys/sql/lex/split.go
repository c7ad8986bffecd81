package lex

// Span is a part of a text: the bytes from Start to End.
type Span struct{ Start, End int }

// Split appends the statements of a text, which semicolons separate, without these and without parts that have no token
// but comments. The body of a routine, trigger or event is a part of the statement that makes it.
func Split(dst []Span, text []byte, o Options) []Span {
	l := Tokens(text, o)
	for {
		s, found, _ := l.statement()
		if !found {
			return dst
		}
		dst = append(dst, s)
	}
}

// Next returns the first statement of a text, where its semicolon ends, and whether there is one: one that is not whole
// may go on. A text without a statement gives an empty span.
func Next(text []byte, o Options) (s Span, end int, whole bool) {
	l := Tokens(text, o)
	s, found, ended := l.statement()
	if !found {
		return Span{}, len(text), false
	}
	return s, l.at, ended
}

// statement returns the next statement up to a semicolon, whether there is one, and whether there was a semicolon. It
// goes past that.
func (l *Lexer) statement() (s Span, found, ended bool) {
	body := bodyFinder{l: l}
	for tokens := 0; ; {
		t, ok := l.Next()
		switch {
		case !ok:
			return s, tokens > 0, false
		case t.Kind == Comment:
			continue
		case t.Kind == Op && l.text[t.Start] == ';' && !body.inside():
			if tokens == 0 {
				continue
			}
			return s, true, true
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

// bodyFinder knows when semicolons belong to the body of a routine: between BEGIN and its END.
type bodyFinder struct {
	l       *Lexer
	words   int
	create  bool
	routine bool // CREATE PROCEDURE and the like
	begin   bool // the last word was BEGIN
	end     bool // the last word was END
	depth   int
}

func (f *bodyFinder) inside() bool { return f.depth > 0 }

func (f *bodyFinder) word(t Token) {
	f.words++
	// DEFINER = a@b and the like stand between CREATE and the kind of object; a body comes where there is a routine.
	if f.words > 12 && !f.routine {
		return
	}
	var buf [maxWord]byte
	mysql := f.l.o.Dialect == MySQL
	begin, end := f.begin, f.end
	f.begin, f.end = false, false
	switch string(lower(buf[:0], f.l.text[t.Start:t.End])) {
	case "create":
		f.create = f.words == 1
	case "procedure", "function", "trigger", "event", "package":
		f.routine = f.routine || f.create
	case "begin":
		f.begin = true
		if f.depth > 0 || f.routine && mysql {
			f.depth++
		}
	case "not": // MariaDB: BEGIN NOT ATOMIC ... END
		if begin && f.words == 2 && mysql {
			f.routine, f.depth = true, 1
		}
	case "atomic": // PostgreSQL: a body in SQL
		if begin && f.routine && f.depth == 0 && !mysql {
			f.depth = 1
		}
	case "case":
		if f.depth > 0 && !end {
			f.depth++
		}
	case "end":
		f.end = true
		f.depth = max(0, f.depth-1)
	case "if", "loop", "while", "repeat":
		if end { // END IF ends a block that was not counted
			f.depth++
		}
	}
}
