package log

import (
	"bytes"
	"io"
)

// unwrapper takes the lines of a log out of the JSON that Cloud Logging, CloudWatch, journald or the engine of a
// container puts around them: objects one after the other, in an array, or in an array within an object. Its output is
// the log; it remembers how many bytes of the input each piece of it is.
type unwrapper struct {
	src        io.Reader
	buf        []byte
	start, end int
	err        error

	out     []byte // the bytes that were not read yet
	outBuf  []byte
	plain   []byte
	marks   []mark // of entries that were not taken yet
	first   int    // in marks
	virtual int64  // bytes of output so far
	taken   int64  // bytes of it that were taken
	charged int64  // bytes of input that belong to them
	given   int64  // bytes of input that belong to the output so far

	total    int64 // bytes of input so far
	framing  int64 // of bytes outside of entries
	broken   int64 // of unreadable bytes
	empty    int64 // of entries without a text
	envelope bool  // in the array of an object
	max      int
}

// mark is the end of an entry, in the output and in the input, and its time.
type mark struct{ virtual, given, time int64 }

// textKeys are the members that hold a line of a log.
var textKeys = map[string]bool{"textPayload": true, "message": true, "log": true, "MESSAGE": true}

// arrayKeys are those that hold an array of entries.
var arrayKeys = map[string]bool{"events": true, "logEvents": true, "entries": true}

func (u *unwrapper) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.err != nil && u.start == u.end {
			return 0, u.err
		}
		u.entry()
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// cost tells how many bytes of the input belong to the next n bytes of the output. Those of an entry count with its
// last one.
func (u *unwrapper) cost(n int) int64 {
	u.taken += int64(n)
	given := u.charged
	for u.first < len(u.marks) && u.marks[u.first].virtual <= u.taken {
		given = u.marks[u.first].given
		u.first++
	}
	if u.first > 1024 && u.first > len(u.marks)/2 {
		u.marks = u.marks[:copy(u.marks, u.marks[u.first:])]
		u.first = 0
	}
	cost := given - u.charged
	u.charged = given
	return cost
}

// time is that of the entry that is taken next.
func (u *unwrapper) time() (us, precision int64) {
	if u.first < len(u.marks) {
		return u.marks[u.first].time, 1
	}
	return NoTime, 1
}

