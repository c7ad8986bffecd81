package log

import (
	"unicode/utf16"
	"unicode/utf8"
)

// fields goes through the members of a JSON object without allocating. Values are as they stand in the text.
type fields struct {
	b  []byte
	at int
}

// fieldsOf begins with an object, braces included.
func fieldsOf(object []byte) fields { return fields{object, 1} }

// next returns a name and its value, and false at the end of the object or where it cannot be read.
func (f *fields) next() (name, value []byte, ok bool) {
	i := skipBlanks(f.b, f.at)
	if i < len(f.b) && f.b[i] == ',' {
		i = skipBlanks(f.b, i+1)
	}
	if i >= len(f.b) || f.b[i] != '"' {
		return nil, nil, false
	}
	end := valueEnd(f.b, i)
	if end < 0 {
		return nil, nil, false
	}
	name = f.b[i+1 : end-1]
	if i = skipBlanks(f.b, end); i >= len(f.b) || f.b[i] != ':' {
		return nil, nil, false
	}
	i = skipBlanks(f.b, i+1)
	if end = valueEnd(f.b, i); end < 0 {
		return nil, nil, false
	}
	f.at = end
	return name, f.b[i:end], true
}

func skipBlanks(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// valueEnd returns where the value that begins at i ends, or -1.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		for i++; i < len(b); i++ {
			switch b[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return -1
	case '{', '[':
		var s jsonScan
		if n := s.scan(b[i:]); n > 0 {
			return i + n
		}
		return -1
	}
	begin := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}

// jsonScan finds the end of an object or an array. It is fed in pieces.
type jsonScan struct {
	depth           int
	quoted, escaped bool
	broken          bool // a line ends within a string, which JSON does not allow
}

// scan returns how many bytes of b end the value, or 0 if it goes on, or is broken.
func (s *jsonScan) scan(b []byte) int {
	for i, c := range b {
		if s.quoted {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.quoted = false
			case c == '\n':
				s.broken = true
				return 0
			}
			continue
		}
		switch c {
		case '"':
			s.quoted = true
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth--; s.depth <= 0 {
				return i + 1
			}
		}
	}
	return 0
}

// unquote appends the value of a JSON string. Any other text is appended as it is; null is nothing.
func unquote(dst, value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		if string(value) == "null" {
			return dst
		}
		return append(dst, value...)
	}
	b := value[1 : len(value)-1]
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' || i+1 == len(b) {
			dst = append(dst, b[i])
			continue
		}
		i++
		switch b[i] {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r := hex4(b[i+1:])
			if r < 0 {
				dst = append(dst, '\\', 'u')
				continue
			}
			i += 4
			if utf16.IsSurrogate(r) && i+2 < len(b) && b[i+1] == '\\' && b[i+2] == 'u' {
				if pair := utf16.DecodeRune(r, hex4(b[i+3:])); pair != utf8.RuneError {
					r = pair
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, b[i])
		}
	}
	return dst
}

// hex4 reads four hexadecimal digits; it returns -1 if they are none.
func hex4(b []byte) rune {
	if len(b) < 4 {
		return -1
	}
	n := rune(0)
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return n
}
