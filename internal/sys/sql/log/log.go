// Package log reads the logs of database servers: each statement with its time, user and session.
//
// It is opinionated. No byte of a log goes missing in silence: each is a part of a record that is handed out, or is
// counted with the reason why not. A line that looks like the beginning of a record, but stands within a literal, is
// data; where a literal never ends, the next records are found again, and that is counted as well. Memory does not grow
// with the log. Records are handed out in the order of the log, and nothing is allocated for each.
//
// The formats: MySQL's general log of all versions since 3.23, MariaDB's and Aurora's; the slow log of MySQL, MariaDB
// and Percona; the audit logs of MySQL, Percona, MariaDB and Aurora; PostgreSQL's stderr, csvlog, jsonlog and syslog; a
// plain file of statements; and JSON of Cloud SQL, CloudWatch or a container's engine around any of the first.
package log

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"tare/internal/suggest"
	"tare/internal/sys/ledger"
	"tare/internal/sys/sql/lex"
)

// Op is an operation of a session.
type Op uint8

// The operations. Query and Execute are statements; the others change the session or prepare something.
const (
	Other           Op = iota
	Connect            // the session begins
	Denied             // the login of the session failed
	Quit               // the session ends
	InitDB             // Database is the default from here on
	Query              // a text is carried out
	Prepare            // a text is prepared
	Execute            // a prepared statement is carried out; Text has the values in it (MySQL) or $1 (PostgreSQL)
	CloseStmt          // a prepared statement is given up
	ResetStmt          // its cursor is
	ChangeUser         // another user, and nothing left of the session's state
	ResetConnection    // nothing left of the session's state
)

// String is the operation's name, as MySQL has it.
func (op Op) String() string {
	return [...]string{"Other", "Connect", "Denied", "Quit", "Init DB", "Query", "Prepare", "Execute", "Close stmt",
		"Reset stmt", "Change user", "Reset Connection"}[op]
}

// Statement tells whether the operation is one that accounts count as a statement.
func (op Op) Statement() bool { return op == Query || op == Execute }

// NoTime is the time of an event of which the log does not tell one.
const NoTime = math.MinInt64

// Event is one action of one session. Slices are valid until the next call of Next.
type Event struct {
	// Session numbers the sessions of the log from 1 in the order in which they appear. An id of the server that comes
	// again after its end is another session. 0 is none.
	Session uint64
	Op      Op
	// Begun is set in the first event of a session whose beginning is not in the log: its user, its database and its
	// prepared statements are not known.
	Begun bool
	// Time is when the action began, in microseconds since 1970 UTC, and Precision how coarse it is, in microseconds.
	// Times of a log without a zone are those of Options.Zone.
	Time, Precision int64
	// User, Host and Database are set where the record tells them.
	User, Host, Database []byte
	// Text is the statement; Op tells which one.
	Text []byte
	// Name is that of a prepared statement: PostgreSQL's own, empty for the unnamed; in a log of MySQL's, which has
	// none, a number that joins Prepare and Execute, and empty where the log does not have the prepared text.
	Name []byte
	// Prepared is the text of an Execute as it was prepared, where the log tells.
	Prepared []byte
	// Params are the values of an Execute: PostgreSQL's as text, nil for NULL; MySQL's as literals, quotes included.
	Params [][]byte
	// NoBackslash says that a backslash in the literals of Params is one.
	NoBackslash bool
	// Duration is how long it took in microseconds, and Rows how many came back; -1 where the log does not tell.
	Duration, Rows int64
	// TxID is the number of the transaction, 0 where the log does not tell, or the server has not given one yet.
	// LocalTx tells transactions of a session apart: it is the same in all records of one, 0 where the log does not
	// tell.
	TxID, LocalTx uint64
	// Routine says that a stored routine carried the statement out, which is in the log as a whole, too.
	Routine bool
	// Unfit is why the text differs from the statement that was carried out, empty if it does not.
	Unfit string
	// Ambiguous is why the record may have been misread, empty if that is not so. Such a statement is not to be
	// replayed.
	Ambiguous string
	// Offset is where the record begins in the log, in bytes, and Length how many bytes it has there.
	Offset, Length int64

	logged   bool   // by PostgreSQL, in the encoding of the server
	skeleton []byte // of Text, by lex.Skeleton with MySQL's usual rules; nil where it was not made
}

// Format is how a log is written.
type Format string

// The formats.
const (
	General    Format = "general"    // MySQL's general log
	Slow       Format = "slow"       // MySQL's slow log
	Audit      Format = "audit"      // audit logs in JSON
	AuditCSV   Format = "audit-csv"  // audit logs of MariaDB and Aurora
	PgStderr   Format = "pg-stderr"  // with a prefix before each line
	PgCSV      Format = "pg-csv"     // csvlog
	PgJSON     Format = "pg-json"    // jsonlog
	PgSyslog   Format = "pg-syslog"  // lines of a syslog
	Plain      Format = "plain"      // statements with semicolons between them
	PlainLines Format = "plain-line" // a statement in each line
)

