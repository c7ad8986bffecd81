package lex

import "bytes"

// State follows a text and knows whether the place it has come to lies inside of a literal, a quoted name or a comment.
// It is fed in pieces, cut anywhere. By it the readers of logs tell whether a line that looks like the head of a record
// is data. The zero value has MySQL's rules; Reset sets others.
type State struct {
	o        Options
	mode     mode
	quote    byte // inQuote: what ends it
	escapes  bool // inQuote: a backslash hides what follows
	depth    int  // inComment: of PostgreSQL's nested ones
	code     int  // how many comments with code in them, such as /*!40101, are open
	last     byte // in code: the byte before, 0 where it cannot be a part of the token that follows
	before   byte // and the one before that
	tag      [maxTag]byte
	tagLen   int
	matched  int // inDollarEnd: bytes of the tag
	specials *table
}

type mode uint8

const (
	inCode         mode = iota
	inDash              // after -
	inDashes            // after --, where MySQL wants a blank
	inSlash             // after /
	inQuote             // in '', "" or ``
	inEscape            // after a backslash in them
	inQuoteEnd          // after a quote that ends them, if no other follows
	inLine              // in a comment that ends with the line
	inCommentHead       // after /*
	inCommentM          // after /*M
	inComment           // in /* */
	inCommentStar       // after * in it
	inCommentSlash      // after / in it, where comments nest
	inTag               // after $, and in the tag that may follow
	inDollar            // in $tag$ $tag$
	inDollarEnd         // after a $ in it
)

var (
	mysqlSpecials      = tableOf("'\"`#-/")
	postgresqlSpecials = tableOf("'\"-/$")
)

// Reset begins a text.
func (s *State) Reset(o Options) {
	s.o, s.mode, s.code, s.last, s.before = o, inCode, 0, 0, 0
	s.specials = mysqlSpecials
	if o.Dialect == PostgreSQL {
		s.specials = postgresqlSpecials
	}
}

// Inside tells whether what comes next belongs to a literal, a quoted name or a comment that has begun, or to the code
// in a comment such as /*!40101 */.
func (s *State) Inside() bool {
	switch s.mode {
	case inCode, inDash, inSlash, inQuoteEnd, inTag:
		return s.code > 0
	}
	return true
}

// Advance goes over the next piece of the text.
func (s *State) Advance(b []byte) {
	if s.specials == nil {
		s.Reset(s.o)
	}
	for i := 0; i < len(b); {
		switch s.mode {
		case inCode:
			i = s.inCode(b, i)
		case inQuote:
			i = s.inQuote(b, i)
		case inLine:
			n := endOfLine(b[i:], s.o.Dialect)
			if n < 0 {
				return
			}
			i += n + 1
			s.toCode(0)
		case inComment:
			i = s.inComment(b, i)
		case inDollar:
			n := bytes.IndexByte(b[i:], '$')
			if n < 0 {
				return
			}
			i += n + 1
			s.mode, s.matched = inDollarEnd, 0
		default:
			i = s.between(b, i)
		}
	}
}

// endOfLine is where a comment that ends with the line does, or -1.
func endOfLine(b []byte, d Dialect) int {
	if d == PostgreSQL {
		return bytes.IndexAny(b, "\r\n")
	}
	return bytes.IndexByte(b, '\n')
}

// toCode goes back to code. last is the byte before, if it can belong to what follows.
func (s *State) toCode(last byte) { s.mode, s.last, s.before = inCode, last, 0 }

// inCode goes over code until another mode begins. What begins and ends within b, as nearly all does, it goes over at
// once.
func (s *State) inCode(b []byte, i int) int {
	begin, specials := i, s.specials // begin: where the code that belongs together does
	for i < len(b) {
		c := b[i]
		if !specials[c] {
			i++
			continue
		}
		last, before := s.last, s.before
		if i > begin {
			last, before = b[i-1], s.last
			if i > begin+1 {
				before = b[i-2]
			}
		}
		next := at(b, i+1) // 0 as well where b ends: then the mode is left to the next piece
		switch c {
		case '-':
			if i+1 < len(b) && next != '-' {
				i++
				continue
			}
			s.mode = inDash
			return i + 1
		case '#':
			s.mode = inLine
			return i + 1
		case '/':
			if s.code > 0 && last == '*' {
				s.code--
				s.toCode(0)
				i++
				begin = i
				continue
			}
			if i+1 < len(b) && next != '*' {
				i++
				continue
			}
			s.mode = inSlash
			return i + 1
		case '$':
			if wordBytes[last] {
				i++
				continue
			}
			s.mode, s.tagLen = inTag, 0
			return i + 1
		}
		s.mode, s.quote = inQuote, c
		switch {
		case c == '`' || c == '"' && s.o.doubleIsName():
			s.escapes = false
		case s.o.Dialect == PostgreSQL:
			s.escapes = last|0x20 == 'e' && !wordBytes[before]
		default:
			s.escapes = s.o.backslash()
		}
		i = s.inQuote(b, i+1)
		if s.mode != inQuoteEnd || i == len(b) || b[i] == c {
			return i
		}
		s.toCode(0)
		begin = i
	}
	switch n := i - begin; {
	case n == 1:
		s.last, s.before = b[i-1], s.last
	case n > 1:
		s.last, s.before = b[i-1], b[i-2]
	}
	return i
}

