package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"slices"

	"tare/internal/sys/sql/lex"
)

const (
	fullChunk   = 256 << 10 // size in bytes at which a chunk is written
	mostPending = 32 << 20  // limit in bytes for all unwritten chunks together
)

// Writer writes a trace. It is not safe for concurrent use. Its memory is bounded, except for 32 bytes for each
// session, 24 bytes for each chunk, 24 for each transaction, and about 100 bytes for each session without a Quit.
type Writer struct {
	// Meta is written by Close. Until then it may be changed, except the dialect.
	Meta Meta

	out      *bufio.Writer
	at       int64
	err      error // the first one of Add
	sessions []session
	chunks   []writtenChunk
	open     map[uint64]*openChunk
	pending  int      // bytes in open
	most     int      // limit for pending
	free     [][]byte // buffers for reuse
	prints   map[uint64]uint32
	kinds    []Fingerprint
	scratch  []byte
	trans    []keyedTransaction
}

// keyedTransaction is a transaction with its id.
type keyedTransaction struct {
	Transaction
	id uint64
}

// openChunk is the unwritten chunk of a session.
type openChunk struct {
	session uint32
	frames  []byte
}

// writtenChunk is a chunk that is in the file.
type writtenChunk struct {
	chunk
	session uint32
}

// NewWriter starts a trace.
func NewWriter(dst io.Writer, m Meta) *Writer {
	w := &Writer{Meta: m, out: bufio.NewWriterSize(dst, 64<<10), open: map[uint64]*openChunk{}, most: mostPending,
		prints: map[uint64]uint32{}}
	w.write([]byte(magic))
	return w
}

// Fingerprint returns the value of Event.Fingerprint for a statement. v is the result of lex.Classify.
func (w *Writer) Fingerprint(text []byte, v lex.Verdict) uint32 {
	w.scratch = lex.Fingerprint(w.scratch[:0], text, lex.Options{Dialect: w.Meta.Dialect})
	return w.Kind(lex.ID(w.scratch), w.scratch, v.Class.String(), v.Volatile)
}

// Kind returns the value of Event.Fingerprint for this fingerprint. The class and whether it is volatile are those of
// the first one.
func (w *Writer) Kind(id uint64, text []byte, class, volatile string) uint32 {
	n, ok := w.prints[id]
	if ok {
		return n
	}
	kind := Fingerprint{ID: id, Text: string(text[:min(len(text), maxText)]), Class: class, Volatile: volatile}
	if len(w.kinds) >= maxFingerprints {
		kind = Fingerprint{Text: "(other fingerprints)"}
		if n, ok = w.prints[0]; ok {
			return n
		}
	}
	n = uint32(len(w.kinds))
	w.kinds = append(w.kinds, kind)
	w.prints[kind.ID] = n
	return n
}

// Add adds an event to a session. The events of a session must be added in order. After a Quit the number stands for a
// new session. If the first event of a session is not a Connect, Add inserts one.
func (w *Writer) Add(number uint64, e *Event) error {
	if w.err == nil {
		w.err = w.add(number, e)
	}
	return w.err
}

func (w *Writer) add(number uint64, e *Event) error {
	c := w.open[number]
	if c == nil {
		if len(w.sessions) == MaxSessions {
			return fmt.Errorf("write the trace: the log has more than %d sessions; use a part of it", MaxSessions)
		}
		c = &openChunk{session: uint32(len(w.sessions))}
		if n := len(w.free); n > 0 {
			c.frames, w.free = w.free[n-1], w.free[:n-1]
		}
		w.open[number] = c
		w.sessions = append(w.sessions, session{Session: Session{Start: -1, End: -1}})
		if e.Op != Connect {
			w.frame(c, &Event{Op: Connect, At: e.At, Rows: -1, Number: e.Number, User: e.User, Database: e.Database})
		}
	}
	if err := w.check(e); err != nil {
		return err
	}
	w.frame(c, e)
	var err error
	switch {
	case e.Op == Quit:
		err = w.flush(c)
		delete(w.open, number)
		if len(w.free) < 64 && cap(c.frames) <= 2*fullChunk {
			w.free = append(w.free, c.frames)
		}
	case len(c.frames) >= fullChunk:
		err = w.flush(c)
	case w.pending > w.most:
		err = w.relieve()
	}
	return err
}

// Transaction says that a session has a transaction with this id, and the number of its first event. The session must
// be open. Its transactions must be told in their order.
func (w *Writer) Transaction(session, id, first uint64) error {
	c := w.open[session]
	switch {
	case w.err != nil:
	case c == nil:
		w.err = fmt.Errorf("write the trace: a transaction of session %d, which is not open", session)
	case len(w.trans) == MaxTransactions:
		w.err = fmt.Errorf("write the trace: the log has more than %d transactions; use a part of it", MaxTransactions)
	default:
		w.trans = append(w.trans, keyedTransaction{Transaction{int(c.session), first}, id})
	}
	return w.err
}

// Transactions returns how many there are.
func (w *Writer) Transactions() int { return len(w.trans) }

// order sorts the transactions by their ids. One that comes later in a session, but has a lower id, as in two logs one
// behind the other, stays behind.
func (w *Writer) order() {
	last := map[int]uint64{}
	for i := range w.trans {
		x := &w.trans[i]
		x.id = max(x.id, last[x.Session])
		last[x.Session] = x.id
	}
	slices.SortStableFunc(w.trans, func(a, b keyedTransaction) int { return cmp.Compare(a.id, b.id) })
}

