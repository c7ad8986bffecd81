package httplog

import (
	"bytes"
	"net/netip"
	"strings"
	"time"

	"tare/internal/sys/ledger"
)

// combined reads the common and the combined format:
//
//	[host[:port]] client ident user [02/Jan/2006:15:04:05 -0700] "request" status bytes ["referer" "agent" [more]]
//
// Apache and nginx write a quote within quotes as \" or \x22, and unprintable bytes as \xHH.
type combined struct {
	request, referer, agent, user []byte // without escapes
	cache                         clock
}

func (c *combined) next(r *Reader, q *Request) (bool, error) {
	return r.record(q, func(line []byte) (ledger.Part, string) {
		if !c.parse(line, q) {
			return ledger.Lost, whyNoRecord
		}
		return ledger.Replayed, ""
	})
}

const stamp = "02/Jan/2006:15:04:05 -0700"

// parse reads a line. It tells whether it is a record.
func (c *combined) parse(line []byte, q *Request) bool {
	from, at := 0, 0
	for {
		i := bytes.IndexByte(line[from:], '[')
		if i < 0 {
			return false
		}
		at = from + i + 1
		if len(line) >= at+len(stamp)+3 && line[at+len(stamp)] == ']' {
			if t, ok := c.cache.parse(line[at : at+len(stamp)]); ok {
				q.Time, q.Precision = t, second
				break
			}
		}
		from = at // a user's name may have a bracket
	}
	if !c.who(line[:at-1], q) {
		return false
	}
	rest := line[at+len(stamp)+1:]
	var ok bool
	if c.request, rest, ok = quoted(c.request[:0], rest); !ok {
		return false
	}
	status, rest := word(rest)
	size, rest := word(rest)
	n, known := number(status)
	if !known && string(status) != "-" || known && len(status) != 3 {
		return false
	}
	q.Status = int(n)
	if q.Bytes, known = number(size); !known {
		if q.Bytes = -1; string(size) != "-" {
			return false
		}
	}
	// The rest depends on the server's configuration: the combined format has two texts more, and numbers may stand
	// before them, such as the bytes with the headers.
	for range 8 {
		next, after := word(rest)
		if len(next) == 0 || next[0] == '"' {
			break
		}
		rest = after
	}
	if c.referer, rest, ok = quoted(c.referer[:0], rest); ok {
		q.Referer = named(c.referer)
		if c.agent, _, ok = quoted(c.agent[:0], rest); ok {
			q.Agent = named(c.agent)
		}
	}
	q.line(c.request)
	return true
}

// who reads the fields before the time: the client, its identity and its user, whose name may have blanks. Before them
// may be a virtual host, or the head that a syslog or a container's engine puts before each line. The client is the
// last address that has two words behind it; names of clients, which few servers look up, go by their place.
func (c *combined) who(head []byte, q *Request) bool {
	var words [24][]byte
	n := 0
	for rest := head; n < len(words); n++ {
		if words[n], rest = word(rest); len(words[n]) == 0 {
			break
		}
	}
	if n < 2 {
		return false
	}
	at := 0
	if n > 3 {
		at = n - 3
		for at > 0 && !isAddress(words[at]) {
			at--
		}
		if at == 0 && !isAddress(words[0]) {
			if at = n - 3; string(words[1]) == "-" {
				at = 0 // a user's name with blanks
			}
		}
	}
	client, last := words[at], words[at]
	for at > 0 && bytes.HasSuffix(words[at-1], []byte(",")) && isAddress(words[at-1]) { // the way through proxies
		at--
		client = words[at]
	}
	// A machine's name may stand there as well, but not first, or behind the mark of a prefix.
	if at > 0 && (at == 1 || bytes.HasSuffix(words[at-2], []byte(":")) || string(words[at-2]) == "|") {
		q.Host = virtualHost(words[at-1])
	}
	q.Client = addressOf(string(bytes.TrimSuffix(client, []byte(","))))
	_, after := word(head[cap(head)-cap(last)+len(last):])
	c.user = unescape(c.user[:0], bytes.TrimSpace(after))
	q.User = named(c.user)
	return true
}

// isAddress tells whether a word is an address, with or without a port.
func isAddress(b []byte) bool {
	b = bytes.TrimSuffix(b, []byte(","))
	if bytes.IndexByte(b, '.') < 0 && bytes.IndexByte(b, ':') < 0 {
		return false
	}
	text := string(b)
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return true
	}
	_, err := netip.ParseAddrPort(text)
	return err == nil
}