func (s *State) inQuote(b []byte, i int) int {
	for next := -1; i < len(b); { // next: where the first quote stands from i on
		if next < i {
			n := bytes.IndexByte(b[i:], s.quote)
			if next = i + n; n < 0 {
				next = len(b)
			}
		}
		if s.escapes {
			if n := bytes.IndexByte(b[i:next], '\\'); n >= 0 {
				// The next byte is nearly always here.
				if i += n + 2; i > len(b) {
					s.mode = inEscape
				}
				continue
			}
		}
		if next < len(b) {
			s.mode = inQuoteEnd
		}
		return min(next+1, len(b))
	}
	return len(b)
}

func (s *State) inComment(b []byte, i int) int {
	if s.o.Dialect == MySQL {
		n := bytes.IndexByte(b[i:], '*')
		if n < 0 {
			return len(b)
		}
		s.mode = inCommentStar
		return i + n + 1
	}
	for ; i < len(b); i++ {
		switch b[i] {
		case '*':
			s.mode = inCommentStar
			return i + 1
		case '/':
			s.mode = inCommentSlash
			return i + 1
		}
	}
	return i
}

// between takes one byte where the meaning of the last depends on it. A byte that changes nothing is looked at again in
// the mode that it falls back to: the index stays.
func (s *State) between(b []byte, i int) int {
	c := b[i]
	switch s.mode {
	case inDash:
		switch {
		case c == '-' && s.o.Dialect == PostgreSQL:
			s.mode = inLine
			return i + 1
		case c == '-':
			s.mode = inDashes
			return i + 1
		}
		s.toCode('-')
	case inDashes:
		switch {
		case isBlank(c):
			s.mode = inLine // a line feed ends it at once
			return i
		case c == '-':
			return i + 1 // the last two of three dashes may begin one
		}
		s.toCode('-')
	case inSlash:
		if c == '*' {
			s.mode, s.depth = inCommentHead, 1
			return i + 1
		}
		s.toCode('/')
	case inCommentHead:
		switch {
		case s.o.Dialect == MySQL && c == '!':
			s.code++
			s.toCode(0)
			return i + 1
		case s.o.Dialect == MySQL && c == 'M':
			s.mode = inCommentM
			return i + 1
		}
		s.mode = inComment
	case inCommentM:
		if c == '!' {
			s.code++
			s.toCode(0)
			return i + 1
		}
		s.mode = inComment
	case inCommentStar:
		switch c {
		case '/':
			if s.depth--; s.depth > 0 {
				s.mode = inComment
			} else {
				s.toCode(0)
			}
			return i + 1
		case '*':
			return i + 1
		}
		s.mode = inComment
	case inCommentSlash:
		switch c {
		case '*':
			s.depth++
			s.mode = inComment
			return i + 1
		case '/':
			return i + 1
		}
		s.mode = inComment
	case inEscape:
		s.mode = inQuote
		return i + 1
	case inQuoteEnd:
		if c == s.quote {
			s.mode = inQuote
			return i + 1
		}
		s.toCode(0)
	case inTag:
		switch {
		case c == '$':
			s.mode = inDollar
			return i + 1
		case s.tagLen < maxTag && (tagStart(c) || s.tagLen > 0 && isDigit(c)):
			s.tag[s.tagLen] = c
			s.tagLen++
			return i + 1
		}
		s.toCode('$') // whatever stood after it, it is a part of a word
	case inDollarEnd:
		switch {
		case s.matched < s.tagLen && c == s.tag[s.matched]:
			s.matched++
			return i + 1
		case c == '$' && s.matched == s.tagLen:
			s.toCode(0)
			return i + 1
		case c == '$':
			s.matched = 0
			return i + 1
		}
		s.mode = inDollar
	}
	return i
}
