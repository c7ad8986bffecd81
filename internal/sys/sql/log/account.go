package log

import (
	"cmp"
	"slices"
)

// Parts says what became of something. Total is the sum of the others.
type Parts struct {
	Total     int64 `json:"total"`
	Replayed  int64 `json:"replayed"`
	Skipped   int64 `json:"skipped"`
	Ambiguous int64 `json:"ambiguous"`
	Lost      int64 `json:"lost"`
}

// Part is one of the four.
type Part string

// What can become of a byte or a statement.
const (
	Replayed  Part = "replayed"
	Skipped   Part = "skipped"   // on purpose, for a reason
	Ambiguous Part = "ambiguous" // it may not be what it seems
	Lost      Part = "lost"      // it cannot be known what it was
)

func (p *Parts) add(part Part, n int64) {
	p.Total += n
	switch part {
	case Replayed:
		p.Replayed += n
	case Skipped:
		p.Skipped += n
	case Ambiguous:
		p.Ambiguous += n
	default:
		p.Lost += n
	}
}

// Reason is why something was skipped, is ambiguous or lost, with how much of it.
type Reason struct {
	Part       Part   `json:"part"`
	Reason     string `json:"reason"`
	Statements int64  `json:"statements"`
	Bytes      int64  `json:"bytes"`
}

// Account says what became of every byte of a log and of every statement in it. After the last event Bytes.Total is the
// size of the log, uncompressed.
type Account struct {
	Bytes      Parts    `json:"bytes"`
	Statements Parts    `json:"statements"`
	Reasons    []Reason `json:"reasons"` // the largest first
	// Resyncs is how often a literal did not end, so that the next record had to be found by its looks.
	Resyncs int64 `json:"resyncs"`
}

type reasonKey struct {
	part   Part
	reason string
}

// ledger is an account that is being kept.
type ledger struct {
	bytes, statements Parts
	reasons           map[reasonKey]*Reason
	last              *Reason
	resyncs           int64
}

// maxReasons bounds how many reasons are told apart: some have a word of the log in them.
const maxReasons = 500

func (l *ledger) add(part Part, reason string, statements, bytes int64) {
	l.bytes.add(part, bytes)
	l.statements.add(part, statements)
	if part == Replayed {
		return
	}
	// Runs of the same reason are the rule.
	if l.last == nil || l.last.Part != part || l.last.Reason != reason {
		key := reasonKey{part, reason}
		if l.reasons == nil {
			l.reasons = map[reasonKey]*Reason{}
		}
		if l.last = l.reasons[key]; l.last == nil {
			if len(l.reasons) >= maxReasons {
				key.reason = "other reasons"
			}
			if l.last = l.reasons[key]; l.last == nil {
				l.last = &Reason{Part: part, Reason: key.reason}
				l.reasons[key] = l.last
			}
		}
	}
	l.last.Statements += statements
	l.last.Bytes += bytes
}

// Account is how things stand. An event that was handed out and not accounted for is not in it yet.
func (r *Reader) Account() Account {
	a := Account{Bytes: r.account.bytes, Statements: r.account.statements, Resyncs: r.account.resyncs,
		Reasons: []Reason{}}
	for _, reason := range r.account.reasons {
		a.Reasons = append(a.Reasons, *reason)
	}
	order := map[Part]int{Skipped: 0, Ambiguous: 1, Lost: 2}
	slices.SortFunc(a.Reasons, func(x, y Reason) int {
		return cmp.Or(order[x.Part]-order[y.Part], cmp.Compare(y.Statements, x.Statements),
			cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Reason, y.Reason))
	})
	return a
}

// Settle says what became of the event that Next handed out last. Only the first word counts.
func (r *Reader) Settle(part Part, reason string) {
	if r.event == nil || r.settled {
		return
	}
	r.settled = true
	statements := int64(0)
	if r.event.Op.Statement() {
		statements = 1
	}
	r.account.add(part, reason, statements, r.event.Length)
}

// The reasons of this package.
const (
	whyIgnored   = "not asked for"
	whyHeader    = "the server's own header lines"
	whyBlank     = "blank lines"
	whyAdmin     = "commands that are no statements"
	whyTwice     = "PREPARE and EXECUTE as texts, where what they carry out is logged as well"
	whyNoBegin   = "the beginning of the record is not in the log"
	whyTooLong   = "a statement that is longer than the limit"
	whyCut       = "the log ends in the middle of it"
	whyOpen      = "a literal in it never ends"
	whyLastLine  = "the log ends with it, without the end of a line"
	whyHidden    = "a line in it looks like another record, and both can be"
	whyUnplaced  = "a line without the prefix goes on with it"
	whyMessages  = "messages of the server"
	whyParse     = "parse and bind of what is carried out after them"
	whyDuration  = "durations of what was logged before"
	whyWrapping  = "what the records are wrapped in"
	whyNoRecord  = "lines that are no record"
	whyBadJSON   = "JSON that cannot be read"
	whyClient    = "commands of a client program"
	whyCopy      = "data of COPY"
	whyRoutine   = "carried out by a stored routine, which is replayed as a whole"
	whyDelimiter = "routines between DELIMITER lines"
)

// settle is for what nobody has accounted for.
func (r *Reader) settle() {
	if r.event != nil {
		if r.event.Ambiguous != "" {
			r.Settle(Ambiguous, r.event.Ambiguous)
		} else {
			r.Settle(Skipped, whyIgnored)
		}
		r.event = nil
	}
}

// skip takes n bytes of the window that are no statement.
func (r *Reader) skip(n int, reason string) { r.account.add(Skipped, reason, 0, r.in.take(n)) }

// aside takes n bytes of the window that are a session's record and no event.
func (r *Reader) aside(session uint64, n int, reason string) {
	offset := r.in.took
	r.skip(n, reason)
	if r.o.Aside != nil {
		r.o.Aside(session, offset, r.in.took-offset)
	}
}

// lose takes n bytes of the window that are lost, with so many statements.
func (r *Reader) lose(n int, statements int64, reason string) {
	r.account.add(Lost, reason, statements, r.in.take(n))
}

// finish accounts for what is left when the log has ended or cannot be read further.
func (r *Reader) finish() {
	if n := len(r.in.bytes()); n > 0 {
		r.lose(n, 0, whyCut)
	}
	if u := r.in.unwrap; u != nil {
		u.finish(r)
	}
}