// virtualHost is a word that may be one: a name with a dot or a port, or localhost, or an address.
func virtualHost(b []byte) []byte {
	name, port := b, []byte(nil)
	if i := bytes.LastIndexByte(b, ':'); i > 0 && !isAddress(b) {
		if _, ok := number(b[i+1:]); !ok {
			return nil
		}
		name, port = b[:i], b[i+1:]
	}
	if isAddress(b) {
		return b
	}
	letters := 0
	for _, c := range name {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case c >= '0' && c <= '9', c == '.', c == '-', c == '_', c >= 0x80, c == '*':
		default:
			return nil
		}
	}
	if letters == 0 || port == nil && bytes.IndexByte(name, '.') < 0 && string(name) != "localhost" {
		return nil
	}
	return hostOf(name, port)
}

// hostOf is a host as a request names it: the usual port is left out.
func hostOf(name, port []byte) []byte {
	if p := string(port); p == "80" || p == "443" || p == "" {
		return name
	}
	return append(append(bytes.Clone(name), ':'), port...)
}

// named is a value of which - stands for none.
func named(b []byte) []byte {
	if string(b) == "-" {
		return nil
	}
	return b
}

// word cuts the next word off.
func word(b []byte) (w, rest []byte) {
	b = bytes.TrimLeft(b, " ")
	if i := bytes.IndexByte(b, ' '); i >= 0 {
		return b[:i], b[i:]
	}
	return b, nil
}

// number reads digits.
func number(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// quoted cuts a value in quotes off and appends it to dst without its escapes.
func quoted(dst, b []byte) (value, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " ")
	if len(b) == 0 || b[0] != '"' {
		return dst, b, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return unescape(dst, b[1:i]), b[i+1:], true
		}
	}
	return dst, b, false
}

// unescape appends a value without its escapes: those of Apache and those of nginx.
func unescape(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c != '\\' || i+1 == len(b) {
			dst = append(dst, c)
			continue
		}
		i++
		switch c = b[i]; c {
		case 'x':
			if hi, ok := hex(b, i+1); ok {
				if lo, ok := hex(b, i+2); ok {
					dst = append(dst, hi<<4|lo)
					i += 2
					continue
				}
			}
			dst = append(dst, '\\', 'x')
		case 'b', 'n', 'r', 't', 'v':
			dst = append(dst, map[byte]byte{'b': '\b', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}[c])
		case '"', '\\':
			dst = append(dst, c)
		default:
			dst = append(dst, '\\', c)
		}
	}
	return dst
}

func hex(b []byte, i int) (byte, bool) {
	if i >= len(b) {
		return 0, false
	}
	switch c := b[i] | 0x20; {
	case b[i] >= '0' && b[i] <= '9':
		return b[i] - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// second in microseconds.
const second = 1_000_000

// clock reads times, and remembers the last one: most lines have that of the line before.
type clock struct {
	text string
	at   int64
}

func (c *clock) parse(b []byte) (int64, bool) {
	if string(b) != c.text {
		t, err := time.Parse(stamp, string(b))
		if err != nil {
			return 0, false
		}
		if c.text, c.at = string(b), t.UnixMicro(); t.Year() < 1970 {
			c.at = NoTime // no server has seen it
		}
	}
	return c.at, true
}

// line reads a line such as GET /page HTTP/1.1.
func (q *Request) line(b []byte) {
	q.Bad = whyGarbage
	i, j := bytes.IndexByte(b, ' '), bytes.LastIndexByte(b, ' ')
	if i <= 0 || j <= i || !isProtocol(b[j+1:]) || !isMethod(b[:i]) {
		return
	}
	q.Bad, q.Method = "", b[:i]
	q.aim(b[i+1 : j])
}

func isProtocol(b []byte) bool {
	rest, ok := bytes.CutPrefix(b, []byte("HTTP/"))
	return ok && len(rest) > 0 && len(rest) <= 3 && rest[0] >= '1' && rest[0] <= '3'
}

// isMethod tells whether a word is a method as it may be written.
func isMethod(b []byte) bool {
	for _, c := range b {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return false
		}
	}
	return len(b) > 0 && len(b) <= 32
}

// aim sets the target, and says if it cannot be sent.
func (q *Request) aim(target []byte) {
	q.Target = target
	for _, c := range target {
		if c <= ' ' || c == 0x7f {
			q.Bad = whyTarget
			return
		}
	}
	switch {
	case len(target) == 0:
		q.Bad = whyTarget
	case target[0] == '/', string(target) == "*":
	default:
		q.Bad = whyElsewhere
	}
}
