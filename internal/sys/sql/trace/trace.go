// Package trace reads and writes traces: the sessions of a log as a replay needs them. The controller writes a trace
// and sends it to the environments.
//
// It is opinionated. A log interleaves its sessions, but a replay reads them one by one, several at the same time. In a
// trace each session has its own chunks, and every cursor reads its own session. A replay does not look at SQL: the
// trace contains the fingerprints, says which results cannot be compared, and joins executions with the prepared
// statements. Reading an event allocates nothing. Equal events give equal files, so that the digest of a file
// identifies the work.
//
//	file    = magic chunk* index trailer
//	chunk   = frame*            events of one session
//	index   = length of the JSON of type head (uint32), the JSON, fingerprints, records of sessions, of chunks, and of
//	          transactions
//	trailer = offset of the index, its length (uint64 each), its CRC-32C (uint32), magic
//
// Numbers in the index are little-endian. Sessions are in the order of their first events. The records of chunks are in
// the order of sessions, then of events, and contain the CRC-32C of each chunk. Transactions are in the order of their
// ids. The first version of the format, with a 1 in its magic, has none, and is read as well.
package trace

import (
	"hash/crc32"

	"tare/internal/sys/sql/lex"
)

// Op is an operation of a session.
type Op uint8

// The operations. Only Query and Execute are statements.
const (
	Connect         Op = iota + 1 // the first event of each session, with User and Database if known
	Quit                          // the last event, if the end of the session is known
	InitDB                        // makes Database the default
	Query                         // runs Text
	Prepare                       // prepares Text as Statement
	Execute                       // runs Statement with Params; if it is 0, Text as PostgreSQL's unnamed statement
	CloseStmt                     // closes Statement
	ResetStmt                     // closes the cursor of Statement
	ChangeUser                    // logs in as User with Database, and resets the session
	ResetConnection               // resets the session
	ops
)

// Statement tells whether the operation counts as a statement.
func (op Op) Statement() bool { return op == Query || op == Execute }

// Type is the type of a parameter, as far as it is known from the log.
type Type uint8

// The types.
const (
	Text   Type = iota
	Int         // of 64 bits, in decimal digits
	Double      // a decimal number
	Blob
	types
)

// Event is one action of a session. Slices are valid until the next call of Next.
type Event struct {
	Op          Op
	At          int64  // microseconds since Meta.Start; -1 if unknown
	Fingerprint uint32 // of a statement: index in Fingerprints
	Volatile    bool   // of a statement: servers with equal data may give different results
	Number      uint64 // of a statement: its number in the log, from 0
	// Statement identifies a prepared statement of the session, from 1; 0 means none. An Execute of it always comes
	// after its Prepare.
	Statement uint32
	Rows      int64 // number of rows in the log; -1 if unknown
	// Text is the statement. For an Execute it contains the values (MySQL) or $1 (PostgreSQL).
	Text                 []byte
	Database, User, Name []byte   // Name is the name of a prepared statement in the log
	Params               [][]byte // of an Execute, without quotes; nil is NULL
	Types                []Type   // of Params; empty if all are Text
}

// Fingerprint describes the statements with the same fingerprint.
type Fingerprint struct {
	ID         uint64 // lex.ID; 0 for all fingerprints beyond the first 20,000
	Text       string // lex.Fingerprint, at most 1 KiB
	Class      string // lex.Class of the first statement
	Volatile   string // lex.Verdict.Volatile of the first statement
	Statements int64
}

// Parts is the account of a log's statements or bytes. Total is the sum of the others.
type Parts struct {
	Total     int64 `json:"total"`
	Replayed  int64 `json:"replayed"` // contained in the trace
	Skipped   int64 `json:"skipped"`
	Ambiguous int64 `json:"ambiguous"`
	Lost      int64 `json:"lost"`
}

// Meta describes a trace and the log that it was made of.
type Meta struct {
	Dialect   lex.Dialect `json:"dialect"`
	Protocol  string      `json:"protocol,omitempty"` // HTTP, or empty for SQL
	Sources   []string    `json:"sources"`            // names of the log's files, without directories
	Start     int64       `json:"start,omitempty"`    // microseconds since 1970 UTC; 0 if the log has no times
	Span      int64       `json:"span"`               // microseconds from Start to the last event
	Precision int64       `json:"precision"`          // of the least precise time, in microseconds
	Writes    bool        `json:"writes,omitempty"`   // contains statements that change data
	Locks     bool        `json:"locks,omitempty"`    // contains SELECT ... FOR UPDATE and the like
	// Database is the only one that the log names, the server's own left out; "" if it names none or several.
	Database   string `json:"database,omitempty"`
	Statements Parts  `json:"statements"`
	Bytes      Parts  `json:"bytes"` // of the log, uncompressed
	Shard      int64  `json:"shard"` // minimum of statements in a shard; 0 means the default
}

// HTTP is the protocol of a trace whose statements are requests. The text of one is its method and target, a line for
// each header, an empty line, and the body; its rows are the status that it should get.
const HTTP = "http"

// Session describes a session.
type Session struct {
	Start, End int64 // first and last Event.At
	Statements int64
}

// Transaction is one whose id the log tells, and that does something in the trace.
type Transaction struct {
	Session int    // its index
	First   uint64 // Event.Number of its first event
}

// Shard is a part of a trace: consecutive sessions.
type Shard struct {
	First, Sessions int // index of the first session, and number of sessions
	Statements      int64
}

const (
	magic       = "TARETRC2"
	magicBefore = "TARETRC1"
	trailerSize = 8 + 8 + 4 + len(magic)
	headerSize  = 4
	sessionSize = 8 + 8 + 8 + 4
	chunkSize   = 8 + 4 + 4
	transSize   = 4 + 8

	// MaxSessions bounds the size of the index in memory.
	MaxSessions     = 1 << 22
	maxChunks       = 1 << 24
	maxHead         = 1 << 20
	maxFingerprints = 20_000
	maxText         = 1 << 10 // bytes of a fingerprint
	maxParams       = 1 << 16
	// MaxTransactions bounds it, too.
	MaxTransactions = 1 << 22
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the JSON part of the index.
type head struct {
	Meta         Meta `json:"meta"`
	Fingerprints int  `json:"fingerprints"`
	Sessions     int  `json:"sessions"`
	Chunks       int  `json:"chunks"`
	Transactions int  `json:"transactions,omitempty"`
}

// session is the record of a session.
type session struct {
	Session
	chunks uint32 // number of chunks
}

// chunk is the record of a chunk.
type chunk struct {
	offset      int64
	length, crc uint32
}

// shards divides sessions into shards of at least so many statements; 0 means the default of Shards.
func shards(sessions []session, least int64) (all []Shard) {
	if least == 0 {
		total := int64(0)
		for i := range sessions {
			total += sessions[i].Statements
		}
		least = min(max(total/256, 64), 4096)
	}
	s := Shard{}
	for i := range sessions {
		s.Sessions++
		s.Statements += sessions[i].Statements
		if s.Statements >= least {
			all = append(all, s)
			s = Shard{First: i + 1}
		}
	}
	if n := len(all); n > 0 { // the remaining sessions have too few statements for another shard
		all[n-1].Sessions += s.Sessions
		all[n-1].Statements += s.Statements
	} else if s.Sessions > 0 {
		all = append(all, s)
	}
	return all
}
