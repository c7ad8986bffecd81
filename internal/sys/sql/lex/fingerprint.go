package lex

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
)

// Fingerprint appends what all statements of one kind have in common: words in lower case, ? for each literal and each
// parameter, one for all of a list of them (in(?+), values(?+)), one blank for white space, no comments. For most
// statements it is, byte for byte, what Percona's go-mysql and pt-query-digest group by, so that IDs agree.
//
// As there, CALL and USE have only their name, ASC is left out, and TRUE, FALSE and NULL are literals.
func Fingerprint(dst, stmt []byte, o Options) []byte {
	f := fingerprinter{Lexer: Tokens(stmt, o), dst: dst, begin: len(dst)}
	f.run()
	return f.dst
}

// ID is the number of a fingerprint: the second half of its MD5 digest. In 16 hexadecimal digits it is the query ID of
// pt-query-digest.
func ID(fingerprint []byte) uint64 {
	sum := md5.Sum(fingerprint)
	return binary.BigEndian.Uint64(sum[8:])
}

type fingerprinter struct {
	Lexer
	dst    []byte
	begin  int  // where the fingerprint begins in dst
	prev   Kind // of the last token that was written
	end    int  // where that ends in the text
	insert bool // INSERT or REPLACE before its VALUES
	order  bool // ORDER BY came
	by     bool // the last word was ORDER
	first  bool // a word came
}

func (f *fingerprinter) run() {
	for {
		t, ok := f.Next()
		if !ok {
			break
		}
		if t.Kind == Comment {
			// It separates its neighbours, and is gone where something else does.
			if f.end == t.Start {
				f.end = t.End
				if t.Start > 0 && wordBytes[f.text[t.Start-1]] && wordBytes[at(f.text, t.End)] {
					f.end-- // so that a blank comes
				}
			}
			continue
		}
		if t.Kind == Op && f.text[t.Start] == ';' {
			if _, more := f.ahead(); !more {
				break
			}
		}
		if !f.one(t) {
			break
		}
	}
	f.dst = append(f.dst[:f.begin], bytes.TrimRight(f.dst[f.begin:], " ")...)
}

// ahead looks at the next token that is no comment.
func (f *fingerprinter) ahead() (Token, bool) {
	l := f.Lexer
	return l.Skip()
}

// blank writes a blank if white space stands before the token.
func (f *fingerprinter) blank(t Token) {
	if t.Start > f.end && len(f.dst) > f.begin && f.dst[len(f.dst)-1] != ' ' {
		f.dst = append(f.dst, ' ')
	}
}

func (f *fingerprinter) put(t Token, text ...byte) {
	f.blank(t)
	f.dst = append(f.dst, text...)
	f.prev, f.end = t.Kind, t.End
}

// one writes a token, and tells whether others may follow.
func (f *fingerprinter) one(t Token) bool {
	text := f.text[t.Start:t.End]
	switch t.Kind {
	case String, Number, Param:
		f.put(t, '?')
	case Word:
		return f.word(t)
	case Name, CodeMark, Variable:
		f.blank(t)
		if f.o.Dialect == PostgreSQL {
			f.dst = append(f.dst, text...)
		} else {
			f.dst = appendLower(f.dst, text)
		}
		f.prev, f.end = t.Kind, t.End
	default:
		if (text[0] == '-' || text[0] == '+') && f.signs(t) {
			f.blank(t)
			f.end = t.End
			return true
		}
		f.put(t, text...)
	}
	return true
}

// signs tells whether a plus or minus belongs to the number after it.
func (f *fingerprinter) signs(t Token) bool {
	l := f.Lexer
	next, ok := l.Next()
	if !ok || next.Kind != Number || next.Start != t.End {
		return false
	}
	switch f.prev {
	case Word:
		return t.Start > f.end // select -1, where a -1 looks the same
	case Op:
		c := f.dst[len(f.dst)-1]
		return c != ')' && c != ']'
	case 0:
		return true
	}
	return false
}

func (f *fingerprinter) word(t Token) bool {
	var buf [maxWord]byte
	word := lower(buf[:0], f.text[t.Start:t.End])
	first := !f.first
	f.first = true
	by := f.by
	f.by = false
	switch string(word) {
	case "null", "true", "false":
		f.put(t, '?')
		return true
	case "asc":
		if f.order {
			f.end = t.End
			return true
		}
	case "order":
		f.by = true
	case "by":
		f.order = f.order || by
	case "insert", "replace":
		f.insert = f.insert || first
	case "duplicate", "select":
		f.insert = false
	case "use":
		if first {
			f.dst = append(f.dst, "use ?"...)
			return false
		}
	case "call":
		if first {
			return f.call(t)
		}
	case "in", "values", "value":
		if f.list(t, word) {
			return true
		}
	case "array":
		if next, ok := f.ahead(); ok && f.text[next.Start] == '[' && f.literals(']') {
			f.put(t, []byte("array[?+]")...)
			f.end = f.at
			return true
		}
	}
	if len(word) < t.End-t.Start { // too long to be a keyword
		f.blank(t)
		f.dst = appendLower(f.dst, f.text[t.Start:t.End])
		f.prev, f.end = t.Kind, t.End
		return true
	}
	f.put(t, word...)
	return true
}