// Formats lists them.
func Formats() []Format {
	return []Format{General, Slow, Audit, AuditCSV, PgStderr, PgCSV, PgJSON, PgSyslog, Plain, PlainLines}
}

// Options are facts that a log does not tell of itself. The zero value finds out as much as it can.
type Options struct {
	Format  Format         // empty: found by the first 64 KiB
	Prefix  string         // PostgreSQL's log_line_prefix; empty: found by the sample
	Dialect lex.Dialect    // of a plain file
	Zone    *time.Location // of times without one; nil is UTC
	// MaxStatement is the size in bytes above which a statement is lost; 0 is 64 MiB. It bounds the memory.
	MaxStatement int
	// Sample is the number of bytes that are read to find the options that are not set: 0 is 64 KiB, and -1 none, where
	// nothing has to be found. A log that grows may not have more for now.
	Sample int
	// Aside, if set, is called for each record that is no event but belongs to a session: who copies the records of a
	// session needs these as well. The numbers are those of Event. It works for General, Slow, PgStderr
	// and PgCSV.
	Aside func(session uint64, offset, length int64)
}

const (
	defaultMax = 64 << 20
	sampleSize = 64 << 10
)

// Reader hands out the events of a log. It is not safe for concurrent use.
type Reader struct {
	in      window
	o       Options
	format  Format
	wrapped string
	prefix  string
	reader  formatReader
	dialect lex.Dialect
	account accountant
	sess    sessions
	clock   clock
	cutter  cutter

	event   *Event // the event that Next handed out last, if nobody has settled it
	settled bool
	params  [][]byte
	spans   []lex.Span
	name    []byte
	notes   []string

	textExecutes int // EXECUTE as a text, less the statements that it carried out
}

// formatReader reads a format: it hands out one event, or an error. It accounts for the bytes that it takes from the
// window.
type formatReader interface {
	next(r *Reader, e *Event) error
}

// Open begins to read a log. It reads a sample to find the options that are not set, and fails if they cannot be found.
func Open(src io.Reader, o Options) (*Reader, error) {
	if o.MaxStatement <= 0 {
		o.MaxStatement = defaultMax
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	r := &Reader{o: o}
	r.in.src = src
	r.clock.zone, r.clock.note = o.Zone, r.note
	r.sess.init()
	files, _ := src.(*Files)
	if files != nil {
		r.in.files, files.begins = files, anyBegin
	} else if string(r.in.atLeast(len(ledger.Mark))[:min(len(r.in.bytes()), len(ledger.Mark))]) == ledger.Mark {
		r.skip(len(ledger.Mark), whyMark)
	}
	if err := r.detect(); err != nil {
		return nil, err
	}
	if files != nil {
		files.begins = r.begins()
	}
	return r, nil
}

// Format returns the log's format, and the format that wraps it: "" for none.
func (r *Reader) Format() (f Format, wrapped string) { return r.format, r.wrapped }

// Prefix is PostgreSQL's log_line_prefix, given or found.
func (r *Reader) Prefix() string { return r.prefix }

// Dialect tells whose SQL it is.
func (r *Reader) Dialect() lex.Dialect { return r.dialect }

// Notes are messages for the user about the log as a whole.
func (r *Reader) Notes() []string { return r.notes }

func (r *Reader) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, n := range r.notes {
		if n == text {
			return
		}
	}
	if len(r.notes) < 16 {
		r.notes = append(r.notes, text)
	}
}

func (e *Event) clear() { *e = Event{Time: NoTime, Duration: -1, Rows: -1} }

// Next fills in the next event. At the end it returns io.EOF; any other error is one of reading the log, and ends it.
// An event that is not settled before the next call is skipped.
func (r *Reader) Next(e *Event) error {
	r.settle()
	for {
		e.clear()
		if err := r.reader.next(r, e); err != nil {
			r.finish()
			if r.in.err != nil && r.in.err != io.EOF {
				return fmt.Errorf("read the log after %d bytes: %w", r.in.took, r.in.err)
			}
			return err
		}
		if e.Op != Other {
			if r.in.padded && e.Ambiguous == "" {
				e.Ambiguous = whyLastLine
			}
			r.event, r.settled = e, false
			return nil
		}
	}
}

// formatNamed is the format that a user means.
func formatNamed(name Format) error {
	var all []string
	for _, f := range Formats() {
		if f == name {
			return nil
		}
		all = append(all, string(f))
	}
	return fmt.Errorf("there is no format %q of logs%s; there are: %s", name,
		suggest.DidYouMean(string(name), all), strings.Join(all, ", "))
}
