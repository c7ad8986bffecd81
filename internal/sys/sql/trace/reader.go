package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"tare/internal/sys/sql/lex"
)

// ErrDamaged is wrapped by the errors for files that are not a trace, are truncated or were changed.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("read the trace: %w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Trace is an open trace. It is safe for concurrent use by several cursors.
type Trace struct {
	src      io.ReaderAt
	head     head
	kinds    []Fingerprint
	sessions []session
	first    []int // first chunk, by session
	chunks   []chunk
	shards   []Shard
	trans    []Transaction
}

// Open reads and checks the index of a file with the given size in bytes. Its memory is bounded by the file's size.
func Open(src io.ReaderAt, size int64) (*Trace, error) {
	index, end, err := readIndex(src, size)
	if err != nil {
		return nil, err
	}
	t := &Trace{src: src}
	if len(index) < headerSize {
		return nil, damaged("index of %d bytes", len(index))
	}
	n, index := int64(binary.LittleEndian.Uint32(index)), index[headerSize:]
	if n > maxHead || n > int64(len(index)) {
		return nil, damaged("index with a head of %d bytes", n)
	}
	if err := json.Unmarshal(index[:n], &t.head); err != nil {
		return nil, damaged("%v", err)
	}
	if err := t.records(index[n:], end); err != nil {
		return nil, err
	}
	t.shards = shards(t.sessions, t.head.Meta.Shard)
	return t, nil
}

// readIndex returns the index and its offset.
func readIndex(src io.ReaderAt, size int64) (index []byte, at int64, err error) {
	var begin [len(magic)]byte
	var t [trailerSize]byte
	if size < int64(len(begin)+len(t)) {
		return nil, 0, damaged("it has %d bytes", size)
	}
	if err := readAt(src, begin[:], 0); err != nil {
		return nil, 0, err
	}
	if err := readAt(src, t[:], size-int64(len(t))); err != nil {
		return nil, 0, err
	}
	if m := string(begin[:]); m != magic && m != magicBefore || string(t[20:]) != m {
		return nil, 0, damaged("it is not a trace, or its end is missing")
	}
	offset, length := binary.LittleEndian.Uint64(t[:]), binary.LittleEndian.Uint64(t[8:])
	if limit := uint64(size) - uint64(len(t)); offset < uint64(len(begin)) || offset > limit ||
		length != limit-offset {
		return nil, 0, damaged("index of %d bytes at offset %d", length, offset)
	}
	index = make([]byte, length)
	if err := readAt(src, index, int64(offset)); err != nil {
		return nil, 0, err
	}
	if crc32.Checksum(index, castagnoli) != binary.LittleEndian.Uint32(t[16:]) {
		return nil, 0, damaged("wrong checksum of the index")
	}
	return index, int64(offset), nil
}

// readAt reads len(b) bytes.
func readAt(src io.ReaderAt, b []byte, offset int64) error {
	if n, err := src.ReadAt(b, offset); n < len(b) {
		return fmt.Errorf("read the trace: %w", err)
	}
	return nil
}

