package lex

import "bytes"

// Kind is the kind of a token, by its form alone.
type Kind uint8

// The kinds of tokens.
const (
	Word     Kind = iota + 1 // a keyword or a name that is not quoted
	Name                     // a quoted name, with its quotes
	String                   // a literal with its quotes and prefix: 'x', E'x', X'0F', $$x$$
	Number                   // a number without sign, 0x0F included
	Param                    // ? in MySQL, $1 in PostgreSQL
	Variable                 // MySQL: @x, @@x.y
	Comment                  // a comment, hints included
	CodeMark                 // MySQL: /*!40101 and the */ that belongs to it; what stands between are tokens
	Op                       // any other byte, one at a time
)

// Token is a piece of a text: the bytes from Start to End, without what separates it from the next.
type Token struct {
	Kind       Kind
	Start, End int
}

// Lexer goes through a text token by token. It is a value: a copy looks ahead.
type Lexer struct {
	text   []byte
	o      Options
	at     int
	code   int  // open comments with code in them
	last   Kind // of the token before, comments aside
	open   bool
	toLine bool // the last comment would end with the line
}

// Tokens begins at the first token of the text.
func Tokens(text []byte, o Options) Lexer { return Lexer{text: text, o: o} }

// Open tells, after the last token, whether the text ends within a literal, a quoted name or a comment.
func (l *Lexer) Open() bool { return l.open || l.code > 0 }

// Cut tells, after the last token, whether the text lacks the end of a literal, a quoted name or a comment. A comment
// to the end of the line is whole where the text ends.
func (l *Lexer) Cut() bool { return l.open && !l.toLine || l.code > 0 }

// Next returns the next token, or false at the end of the text.
func (l *Lexer) Next() (Token, bool) {
	b := l.text
	for l.at < len(b) && isSpace(b[l.at]) {
		l.at++
	}
	if l.at >= len(b) {
		return Token{}, false
	}
	t := Token{Start: l.at}
	t.Kind, t.End = l.token(l.at)
	l.at = t.End
	if t.Kind != Comment {
		l.last = t.Kind
	}
	return t, true
}

// Skip returns the next token that is no comment.
func (l *Lexer) Skip() (Token, bool) {
	for {
		if t, ok := l.Next(); !ok || t.Kind != Comment && t.Kind != CodeMark {
			return t, ok
		}
	}
}

// at returns a byte, 0 past the end.
func at(b []byte, i int) byte {
	if i < len(b) {
		return b[i]
	}
	return 0
}

// token tells what begins at i and where it ends.
func (l *Lexer) token(i int) (Kind, int) {
	b, c := l.text, l.text[i]
	mysql := l.o.Dialect == MySQL
	switch {
	case isDigit(c), c == '.' && isDigit(at(b, i+1)) && l.last != Word && l.last != Name:
		return l.number(i)
	case c == '$' && !mysql:
		return l.dollar(i)
	case wordBytes[c]:
		return l.word(i)
	}
	switch c {
	case '\'':
		return String, l.quoted(i+1, c, l.o.backslash())
	case '"':
		if l.o.doubleIsName() {
			return Name, l.quoted(i+1, c, false)
		}
		return String, l.quoted(i+1, c, l.o.backslash())
	case '`':
		if mysql {
			return Name, l.quoted(i+1, c, false)
		}
	case '-':
		if at(b, i+1) == '-' && (!mysql || i+2 >= len(b) || isBlank(b[i+2])) {
			return Comment, l.line(i + 2)
		}
	case '#':
		if mysql {
			return Comment, l.line(i + 1)
		}
	case '/':
		if at(b, i+1) == '*' {
			return l.comment(i + 2)
		}
	case '*':
		if l.code > 0 && at(b, i+1) == '/' {
			l.code--
			return CodeMark, i + 2
		}
	case '?':
		if mysql {
			return Param, i + 1
		}
	case '@':
		if mysql {
			return l.variable(i)
		}
	}
	return Op, i + 1
}

// words returns the end of the bytes of a word from i on.
func (l *Lexer) words(i int) int {
	for i < len(l.text) && wordBytes[l.text[i]] {
		i++
	}
	return i
}

func (l *Lexer) word(i int) (Kind, int) {
	b, end := l.text, l.words(i)
	switch next := at(b, end); {
	case next == '\'' && end == i+1:
		switch c := b[i] | 0x20; {
		case c == 'e' && l.o.Dialect == PostgreSQL:
			return String, l.quoted(end+1, next, true)
		case c == 'n', c == 'x', c == 'b':
			return String, l.quoted(end+1, next, l.o.backslash())
		}
	case next == '\'' && b[i] == '_' && l.o.Dialect == MySQL: // a character set: _utf8mb4'x'
		return String, l.quoted(end+1, next, l.o.backslash())
	case next == '&' && end == i+1 && b[i]|0x20 == 'u' && l.o.Dialect == PostgreSQL:
		switch at(b, end+1) {
		case '\'':
			return String, l.quoted(end+2, '\'', false)
		case '"':
			return Name, l.quoted(end+2, '"', false)
		}
	}
	return Word, end
}

