package lex

import "bytes"

// Bind finds the values with which a prepared statement was carried out: where text, the statement with values in it as
// servers log it, has a literal and template a parameter. It appends a span of text for each, quotes, sign and prefix
// included, and returns false if text is no execution of template.
func Bind(dst []Span, template, text []byte, o Options) ([]Span, bool) {
	a, b := Tokens(template, o), Tokens(text, o)
	for {
		want, more := a.Skip()
		got, ok := b.Skip()
		if !more || !ok {
			return dst, more == ok && !a.Cut() && !b.Cut()
		}
		if want.Kind != Param {
			if want.Kind != got.Kind || !bytes.Equal(template[want.Start:want.End], text[got.Start:got.End]) {
				return dst, false
			}
			continue
		}
		s := Span{got.Start, got.End}
		for got.Kind == Op && (text[got.Start] == '-' || text[got.Start] == '+') {
			if got, ok = b.Skip(); !ok {
				return dst, false
			}
			s.End = got.End
		}
		switch got.Kind {
		case String, Number:
		case Word:
			// A character set or DATE before a literal, or NULL.
			next := b
			if t, ok := next.Skip(); ok && t.Kind == String {
				b, s.End = next, t.End
			} else if !isConstant(text[got.Start:got.End]) {
				return dst, false
			}
		default:
			return dst, false
		}
		dst = append(dst, s)
	}
}

func isConstant(word []byte) bool {
	var buf [maxWord]byte
	switch string(lower(buf[:0], word)) {
	case "null", "true", "false", "default":
		return true
	}
	return false
}
