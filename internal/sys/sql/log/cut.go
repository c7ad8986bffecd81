package log

import (
	"bytes"
	"strings"

	"tare/internal/sys/sql/lex"
)

// cutter finds where a record ends: at the next line that looks like the beginning of one, and stands outside of all
// literals and comments of the record. Where a literal never ends, the records that it seems to swallow are found
// again.
type cutter struct {
	state   lex.State // of the record
	guess   lex.State // of a record that begins within it, if its literal never ends
	quotes  csvState
	guesses csvState
	// With asks, a record is first looked at as a statement, whose skeleton will be asked for: for most, that tells as
	// well as state that nothing in it is open.
	asks     bool
	skeleton []byte // of the record's text, empty where it was not made
	// begun says that a record begins where the one that was cut ends, and that begins was last asked about that.
	begun bool
}

// whole tells whether a text is surely that of a record, and keeps its skeleton.
func (c *cutter) whole(text []byte) bool {
	if !c.asks {
		return false
	}
	var ok bool
	if c.skeleton, ok = lex.Skeleton(c.skeleton[:0], unbroken(text), lex.Options{}, maxSkeleton); !ok {
		c.skeleton = c.skeleton[:0]
	}
	return ok
}

// unbroken is a text without the end of its last line.
func unbroken(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
}

// shape is the part of a format that the cutter needs.
type shape interface {
	// begins tells whether a record begins with these bytes, of which there are maxHead or all that the log has. It
	// returns how many of them are the head, to which no quotes belong.
	begins(b []byte) (head int, ok bool)
	// closes tells whether the literal over the byte at can end where it does, in a text that is followed by a record.
	closes(text []byte, at int) bool
	// plausible tells whether a text can be that of a record.
	plausible(text []byte) bool
}

// quoting follows a text and knows whether it is inside of something.
type quoting interface {
	Advance([]byte)
	Inside() bool
}

// recordEnd is the kind of a record's end.
type recordEnd uint8

const (
	endsWell   recordEnd = iota
	endsHidden           // a line in it looks like the beginning of a record, and could be one
	endsOpen             // its literal never ends; the next record was found by its looks
	endsCut              // the log ends with it, and lacks the end of a literal
	endsLine             // the log ends with it, and lacks the end of a line
	endsZeros            // bytes of zero follow, and a record behind them
	endsLost             // too long: it was taken, and is accounted for
)

const (
	// Texts like records within a literal are taken for records when the literal does not end within so many bytes.
	guessBytes = 4 << 20
	// In a statement that is too long, of which nothing is kept, it is believed after so many records.
	guessRecords = 16
)

var bannerEnd = []byte("started with:")

// banner tells whether a line, without its line feed, is the first of the header that MySQL writes into its logs.
func banner(line []byte) bool {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return len(line) > 0 && line[len(line)-1] == ':' && bytes.HasSuffix(line, bannerEnd) &&
		bytes.Contains(line, []byte(", Version: "))
}

// cut returns where the record ends that begins the window and whose text begins at head. The two must have been reset.
func (r *Reader) cut(f shape, head int, state, guess quoting) (end int, how recordEnd) {
	r.cutter.begun = false
	scanned := head // state has come here
	line, pos := 0, head
	suspect := 0        // the beginning of the next record, if the literal that state is inside of never ends
	seen, count := 0, 0 // the reach of guess, and the number of such records
	inner := 0          // where the text of the first of them begins
	var h int
	for {
		b := r.in.bytes()
		n := bytes.IndexByte(b[pos:], '\n')
		if n < 0 {
			if pos = len(b); pos > r.o.MaxStatement {
				return 0, r.overflow(f, scanned, state)
			}
			if r.in.more() {
				continue
			}
			return r.cutAtEnd(scanned, suspect, state)
		}
		at := 0
		if z, after := zeroRun(b, line, pos+n); z > 0 {
			if _, ok := f.begins(b[after:]); ok {
				return z, endsZeros
			}
		}
		if next := pos + n; line > 0 && b[next-1] <= ':' && banner(b[line:next]) {
			at, h = line, next-line
		}
		line = pos + n + 1
		pos = line
		if at == 0 {
			if len(b)-line < maxHead {
				if b = r.in.head(line); len(b) == line {
					return r.cutAtEnd(scanned, suspect, state)
				}
			}
			var ok bool
			if h, ok = f.begins(b[line:]); !ok {
				if line > r.o.MaxStatement {
					return 0, r.overflow(f, scanned, state)
				}
				continue
			}
			at = line
		}
		if scanned == head && r.cutter.whole(b[head:at]) {
			r.cutter.begun = at == line
			return at, endsWell
		}
		if scanned < at {
			state.Advance(b[scanned:at])
			scanned = at
		}
		inside := state.Inside()
		if suspect == 0 {
			if !inside {
				return at, endsWell
			}
			suspect, seen, inner = at, at+h, at+h
			continue
		}
		if seen < at {
			guess.Advance(b[seen:at])
			seen = at
		}
		// Whether the literal has ended, and well, takes as long to see as all that was read: it is looked for ever
		// more rarely.
		count++
		wrong := (!inside || count&(count-1) == 0) && !f.closes(b[head:at], suspect-head)
		switch {
		case wrong, inside && at-suspect > guessBytes:
			r.account.resyncs++
			return suspect, endsOpen
		case inside:
		case guess.Inside() || !f.plausible(b[inner:at]):
			return at, endsWell // as a record the line would not be whole
		default:
			return at, endsHidden
		}
	}
}