// number takes a number, or in MySQL a name that begins with digits. Letters that follow without a blank belong to it.
func (l *Lexer) number(i int) (Kind, int) {
	b, begin := l.text, i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if c := at(b, i); c == '.' { // 5001. is a number, 1.e5 as well
		for i++; i < len(b) && isDigit(b[i]); i++ {
		}
	} else if wordBytes[c] && l.o.Dialect == MySQL {
		if end := l.words(i); !numeric(b[begin:end]) {
			return Word, end
		}
	}
	if c := at(b, i); c|0x20 == 'e' {
		if n := at(b, i+1); isDigit(n) || (n == '+' || n == '-') && isDigit(at(b, i+2)) {
			i += 2
		}
	}
	if b[i-1] == '.' {
		return Number, i
	}
	return Number, l.words(i)
}

// numeric tells whether digits with letters in them are a number: 0x1F, 0b01, 1e5, 1e (of 1e-5).
func numeric(b []byte) bool {
	if len(b) > 2 && b[0] == '0' && b[1] == 'x' {
		for _, c := range b[2:] {
			if !isHex(c) {
				return false
			}
		}
		return true
	}
	if len(b) > 2 && b[0] == '0' && b[1] == 'b' {
		return len(bytes.Trim(b[2:], "01")) == 0
	}
	i := 0
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == len(b) || b[i]|0x20 != 'e' {
		return i == len(b)
	}
	for i++; i < len(b) && isDigit(b[i]); i++ {
	}
	return i == len(b)
}

// quoted returns the end of a quoted text, from the byte after the quote on.
func (l *Lexer) quoted(i int, quote byte, escapes bool) int {
	b, next := l.text, -1 // next: where the first quote stands from i on
	for i < len(b) {
		if next < i {
			n := bytes.IndexByte(b[i:], quote)
			if n < 0 {
				break
			}
			next = i + n
		}
		if escapes {
			if n := bytes.IndexByte(b[i:next], '\\'); n >= 0 {
				i += n + 2
				continue
			}
		}
		if at(b, next+1) != quote {
			return next + 1
		}
		i = next + 2
	}
	l.open = true
	return len(b)
}

// line returns the end of a comment that ends with the line, the line feed included.
func (l *Lexer) line(i int) int {
	n := endOfLine(l.text[i:], l.o.Dialect)
	if n < 0 {
		l.open, l.toLine = true, true
		return len(l.text)
	}
	return i + n + 1
}

// comment takes what stands after /*.
func (l *Lexer) comment(i int) (Kind, int) {
	b := l.text
	if l.o.Dialect == MySQL {
		mark := i
		if at(b, mark) == 'M' {
			mark++
		}
		if at(b, mark) == '!' {
			l.code++
			for mark++; mark < len(b) && isDigit(b[mark]); mark++ {
			}
			return CodeMark, mark
		}
		if n := bytes.Index(b[i:], []byte("*/")); n >= 0 {
			return Comment, i + n + 2
		}
		l.open = true
		return Comment, len(b)
	}
	for depth := 1; i < len(b); i++ {
		switch {
		case b[i] == '*' && at(b, i+1) == '/':
			i++
			if depth--; depth == 0 {
				return Comment, i + 1
			}
		case b[i] == '/' && at(b, i+1) == '*':
			i++
			depth++
		}
	}
	l.open = true
	return Comment, len(b)
}

// dollar takes what begins with $: a literal, a parameter, or an operator with all that hangs on it.
func (l *Lexer) dollar(i int) (Kind, int) {
	b := l.text
	if isDigit(at(b, i+1)) {
		return Param, l.words(i + 1)
	}
	end := i + 1
	for end < len(b) && end-i-1 < maxTag && (tagStart(b[end]) || end > i+1 && isDigit(b[end])) {
		end++
	}
	if at(b, end) != '$' {
		return Op, l.words(i + 1)
	}
	end++
	if n := bytes.Index(b[end:], b[i:end]); n >= 0 {
		return String, end + n + end - i
	}
	l.open = true
	return String, len(b)
}

// variable takes @x, @'x', @`x`, @@x and @@x.y.
func (l *Lexer) variable(i int) (Kind, int) {
	b, end := l.text, i+1
	if at(b, end) == '@' {
		end++
	}
	switch c := at(b, end); c {
	case '\'', '"':
		return Variable, l.quoted(end+1, c, l.o.backslash() && !(c == '"' && l.o.doubleIsName()))
	case '`':
		return Variable, l.quoted(end+1, c, false)
	}
	for end < len(b) && (wordBytes[b[end]] || b[end] == '.') {
		end++
	}
	return Variable, end
}