// check returns an error for events that a reader would reject.
func (w *Writer) check(e *Event) error {
	switch {
	case e.Op == 0 || e.Op >= ops:
		return fmt.Errorf("write the trace: unknown operation %d", e.Op)
	case e.Op.Statement() && int(e.Fingerprint) >= len(w.kinds):
		return fmt.Errorf("write the trace: statement %d has no fingerprint", e.Number)
	case e.At < -1 || e.Rows < -1:
		return fmt.Errorf("write the trace: statement %d has time %d and %d rows", e.Number, e.At, e.Rows)
	case len(e.Params) > maxParams:
		return fmt.Errorf("write the trace: statement %d has more than %d parameters", e.Number, maxParams)
	case len(e.Types) > 0 && len(e.Types) != len(e.Params):
		return fmt.Errorf("write the trace: statement %d has %d types of %d parameters", e.Number, len(e.Types),
			len(e.Params))
	}
	return nil
}

// frame appends a frame to a chunk.
func (w *Writer) frame(c *openChunk, e *Event) {
	before := len(c.frames)
	c.frames = appendFrame(c.frames, e)
	w.pending += len(c.frames) - before
	s := &w.sessions[c.session]
	if e.At >= 0 {
		if s.Start < 0 {
			s.Start = e.At
		}
		s.Start, s.End = min(s.Start, e.At), max(s.End, e.At)
	}
	if e.Op.Statement() {
		s.Statements++
		w.kinds[e.Fingerprint].Statements++
	}
}

// flush writes a chunk and starts the next chunk of the session.
func (w *Writer) flush(c *openChunk) error {
	if len(c.frames) == 0 {
		return nil
	}
	switch {
	case len(w.chunks) == maxChunks:
		return errors.New("write the trace: the log has too many concurrent sessions; use a part of it")
	case len(c.frames) > math.MaxUint32:
		return fmt.Errorf("write the trace: a statement of %d bytes", len(c.frames))
	}
	w.sessions[c.session].chunks++
	w.chunks = append(w.chunks, writtenChunk{chunk{w.at, uint32(len(c.frames)), crc32.Checksum(c.frames, castagnoli)},
		c.session})
	w.pending -= len(c.frames)
	err := w.write(c.frames)
	c.frames = c.frames[:0]
	if cap(c.frames) > 2*fullChunk {
		c.frames = nil
	}
	return err
}

// relieve writes the larger chunks, at least half of all unwritten bytes.
func (w *Writer) relieve() error {
	mean := w.pending / len(w.open)
	for _, c := range w.inOrder() {
		if len(c.frames) < mean/2 {
			continue
		}
		if err := w.flush(c); err != nil {
			return err
		}
		c.frames = nil
	}
	return nil
}

// inOrder returns the unwritten chunks in the order of their sessions.
func (w *Writer) inOrder() []*openChunk {
	return slices.SortedFunc(maps.Values(w.open), func(a, b *openChunk) int {
		return cmp.Compare(a.session, b.session)
	})
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.at += int64(n)
	if err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return nil
}

// Close writes the remaining chunks and the index. It does not close the destination.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.err = errors.New("write the trace: it is closed")
	for _, c := range w.inOrder() {
		if err := w.flush(c); err != nil {
			return err
		}
	}
	w.open = nil
	index, err := w.index()
	if err != nil {
		return err
	}
	trailer := binary.LittleEndian.AppendUint64(nil, uint64(w.at))
	trailer = binary.LittleEndian.AppendUint64(trailer, uint64(len(index)))
	trailer = binary.LittleEndian.AppendUint32(trailer, crc32.Checksum(index, castagnoli))
	for _, b := range [][]byte{index, append(trailer, magic...)} {
		if err := w.write(b); err != nil {
			return err
		}
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the trace: %w", err)
	}
	return nil
}

func (w *Writer) index() ([]byte, error) {
	h, err := json.Marshal(head{Meta: w.Meta, Fingerprints: len(w.kinds), Sessions: len(w.sessions),
		Chunks: len(w.chunks), Transactions: len(w.trans)})
	if err != nil {
		return nil, fmt.Errorf("write the trace: %w", err)
	}
	if len(h) > maxHead {
		return nil, fmt.Errorf("write the trace: names of %d files", len(w.Meta.Sources))
	}
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(h))), h...)
	for i := range w.kinds {
		b = appendFingerprint(b, &w.kinds[i])
	}
	b = slices.Grow(b, len(w.sessions)*sessionSize+len(w.chunks)*chunkSize+len(w.trans)*transSize)
	for i := range w.sessions {
		s := &w.sessions[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Start))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.End))
		b = binary.LittleEndian.AppendUint64(b, uint64(s.Statements))
		b = binary.LittleEndian.AppendUint32(b, s.chunks)
	}
	slices.SortStableFunc(w.chunks, func(a, b writtenChunk) int { return cmp.Compare(a.session, b.session) })
	for i := range w.chunks {
		c := &w.chunks[i]
		b = binary.LittleEndian.AppendUint64(b, uint64(c.offset))
		b = binary.LittleEndian.AppendUint32(b, c.length)
		b = binary.LittleEndian.AppendUint32(b, c.crc)
	}
	w.order()
	for i := range w.trans {
		b = binary.LittleEndian.AppendUint32(b, uint32(w.trans[i].Session))
		b = binary.LittleEndian.AppendUint64(b, w.trans[i].First)
	}
	return b, nil
}