// fewZeros is the shortest run of bytes of zero that is no data: a file system leaves whole blocks of them.
var fewZeros = make([]byte, 4)

// zeroRun finds a run of bytes of zero in a line between two offsets, and where it ends. It returns 0 for none.
func zeroRun(b []byte, from, to int) (at, after int) {
	n := bytes.Index(b[from:to], fewZeros)
	if n < 0 || from+n == 0 {
		return 0, 0
	}
	return from + n, zerosEnd(b, from+n)
}

// zerosEnd returns the end of the run of zero bytes that begins at an offset.
func zerosEnd(b []byte, at int) int {
	for at < len(b) && b[at] == 0 {
		at++
	}
	return at
}

// zeros takes the bytes of zero that begin the window, and tells whether there were any.
func (r *Reader) zeros() bool {
	any := false
	for {
		b := r.in.atLeast(1)
		n := zerosEnd(b, 0)
		if n == 0 {
			return any
		}
		any = true
		r.lose(n, 0, whyZeros)
		r.cutter.begun = false
	}
}

// cutAtEnd is cut where the log has ended.
func (r *Reader) cutAtEnd(scanned, suspect int, state quoting) (int, recordEnd) {
	b := r.in.bytes()
	if scanned < len(b) {
		state.Advance(b[scanned:])
	}
	switch {
	case state.Inside() && suspect > 0:
		r.account.resyncs++
		return suspect, endsOpen
	case state.Inside():
		return len(b), endsCut
	case b[len(b)-1] != '\n':
		return len(b), endsLine
	}
	return len(b), endsWell
}

// overflow takes a record that is too long, up to the next one.
func (r *Reader) overflow(f shape, scanned int, state quoting) recordEnd {
	b := r.in.bytes()
	if scanned < len(b) {
		state.Advance(b[scanned:])
	}
	begin := b[len(b)-1] == '\n'
	r.lose(len(b), 1, whyTooLong)
	for records := 0; ; {
		b := r.in.atLeast(maxHead)
		if len(b) == 0 {
			return endsLost
		}
		if _, ok := f.begins(b); begin && ok {
			if !state.Inside() {
				return endsLost
			}
			if records++; records > guessRecords {
				r.account.resyncs++
				return endsLost
			}
		}
		n := bytes.IndexByte(b, '\n') + 1
		begin = n > 0
		if n == 0 {
			n = len(b)
		}
		state.Advance(b[:n])
		r.lose(n, 0, whyTooLong)
	}
}

// closes is shape's for SQL: behind a literal comes no name and no other literal.
func closes(text []byte, at int, o lex.Options) bool {
	l := lex.Tokens(text, o)
	for {
		t, ok := l.Next()
		if !ok || t.Start >= at {
			return true
		}
		if t.End > at {
			return t.Kind == lex.Comment || alone(&l, text, t.End)
		}
	}
}

// plausible is shape's for SQL: no literal touches a name or another literal, and no comment ends that has not begun.
func plausible(text []byte, o lex.Options) bool {
	l := lex.Tokens(text, o)
	var last lex.Token
	for {
		t, ok := l.Next()
		if !ok {
			return true
		}
		switch t.Kind {
		case lex.String, lex.Name:
			touches := last.End == t.Start && last.Kind == lex.Word && !joins(text[last.Start:last.End])
			if touches || !alone(&l, text, t.End) {
				return false
			}
		case lex.Op:
			if text[t.Start] == '*' && t.End < len(text) && text[t.End] == '/' {
				return false
			}
		}
		last = t
	}
}

// alone tells whether the token that ends at an offset, which is where the lexer is, touches neither a name nor a
// literal.
func alone(l *lex.Lexer, text []byte, end int) bool {
	ahead := *l
	t, ok := ahead.Next()
	if !ok || t.Start > end {
		return true
	}
	switch t.Kind {
	case lex.Word:
		return joins(text[t.Start:t.End])
	case lex.String, lex.Name, lex.Number, lex.Variable:
		return false
	}
	return true
}

// joining are words that some programs write without a blank before or behind a literal.
var joining = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq("and or not in is as like between select from where order group having limit " +
		"union then else end when case collate on using values value set date time timestamp interval xor div mod " +
		"rlike regexp ilike similar escape for into desc asc by join left right inner cross offset procedure " +
		"returning binary") {
		m[w] = true
	}
	return m
}()

func joins(word []byte) bool {
	if len(word) > 12 {
		return false
	}
	var lower [12]byte
	for i, c := range word {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return joining[string(lower[:len(word)])]
}

// reasons returns why a record that ends like this is ambiguous, or why it is lost.
func (how recordEnd) reasons() (ambiguous, lost string) {
	switch how {
	case endsHidden:
		return whyHidden, ""
	case endsLine:
		return whyLastLine, ""
	case endsZeros:
		return whyZeros, ""
	case endsOpen:
		return whyOpen, ""
	case endsCut:
		return "", whyCut
	}
	return "", ""
}