// records reads the fingerprints and the records of sessions and chunks. The chunks end before end.
func (t *Trace) records(b []byte, end int64) error {
	h := &t.head
	if h.Meta.Shard < 0 || h.Meta.Dialect > lex.PostgreSQL || h.Fingerprints < 0 || h.Fingerprints > maxFingerprints+1 {
		return damaged("invalid head of the index")
	}
	f := frames{b: b}
	for range h.Fingerprints {
		t.kinds = append(t.kinds, f.fingerprint())
	}
	b = f.b
	if f.bad || h.Sessions < 0 || h.Sessions > MaxSessions || h.Chunks < 0 || h.Chunks > maxChunks ||
		h.Transactions < 0 || h.Transactions > MaxTransactions ||
		len(b) != h.Sessions*sessionSize+h.Chunks*chunkSize+h.Transactions*transSize {
		return damaged("%d bytes of records for %d sessions with %d chunks", len(b), h.Sessions, h.Chunks)
	}
	t.sessions, t.first = make([]session, h.Sessions), make([]int, h.Sessions)
	chunks := 0
	for i := range t.sessions {
		s := &t.sessions[i]
		s.Start, s.End = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
		s.Statements = int64(binary.LittleEndian.Uint64(b[16:]))
		s.chunks = binary.LittleEndian.Uint32(b[24:])
		b = b[sessionSize:]
		if s.Start < -1 || s.End < s.Start || s.Statements < 0 || s.Statements > end ||
			int(s.chunks) > h.Chunks-chunks {
			return damaged("invalid record of session %d", i)
		}
		t.first[i] = chunks
		chunks += int(s.chunks)
	}
	if chunks != h.Chunks {
		return damaged("%d chunks, but the sessions have %d", h.Chunks, chunks)
	}
	t.chunks = make([]chunk, h.Chunks)
	for i := range t.chunks {
		c := &t.chunks[i]
		c.offset = int64(binary.LittleEndian.Uint64(b))
		c.length, c.crc = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
		b = b[chunkSize:]
		if c.offset < int64(len(magic)) || c.offset > end || int64(c.length) > end-c.offset {
			return damaged("invalid record of chunk %d", i)
		}
	}
	t.trans = make([]Transaction, h.Transactions)
	for i := range t.trans {
		session := binary.LittleEndian.Uint32(b)
		if int64(session) >= int64(h.Sessions) {
			return damaged("invalid record of transaction %d", i)
		}
		t.trans[i] = Transaction{int(session), binary.LittleEndian.Uint64(b[4:])}
		b = b[transSize:]
	}
	return nil
}

// Meta describes the trace. It must not be changed.
func (t *Trace) Meta() *Meta { return &t.head.Meta }

// Fingerprints returns the fingerprints in the order of their first statements in the log.
func (t *Trace) Fingerprints() []Fingerprint { return t.kinds }

// Sessions returns the number of sessions.
func (t *Trace) Sessions() int { return len(t.sessions) }

// Info describes session i.
func (t *Trace) Info(i int) Session { return t.sessions[i].Session }

// Shards divides the trace. Each shard has at least Meta.Shard statements; by default 1/256 of all statements, but not
// fewer than 64 and not more than 4096. A shorter trace has one shard.
func (t *Trace) Shards() []Shard { return t.shards }

// Transactions returns the transactions whose ids the log tells in the order of the ids, where Writer.Transaction was
// told of them. Those of a session are in the order of the session.
func (t *Trace) Transactions() []Transaction { return t.trans }

// Session returns a new cursor at the start of session i.
func (t *Trace) Session(i int) *Cursor {
	c := new(Cursor)
	c.Reset(t, i)
	return c
}

// Cursor reads the events of a session. It is not safe for concurrent use.
type Cursor struct {
	t      *Trace
	left   []chunk
	buf    []byte
	frames frames
	err    error // error of Next, except io.EOF
}

// Reset moves the cursor to the start of session i of t and keeps its buffer.
func (c *Cursor) Reset(t *Trace, i int) {
	first := t.first[i]
	c.t, c.left, c.frames, c.err = t, t.chunks[first:first+int(t.sessions[i].chunks)], frames{}, nil
}

// Next reads the next event of the session, or returns io.EOF at its end. It allocates nothing for an event if e is
// reused.
func (c *Cursor) Next(e *Event) error {
	for len(c.frames.b) == 0 && c.err == nil {
		if len(c.left) == 0 {
			return io.EOF
		}
		c.err = c.load(&c.left[0])
		c.left = c.left[1:]
	}
	if c.err == nil && (!c.frames.next(e) || e.Op.Statement() && int(e.Fingerprint) >= len(c.t.kinds)) {
		c.err = damaged("invalid event in a chunk")
	}
	return c.err
}

// load reads a chunk.
func (c *Cursor) load(of *chunk) error {
	c.buf = slices.Grow(c.buf[:0], int(of.length))
	b := c.buf[:of.length]
	if err := readAt(c.t.src, b, of.offset); err != nil {
		return err
	}
	if crc32.Checksum(b, castagnoli) != of.crc {
		return damaged("wrong checksum of the chunk at offset %d", of.offset)
	}
	c.frames = frames{b: b}
	return nil
}
