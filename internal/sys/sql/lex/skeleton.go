package lex

import (
	"encoding/binary"
	"math/bits"
)

// number stands in a skeleton for a number: a byte that begins no token but itself.
const number = 1

// Skeleton appends a statement with the same literal in the place of each number and of each string without a prefix.
// It leaves everything else as it is. Statements with equal skeletons have the same Verdict, the same Fingerprint and
// the same LeadingComment, so that these need be found only once. ok is false where there is none: the text is not
// whole, or the skeleton has more bytes than the limit.
func Skeleton(dst, stmt []byte, o Options, limit int) (skeleton []byte, ok bool) {
	l, begin := Tokens(stmt, o), len(dst)
	limit += begin
	dst, ok, sure := l.fastSkeleton(dst, limit)
	if !sure {
		l = Tokens(stmt, o)
		return l.slowSkeleton(dst[:begin], limit)
	}
	return dst, ok
}

// slowSkeleton is Skeleton for any statement. Numbers with a point at or behind an end stay: what stands beside them
// could be lexed in another way.
func (l *Lexer) slowSkeleton(dst []byte, limit int) (skeleton []byte, ok bool) {
	b, from := l.text, 0
	for {
		t, more := l.Next()
		if !more {
			break
		}
		c := b[t.Start]
		switch t.Kind {
		case Number:
			if c == '.' || b[t.End-1] == '.' || at(b, t.End) == '.' {
				continue
			}
			dst = append(append(dst, b[from:t.Start]...), number)
		case String:
			if c != '\'' && c != '"' {
				continue
			}
			dst = append(append(dst, b[from:t.Start]...), c, c)
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
	if l.Cut() || len(dst)+len(b)-from > limit {
		return dst, false
	}
	return append(dst, b[from:]...), true
}

// fastSkeleton is Skeleton for most statements, and several times as fast: it stops only where a literal, a quoted name
// or a comment may begin. sure is false for a text that it leaves to the lexer: one that depends on the token before.
func (l *Lexer) fastSkeleton(dst []byte, limit int) (skeleton []byte, ok, sure bool) {
	b, mysql, from := l.text, l.o.Dialect == MySQL, 0
	for i := skim(b, 0); i < len(b); i = skim(b, i) {
		c, before, end := b[i], byte(' '), i+1
		if i > 0 {
			before = b[i-1]
		}
		switch c {
		default: // a digit
			if end = digits(b, end); wordBytes[before] {
				i = end
				continue
			}
			if before == '.' || before == '@' {
				return dst, false, false
			}
			if next := at(b, end); next == '.' || wordBytes[next] {
				var kind Kind
				if kind, end = l.number(i); kind == Word || b[end-1] == '.' || at(b, end) == '.' {
					i = end
					continue
				}
			}
			if len(dst)+i-from > limit {
				return dst, false, true
			}
			dst = append(append(dst, b[from:i]...), number)
			from, i = end, end
		case '\'', '"':
			if before == '@' || before == '&' || wordBytes[before] {
				return dst, false, false
			}
			if c == '"' && l.o.doubleIsName() {
				i = l.quoted(end, c, false)
				continue
			}
			if len(dst)+i-from > limit {
				return dst, false, true
			}
			dst = append(append(dst, b[from:i]...), c, c)
			i = l.quoted(end, c, l.o.backslash())
			from = i
		case '`':
			if i = end; mysql {
				i = l.quoted(end, c, false)
			}
		case '-':
			if i = end; at(b, end) == '-' && (!mysql || end+1 >= len(b) || isBlank(b[end+1])) {
				i = l.line(end + 1)
			}
		case '#':
			if i = end; mysql {
				i = l.line(end)
			}
		case '/':
			if i = end; at(b, end) == '*' {
				var kind Kind
				if kind, i = l.comment(end + 1); kind == CodeMark {
					return dst, false, false
				}
			}
		case '$':
			switch i = end; {
			case mysql, wordBytes[before]:
			case isDigit(at(b, end)):
				i = l.words(end)
			default:
				return dst, false, false
			}
		case number:
			return dst, false, true
		}
	}
	if l.Cut() || len(dst)+len(b)-from > limit {
		return dst, false, true
	}
	return append(dst, b[from:]...), true, true
}

// Eight bytes at a time.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// skim returns where the first digit or one of the bytes " # $ ' - / ` 1 stands from i on, or the length. Skeleton
// spends most of its time in it.
func skim(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		y := x &^ highs
		// Of each of these the highest bit of a byte says whether it is meant.
		marks := (highs - (y ^ '\''*ones)) | (highs - (y ^ '-'*ones)) | (highs - (y ^ '`'*ones)) |
			(highs - (y ^ number*ones)) | between(y, '"', '$') | between(y, '/', '9')
		if marks = marks & highs &^ x; marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && !marked[b[i]] {
		i++
	}
	return i
}

var marked = tableOf("\x01\"#$'-/0123456789`")

// between sets the highest bit of each byte, all of which are below 0x80, that lies between two others.
func between(y uint64, from, to byte) uint64 {
	return (y + uint64(0x80-from)*ones) & (uint64(0x80|to)*ones - y)
}

// digits returns the end of the digits from i on.
func digits(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		if others := (^between(x&^highs, '0', '9') | x) & highs; others != 0 {
			return i + bits.TrailingZeros64(others)/8
		}
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}