// call writes CALL and the name of the routine.
func (f *fingerprinter) call(t Token) bool {
	f.put(t, []byte("call")...)
	for {
		next, ok := f.Skip()
		if !ok || next.Kind == Op && f.text[next.Start] != '.' {
			return false
		}
		f.blank(next)
		f.dst = appendLower(f.dst, f.text[next.Start:next.End])
		f.end = next.End
	}
}

// list writes IN or VALUES together with its list, if it has one of literals only. The rows of an INSERT are one list,
// whatever they are made of.
func (f *fingerprinter) list(t Token, word []byte) bool {
	next, ok := f.ahead()
	if !ok || next.Kind != Op || f.text[next.Start] != '(' {
		return false
	}
	begin, values := f.Lexer, word[0] == 'v'
	good, found := begin, false
	for {
		if open, ok := f.ahead(); !ok || f.text[open.Start] != '(' {
			break // what comes after the comma is no list
		}
		if values && f.insert && !f.parens() || !(values && f.insert) && !f.literals(')') {
			break
		}
		good, found = f.Lexer, true
		if comma, ok := f.Skip(); !values || !ok || f.text[comma.Start] != ',' {
			break
		}
	}
	if !found {
		f.Lexer = begin
		return false
	}
	f.Lexer = good
	f.blank(t)
	f.dst = append(f.dst, word...)
	if at(f.text, next.Start+1) == ')' {
		f.dst = append(f.dst, "()"...)
	} else {
		f.dst = append(f.dst, "(?+)"...)
	}
	f.prev, f.end = Op, good.at
	return true
}

// parens goes past a pair of parentheses with all that is in them.
func (f *fingerprinter) parens() bool {
	for depth := 0; ; {
		t, ok := f.Skip()
		if !ok {
			return false
		}
		if t.Kind == Op {
			switch f.text[t.Start] {
			case '(':
				depth++
			case ')':
				if depth--; depth <= 0 {
					return true
				}
			}
		}
	}
}

// literals goes past a list in parentheses or brackets if it has literals only: with signs, casts (::text), character
// sets and lists of them. Otherwise it stays where it is.
func (f *fingerprinter) literals(closing byte) bool {
	save := f.Lexer
	for depth, cast := 0, 0; ; {
		t, ok := f.Skip()
		if !ok {
			break
		}
		if t.Kind == Op {
			c := f.text[t.Start]
			switch c {
			case '(', '[':
				depth++
			case ')', ']':
				if depth--; depth == 0 && c == closing {
					return true
				}
			case ':':
				cast++
				continue
			case ',', '+', '-':
			default:
				f.Lexer = save
				return false
			}
			cast = 0
			continue
		}
		literal := t.Kind == String || t.Kind == Number || t.Kind == Param || cast == 2
		if t.Kind == Word && !literal {
			var buf [maxWord]byte
			switch word := lower(buf[:0], f.text[t.Start:t.End]); string(word) {
			case "null", "true", "false", "row":
				literal = true
			default:
				literal = word[0] == '_'
			}
		}
		cast = 0
		if !literal || depth == 0 {
			break
		}
	}
	f.Lexer = save
	return false
}

// maxWord is longer than any keyword or built-in function that matters here, in bytes.
const maxWord = 40

// lower appends the first maxWord bytes of a word in lower case.
func lower(dst, word []byte) []byte { return appendLower(dst, word[:min(len(word), maxWord)]) }

// appendLower appends a text with its ASCII letters in lower case.
func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// LeadingComment returns the text of the first comment, if it stands before the second word, without its marks and the
// white space around; else nil. Programs write there which of their functions asks: /* Class::method */.
func LeadingComment(stmt []byte, o Options) []byte {
	l := Tokens(stmt, o)
	for words := 0; words < 2; {
		t, ok := l.Next()
		if !ok {
			return nil
		}
		if t.Kind != Comment {
			words++
			continue
		}
		text := stmt[t.Start:t.End]
		switch {
		case text[0] == '#':
			text = text[1:]
		case len(text) > 2 && text[2] == '+' && text[0] == '/': // a hint
			continue
		case len(text) >= 4 && bytes.HasSuffix(text, []byte("*/")):
			text = text[2 : len(text)-2]
		default:
			text = text[2:]
		}
		return bytes.TrimSpace(text)
	}
	return nil
}

// FoldNumbers appends at most limit bytes of a text with a ? for each number, hexadecimal ones included, so that
// comments that differ in the number of a request are the same.
func FoldNumbers(dst, text []byte, limit int) []byte {
	begin := len(dst)
	for i := 0; i < len(text) && len(dst)-begin < limit; {
		end, digits := i, false
		for end < len(text) && isHex(text[end]) {
			digits = digits || isDigit(text[end])
			end++
		}
		word := i > 0 && wordBytes[text[i-1]] // letters here go on with a word
		if end > i && (isDigit(text[i]) || digits && !word && (end == len(text) || !wordBytes[text[end]])) {
			dst = append(dst, '?')
			i = end
			continue
		}
		dst = append(dst, text[i])
		i++
	}
	return dst
}
