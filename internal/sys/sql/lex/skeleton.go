package lex

// Skeleton appends a statement with the same literal in the place of each number and of each string without a prefix.
// It leaves everything else as it is. Statements with equal skeletons have the same Verdict, the same Fingerprint and
// the same LeadingComment, so that these need be found only once. ok is false where there is none: the text is not
// whole, or the skeleton has more bytes than the limit.
func Skeleton(dst, stmt []byte, o Options, limit int) (skeleton []byte, ok bool) {
	// A number becomes a byte that begins no token but itself. Numbers with a point at or behind an end stay: what
	// stands beside them could be lexed in another way.
	const number = 1
	l, limit, from := Tokens(stmt, o), limit+len(dst), 0
	for {
		l.plain()
		t, more := l.Next()
		if !more {
			break
		}
		c := stmt[t.Start]
		switch t.Kind {
		case Number:
			if c == '.' || stmt[t.End-1] == '.' || at(stmt, t.End) == '.' {
				continue
			}
			dst = append(append(dst, stmt[from:t.Start]...), number)
		case String:
			if c != '\'' && c != '"' {
				continue
			}
			dst = append(append(dst, stmt[from:t.Start]...), c, c)
		case Op:
			if c == number {
				return dst, false
			}
			continue
		default:
			continue
		}
		if from = t.End; len(dst) > limit {
			return dst, false
		}
	}
	dst = append(dst, stmt[from:]...)
	return dst, len(dst) <= limit && !l.Cut()
}

// What plain goes past.
const (
	spaces = iota + 1
	letters
	marks
)

var plainBytes = func() (t [256]uint8) {
	for c := range t {
		switch b := byte(c); {
		case isSpace(b):
			t[c] = spaces
		case wordBytes[b] && !isDigit(b) && b != '$':
			t[c] = letters
		}
	}
	for _, c := range "(),=<>" {
		t[c] = marks
	}
	return t
}()

// plain goes past tokens that are words or marks whatever stands around them. It is Next for most of a statement, and
// several times as fast.
func (l *Lexer) plain() {
	b, i := l.text, l.at
	for i < len(b) {
		switch plainBytes[b[i]] {
		case spaces:
			i++
		case letters:
			end := i + 1
			for end < len(b) && wordBytes[b[end]] {
				end++
			}
			if c := at(b, end); c == '\'' || c == '&' { // may be the prefix of a literal
				l.at = i
				return
			}
			i, l.last = end, Word
		case marks:
			i++
			l.last = Op
		default:
			l.at = i
			return
		}
	}
	l.at = i
}
