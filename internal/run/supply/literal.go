package supply

import (
	"bytes"
	"encoding/hex"
	"strconv"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// literal returns the value and the type of a literal of MySQL, as the client sent it. It appends the value to dst; the
// value of NULL is nil. ok is false if the literal cannot be the value of a parameter.
func literal(dst, text []byte, o lex.Options) (value []byte, is trace.Type, ok bool) {
	l := lex.Tokens(text, o)
	t, _ := l.Skip()
	sign := []byte(nil)
	if t.Kind == lex.Op && (text[t.Start] == '-' || text[t.Start] == '+') {
		sign = text[t.Start:t.End]
		t, _ = l.Skip()
	}
	word := text[t.Start:t.End]
	switch t.Kind {
	case lex.Number:
		return number(dst, sign, word)
	case lex.String:
		return quoted(dst, word, o)
	case lex.Word:
		if next, more := l.Skip(); more { // a type, such as TIMESTAMP'...'
			value, is, ok = quoted(dst, text[next.Start:next.End], o)
			return value, is, ok && next.Kind == lex.String
		}
		switch {
		case bytes.EqualFold(word, []byte("null")):
			return nil, trace.Text, true
		case bytes.EqualFold(word, []byte("true")):
			return append(dst, '1'), trace.Int, true
		case bytes.EqualFold(word, []byte("false")):
			return append(dst, '0'), trace.Int, true
		}
	}
	return nil, trace.Text, false
}

// number returns the value of a number. Decimal numbers, and integers of more than 64 bits, are exact as text only.
func number(dst, sign, digits []byte) (value []byte, is trace.Type, ok bool) {
	if len(digits) > 1 && digits[0] == '0' && (digits[1]|0x20 == 'x' || digits[1]|0x20 == 'b') {
		return nil, trace.Text, false
	}
	value = append(append(dst, bytes.TrimPrefix(sign, []byte("+"))...), digits...)
	s := string(value)
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return value, trace.Int, true
	}
	if _, err := strconv.ParseUint(s, 10, 64); err == nil {
		return value, trace.Int, true
	}
	if bytes.ContainsAny(digits, "eE") {
		return value, trace.Double, true
	}
	return value, trace.Text, true
}

// quoted returns the value of a literal with quotes and an optional prefix.
func quoted(dst, text []byte, o lex.Options) (value []byte, is trace.Type, ok bool) {
	if value = dst; value == nil {
		value = []byte{} // an empty text is not NULL
	}
	n := bytes.IndexAny(text, `'"`)
	if n < 0 || len(text) < n+2 {
		return nil, trace.Text, false
	}
	prefix, q := text[:n], text[n]
	in := text[n+1 : len(text)-1]
	switch {
	case bytes.EqualFold(prefix, []byte("x")):
		value, err := hex.AppendDecode(value, in)
		return value, trace.Blob, err == nil
	case bytes.EqualFold(prefix, []byte("_binary")):
		is = trace.Blob
	case n > 0 && prefix[0] != '_' && !bytes.EqualFold(prefix, []byte("n")):
		return nil, trace.Text, false
	}
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case c == q:
			i++ // doubled
		case c == '\\' && !o.NoBackslashEscapes && i+1 < len(in):
			i++
			if c = in[i]; c == '%' || c == '_' {
				value = append(value, '\\')
			}
			c = unescape(c)
		}
		value = append(value, c)
	}
	return value, is, true
}

// unescape returns the meaning of a letter after a backslash ("String Literals" in the MySQL 8.4 manual).
func unescape(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'Z':
		return 0x1a
	}
	return c
}
