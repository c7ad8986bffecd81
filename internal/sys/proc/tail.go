package proc

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Tail is a writer that keeps the last bytes written to it: the evidence of a process that died. It is safe for
// concurrent use.
type Tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

// NewTail returns a Tail that keeps max bytes.
func NewTail(max int) *Tail { return &Tail{max: max} }

// Write keeps the end of p. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n >= t.max {
		t.buf = append(t.buf[:0], p[n-t.max:]...)
		return n, nil
	}
	if over := len(t.buf) + n - t.max; over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
	}
	t.buf = append(t.buf, p...)
	return n, nil
}

// Bytes returns a copy of the kept bytes.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.buf...)
}

// Printable makes foreign output safe to show: invalid UTF-8 and control characters other than newline and tab become
// visible escapes, so that no terminal or page interprets them.
func Printable(b []byte) string {
	var s strings.Builder
	const hex = "0123456789abcdef"
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r == utf8.RuneError && n == 1:
			s.WriteString(`\x` + string(hex[b[0]>>4]) + string(hex[b[0]&15]))
		case r == '\n' || r == '\t':
			s.WriteRune(r)
		case r == '\r':
		case unicode.IsControl(r) && r < 0x100:
			s.WriteString(`\x` + string(hex[r>>4]) + string(hex[r&15]))
		case !unicode.IsPrint(r) && r != ' ':
			s.WriteRune(utf8.RuneError)
		default:
			s.WriteRune(r)
		}
		b = b[n:]
	}
	return s.String()
}

// Line is Printable for text in one line: runs of blanks and newlines become one blank.
func Line(s string) string { return strings.Join(strings.Fields(Printable([]byte(s))), " ") }

// Telling returns the most informative line of a console or a log: the last with a kernel panic or a message of tare,
// else the last that is not empty; "" if there is none.
func Telling(said []byte) string {
	last := ""
	for l := range strings.Lines(Printable(said)) {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		if tells(l) || !tells(last) {
			last = l
		}
	}
	return last
}

func tells(line string) bool {
	return strings.Contains(line, "Kernel panic") || strings.HasPrefix(line, "tare: ")
}