func (u *unwrapper) more() bool {
	if u.err != nil {
		return false
	}
	if len(u.buf)-u.end < chunk {
		u.buf, u.end = room(u.buf, u.start, u.end)
		u.start = 0
	}
	for range 100 {
		n, err := u.src.Read(u.buf[u.end : u.end+chunk])
		u.end += n
		u.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	u.err = io.ErrNoProgress
	return false
}

func (u *unwrapper) take(n int, counter *int64) {
	u.start += n
	u.total += int64(n)
	*counter += int64(n)
}

// entry takes the next entry, or the text before it.
func (u *unwrapper) entry() {
	for u.start == u.end {
		if !u.more() {
			return
		}
	}
	b := u.buf[u.start:u.end]
	n := 0
	for n < len(b) && b[n] != '{' {
		if b[n] == '"' {
			n = u.line(n) // the rest of a broken object
			u.take(n, &u.broken)
			return
		}
		if b[n] == ']' && u.envelope {
			// The rest of the object around the array.
			u.envelope = false
			u.take(n+1, &u.framing)
			u.rest()
			return
		}
		n++
	}
	if n > 0 || n == len(b) {
		u.take(n, &u.framing)
		return
	}
	u.object()
}

// line returns how many bytes of the buffer lie up to the end of the line, from an offset on.
func (u *unwrapper) line(from int) int {
	for {
		b := u.buf[u.start:u.end]
		if n := bytes.IndexByte(b[from:], '\n'); n >= 0 {
			return from + n + 1
		}
		if from = len(b); from > u.max || !u.more() {
			return u.end - u.start
		}
	}
}

// rest takes the end of the object around an array: depth 1 to 0.
func (u *unwrapper) rest() {
	s := jsonScan{depth: 1}
	for {
		b := u.buf[u.start:u.end]
		if n := s.scan(b); n > 0 || s.broken {
			u.take(n, &u.framing)
			return
		}
		u.take(len(b), &u.framing)
		if !u.more() {
			return
		}
	}
}

// object takes an object, which begins the buffer: an entry, or one that has entries.
func (u *unwrapper) object() {
	var s jsonScan
	seen := 0
	for {
		b := u.buf[u.start:u.end]
		n := s.scan(b[seen:])
		if n > 0 {
			u.text(b[:seen+n])
			return
		}
		if seen == 0 && !u.envelope {
			if n := arrayWithin(b); n > 0 {
				u.envelope = true
				u.take(n, &u.framing)
				return
			}
		}
		seen = len(b)
		if s.broken || seen > u.max || !u.more() {
			u.take(u.line(0), &u.broken)
			return
		}
	}
}

// arrayWithin returns where the array of entries begins in an object that is not whole, 0 for none.
func arrayWithin(b []byte) int {
	f := fieldsOf(b)
	for {
		i := skipBlanks(b, f.at)
		if i < len(b) && b[i] == ',' {
			i = skipBlanks(b, i+1)
		}
		if end := valueEnd(b, i); end > 0 && b[i] == '"' && arrayKeys[string(b[i+1:end-1])] {
			if i = skipBlanks(b, end); i < len(b) && b[i] == ':' {
				if i = skipBlanks(b, i+1); i < len(b) && b[i] == '[' {
					return i + 1
				}
			}
		}
		if _, _, ok := f.next(); !ok {
			return 0
		}
	}
}

// text takes the line of a log out of an entry.
func (u *unwrapper) text(object []byte) {
	if n := arrayWithin(object); n > 0 && !u.envelope {
		u.envelope = true
		u.take(n, &u.framing)
		return
	}
	var text, stamp []byte
	found, partial := false, false
	for f := fieldsOf(object); ; {
		name, value, ok := f.next()
		if !ok {
			break
		}
		switch {
		case textKeys[string(name)] && value[0] == '"':
			text, found = value, true
			partial = string(name) == "log" // a container's lines end where they end
		case string(name) == "timestamp", string(name) == "time":
			stamp = value
		}
	}
	if !found {
		u.take(len(object), &u.empty)
		return
	}
	out := u.outBuf[:0]
	if first := text[1:min(len(text), 300)]; bytes.Contains(first, []byte("LOG: ")) {
		u.plain = unquote(u.plain[:0], text)
		out = indented(out, u.plain)
	} else {
		out = unquote(out, text)
	}
	if len(out) == 0 || out[len(out)-1] != '\n' && !partial {
		out = append(out, '\n')
	}
	u.outBuf, u.out = out, out
	u.virtual += int64(len(out))
	u.take(len(object), &u.given)
	u.marks = append(u.marks, mark{u.virtual, u.given, entryTime(stamp)})
}

// indented appends a text with a tab at the beginning of each further line, as PostgreSQL writes them.
func indented(dst, text []byte) []byte {
	for i, c := range text {
		if dst = append(dst, c); c == '\n' && i+1 < len(text) && text[i+1] != '\t' {
			dst = append(dst, '\t')
		}
	}
	return dst
}

// entryTime reads the time that an entry has itself: text, or a number of milliseconds.
func entryTime(value []byte) int64 {
	if len(value) > 2 && value[0] == '"' {
		var c clock
		if t, n := c.stamp(value[1 : len(value)-1]); n > 0 {
			return c.at(t)
		}
		return NoTime
	}
	if ms, n := number(value); n > 10 && n < 16 {
		return int64(ms) * 1000
	}
	return NoTime
}

// finish accounts for the bytes that are no part of any entry.
func (u *unwrapper) finish(r *Reader) {
	for _, x := range []struct {
		part   Part
		reason string
		bytes  *int64
	}{
		{Skipped, whyWrapping, &u.framing}, {Skipped, "entries without a line of the log", &u.empty},
		{Lost, whyBadJSON, &u.broken},
	} {
		if *x.bytes > 0 {
			r.account.Add(x.part, x.reason, 0, *x.bytes)
			r.in.took += *x.bytes
			*x.bytes = 0
		}
	}
	if n := u.given - u.charged; n > 0 { // it stopped in the middle of an entry
		r.account.Add(Lost, whyCut, 0, n)
		u.charged = u.given
	}
}
