package log

import "tare/internal/sys/ledger"

// Parts are the amounts of each Part.
type Parts = ledger.Parts

// Part is the fate of a byte or a statement.
type Part = ledger.Part

// The fates of a byte or a statement.
const (
	Replayed  = ledger.Replayed
	Skipped   = ledger.Skipped
	Ambiguous = ledger.Ambiguous
	Lost      = ledger.Lost
)

// Reason is why something was skipped, is ambiguous or lost, with how much of it.
type Reason struct {
	Part       Part   `json:"part"`
	Reason     string `json:"reason"`
	Statements int64  `json:"statements"`
	Bytes      int64  `json:"bytes"`
}

// Account has the fate of every byte of a log and of every statement in it. After the last event Bytes.Total is the
// size of the log, uncompressed.
type Account struct {
	Bytes      Parts    `json:"bytes"`
	Statements Parts    `json:"statements"`
	Reasons    []Reason `json:"reasons"` // the largest first
	// Resyncs is how often a literal did not end, so that the next record had to be found by its looks.
	Resyncs int64 `json:"resyncs"`
}

// accountant keeps the account of a log while that is read.
type accountant struct {
	ledger.Ledger
	resyncs int64
}

// Account is how things stand. An event that was handed out and not accounted for is not in it yet.
func (r *Reader) Account() Account {
	a := Account{Bytes: r.account.Bytes, Statements: r.account.Records, Resyncs: r.account.resyncs,
		Reasons: []Reason{}}
	for _, x := range r.account.Reasons() {
		a.Reasons = append(a.Reasons, Reason{x.Part, x.Reason, x.Records, x.Bytes})
	}
	return a
}

// Settle accounts for the event that Next handed out last. Only the first call counts.
func (r *Reader) Settle(part Part, reason string) {
	if r.event == nil || r.settled {
		return
	}
	r.settled = true
	statements := int64(0)
	if r.event.Op.Statement() {
		statements = 1
	}
	r.account.Add(part, reason, statements, r.event.Length)
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
	whyStored    = "carried out by a stored routine, as the log says"
	whyNoValues  = "the log does not have the values of its parameters"
	whyCutValue  = "a value of it ends with ..., as those that log_parameter_max_length cuts off"
	whyEncoding  = "sets the encoding of the client: the log is in the server's"
	whyZeros     = "bytes of zero, as where a file was cut off or a machine stopped"
	whyMark      = "the mark of UTF-8 in front of a file"
	whyDelimiter = "routines between DELIMITER lines"
)

// settle accounts for an event that the caller has not settled.
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
func (r *Reader) skip(n int, reason string) { r.account.Add(Skipped, reason, 0, r.in.take(n)) }

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
	r.account.Add(Lost, reason, statements, r.in.take(n))
}

// finish accounts for the rest when the log has ended or cannot be read further.
func (r *Reader) finish() {
	if n := len(r.in.bytes()); n > 0 {
		r.lose(n, 0, whyCut)
	}
	if f := r.in.files; f != nil {
		for _, x := range f.edits {
			r.account.Add(Skipped, whyMark, 0, max(0, x.cost))
			r.in.took += max(0, x.cost)
		}
		f.edits = nil
	}
	if u := r.in.unwrap; u != nil {
		u.finish(r)
	}
}
