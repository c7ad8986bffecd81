package mysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"tare/internal/sys/sql"
)

// fakeStream is a stream from which a fixed text can be read and to which everything can be written.
type fakeStream struct {
	says  io.Reader
	most  int // bytes of one read
	taken bytes.Buffer
}

func (s *fakeStream) Read(p []byte) (int, error) { return s.says.Read(p[:min(len(p), s.most)]) }

func (s *fakeStream) Write(p []byte) (int, error) {
	if s.taken.Len() < 1<<20 {
		s.taken.Write(p)
	}
	return len(p), nil
}

func (s *fakeStream) Close() error  { return nil }
func (s *fakeStream) Interrupt()    {}
func (s *fakeStream) Private() bool { return false }

// loggedIn returns a connection after the login on which the server sends this.
func loggedIn(says io.Reader, most int, caps uint32) *Conn {
	return &Conn{s: &fakeStream{says: says, most: most}, in: make([]byte, buffer), caps: caps}
}

// packets returns the packets of payloads, numbered from from.
func packets(from byte, payloads ...string) []byte {
	var b []byte
	for _, p := range payloads {
		for {
			n := min(len(p), maxChunk)
			b = binary.LittleEndian.AppendUint32(b, uint32(n)|uint32(from)<<24)
			b = append(b, p[:n]...)
			p = p[n:]
			from++
			if n < maxChunk {
				break
			}
		}
	}
	return b
}

const (
	okEnd     = "\xfe\x00\x00\x02\x00\x00\x00"
	columnDef = "\x03def\x01d\x01t\x01t\x04name\x04name\x0c\x2d\x00\x01\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
)

// outcome returns all results of a query as text.
func outcome(data []byte, most int, caps uint32, ask func(*Result)) string {
	c := loggedIn(bytes.NewReader(data), most, caps)
	r := &Result{}
	var seen []string
	ask(r)
	if r.Row != nil {
		r.Row = func(values [][]byte) error {
			for _, v := range values {
				if v == nil {
					seen = append(seen, "NULL")
				} else {
					seen = append(seen, fmt.Sprintf("%q", v))
				}
			}
			return nil
		}
	}
	err := c.Query([]byte("SELECT"), r)
	if len(c.in) != buffer || cap(c.big) > 4*len(data)+4096 {
		panic(fmt.Sprintf("the buffers have %d and %d bytes", len(c.in), cap(c.big)))
	}
	if err != nil && c.dead == nil {
		if e, ok := errors.AsType[*Error](err); !ok {
			panic(fmt.Sprintf("after the error %v the connection is open", e))
		}
	}
	if err != nil {
		r.Bytes = 0 // the number of bytes of an invalid row depends on the size of the reads
	}
	return fmt.Sprint(r.Results, r.Columns, r.Rows, r.Bytes, r.Affected, r.InsertID, r.Warnings, r.Sum.Ordered(),
		r.Sum.Unordered(), err, seen)
}

// FuzzQuery checks that the result does not depend on the size of the reads, that reading ends, and that memory is
// limited by the amount of data.
func FuzzQuery(f *testing.F) {
	f.Add(packets(1, "\x01", columnDef, "\x041234", "\xfb", okEnd), uint8(0))
	f.Add(packets(1, "\x01", columnDef, "\xfe\x00\x00\x02\x00", "\x041234", "\xfb", "\xfe\x00\x00\x02\x00"), uint8(1))
	f.Add(packets(1, "\x00\x01\x02\x0a\x00\x03\x00", "\x02", columnDef, columnDef, "\xfc\x01\x00x\xfb", okEnd),
		uint8(0))
	f.Add(packets(1, "\xff\x48\x04#HY000No tables used"), uint8(0))
	f.Add(packets(1, "\xfbfile"), uint8(0))
	f.Add(packets(1, "\x01", columnDef, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff", okEnd), uint8(0))
	f.Add([]byte("\xff\xff\xff\x01"), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, form uint8) {
		caps := uint32(canDeprecateEOF)
		if form&1 != 0 {
			caps = 0
		}
		for _, ask := range []func(*Result){
			func(r *Result) {},
			func(r *Result) { r.Checksum = true },
			func(r *Result) { r.Checksum = true; r.Row = func([][]byte) error { return nil } },
		} {
			want := outcome(data, len(data)+1, caps, ask)
			for _, most := range []int{1, 7} {
				if got := outcome(data, most, caps, ask); got != want {
					t.Errorf("reads of %d bytes give\n%s, one read\n%s", most, got, want)
				}
			}
		}
	})
}

// FuzzLogin sends arbitrary data instead of a login.
func FuzzLogin(f *testing.F) {
	greet := "\x0a8.4.6\x00\x08\x00\x00\x00abcdefgh\x00\xff\xff\xff\x02\x00\xff\xdf\x15" + strings.Repeat("\x00", 10) +
		"ijklmnopqrst\x00caching_sha2_password\x00"
	f.Add(packets(0, greet, "\x00\x00\x00\x02\x00\x00\x00"))
	f.Add(append(packets(0, greet), packets(2, "\x01\x03", "\x00\x00\x00\x02\x00\x00\x00")...))
	f.Add(append(packets(0, greet), packets(2, "\xfemysql_native_password\x00abcdefghijklmnopqrst\x00")...))
	f.Add(append(packets(0, greet), packets(2, "\xfeclient_ed25519\x00abcdefghijklmnopqrstabcdefghijkl")...))
	f.Add(append(packets(0, greet), packets(2, "\x01\x04")...))
	f.Add(append(packets(0, greet), packets(2, "\xfesha256_password\x00abcdefghijklmnopqrst\x00")...))
	f.Add(packets(0, "\xff\x10\x04Too many connections"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const password = "the password of this test"
		s := &fakeStream{says: bytes.NewReader(data), most: 11}
		c, err := Open(context.Background(), s, Config{User: "u", Password: password, Database: "d"})
		if (err == nil) != (c != nil) {
			t.Errorf("%v and %v", c, err)
		}
		if bytes.Contains(s.taken.Bytes(), []byte(password)) {
			t.Error("the password was sent without encryption")
		}
	})
}

// repeatedText repeats a text, up to 200 MiB.
type repeatedText struct {
	head, again []byte
	at          int
	said        int64
}

func (e *repeatedText) Read(p []byte) (n int, err error) {
	if e.said > 200<<20 {
		return 0, io.ErrUnexpectedEOF
	}
	for n < len(p) {
		from := e.head
		if len(from) == 0 {
			from = e.again
		}
		k := copy(p[n:], from[e.at:])
		n += k
		if e.at += k; e.at == len(from) {
			e.head, e.at = nil, 0
		}
	}
	e.said += int64(n)
	return n, nil
}

// Memory is limited even if the server's answer never ends.
func TestEndlessAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine reads for long")
	}
	chunk := string(bytes.Repeat([]byte("x"), maxChunk-9))
	value := packets(3, "\xfe\x00\x00\x00\x00\x01\x00\x00\x00"+chunk+strings.Repeat("y", 1<<20))
	for name, c := range map[string]struct {
		says io.Reader
		ask  Result
		want string
	}{
		"a value": {&repeatedText{head: append(packets(1, "\x01", columnDef), value...), again: []byte("z")},
			Result{Checksum: true}, "protocol"},
		"a value that is delivered": {&repeatedText{head: append(packets(1, "\x01", columnDef), value[:maxChunk]...),
			again: []byte("z")}, Result{Row: func([][]byte) error { return nil }}, "protocol"},
		"rows": {&repeatedText{head: packets(1, "\x01", columnDef), again: cycle(3, "\x041234")},
			Result{Checksum: true},
			"unexpected EOF"},
		"definitions": {&repeatedText{head: packets(1, "\xfc\xff\xff"), again: cycle(2, columnDef)}, Result{},
			"unexpected EOF"},
	} {
		conn := loggedIn(c.says, buffer, canDeprecateEOF)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := conn.Query([]byte("SELECT"), &c.ask)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, sql.ErrGone) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 3*maxRow {
			t.Errorf("%s: %d bytes were allocated", name, grown)
		}
	}
}

// cycle returns 256 packets, with all numbers.
func cycle(from int, payload string) []byte {
	var b []byte
	for i := range 256 {
		b = append(b, packets(byte(from+i), payload)...)
	}
	return b
}

// If the length of a row is a multiple of the maximum, an empty packet follows.
func TestRowsAtPacketLimits(t *testing.T) {
	for _, n := range []int{maxChunk - 5, maxChunk - 4, maxChunk - 3, 2*maxChunk - 4, buffer - 4, buffer - 3, buffer} {
		value := appendLenenc(nil, uint64(n))
		value = append(value, bytes.Repeat([]byte("v"), n)...)
		data := packets(1, "\x01", columnDef, string(value), "\x01x", okEnd)
		want := sql.Sum{}
		want.Value(value[len(value)-n:])
		want.EndRow()
		want.Value([]byte("x"))
		want.EndRow()
		for _, row := range []func([][]byte) error{nil, func([][]byte) error { return nil }} {
			c, r := loggedIn(bytes.NewReader(data), 1<<20, canDeprecateEOF), &Result{Checksum: true, Row: row}
			if err := c.Query(nil, r); err != nil || r.Rows != 2 || r.Sum.Ordered() != want.Ordered() ||
				r.Bytes != uint64(len(value)+2) {
				t.Errorf("a value of %d bytes: %d rows of %d bytes, %v", n, r.Rows, r.Bytes, err)
			}
		}
	}
}

// A short command is one write. A long one is split into packets.
func TestCommandsAreSplit(t *testing.T) {
	for _, n := range []int{0, 1, buffer - 6, buffer - 5, buffer - 4, buffer, maxChunk - 2, maxChunk - 1, maxChunk,
		2*maxChunk - 1, 2*maxChunk + 5} {
		for _, inside := range []bool{false, true} {
			var sent writeCounter
			c := &Conn{s: &sent}
			body := bytes.Repeat([]byte("q"), n)
			var err error
			if inside { // as with parameters of a prepared statement
				c.out = append(make([]byte, 4), comQuery)
				c.out = append(c.out, body...)
				err = c.send(nil)
			} else {
				err = c.command(comQuery, body)
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := packets(0, "\x03"+string(body)); !bytes.Equal(sent.all, want) {
				t.Errorf("%d bytes, %v: sent %d bytes, want %d, or they differ", n, inside, len(sent.all),
					len(want))
			}
			if n <= buffer-5 && sent.n != 1 {
				t.Errorf("%d bytes: %d writes", n, sent.n)
			}
		}
	}
}

// writeCounter stores and counts writes.
type writeCounter struct {
	fakeStream
	all []byte
	n   int
}

func (w *writeCounter) Write(p []byte) (int, error) {
	w.all = append(w.all, p...)
	w.n++
	return len(p), nil
}

// After an error of Result.Row the rest of the answer is read, so that the next query works.
func TestErrorOfReceiver(t *testing.T) {
	first := packets(1, "\x01", columnDef, "\x01a", "\x01b", okEnd)
	data := append(first, packets(1, "\x01", columnDef, "\x01c", okEnd)...)
	// The first read must not read the second answer.
	c := loggedIn(bytes.NewReader(data), len(first), canDeprecateEOF)
	mine, calls := errors.New("mine"), 0
	r := &Result{Row: func([][]byte) error { calls++; return mine }}
	if err := c.Query(nil, r); err != mine || calls != 1 || r.Rows != 2 || r.Row == nil {
		t.Errorf("%v after %d calls and %d rows", err, calls, r.Rows)
	}
	if err := c.Query(nil, r); err != mine || calls != 2 || r.Rows != 3 {
		t.Errorf("%v after %d calls and %d rows", err, calls, r.Rows)
	}
}

// An error that the server sends before it closes the connection is the reason in the client's error.
func TestFarewell(t *testing.T) {
	const idle = "\xff\xbf\x0f#HY000The client was disconnected by the server because of inactivity."
	c := loggedIn(bytes.NewReader(packets(0, idle)), buffer, canDeprecateEOF)
	err := c.Ping()
	if e, ok := errors.AsType[*Error](err); !ok || e.Number != 4031 || !errors.Is(err, sql.ErrGone) {
		t.Errorf("%v", err)
	}
	if again := c.Ping(); again != err {
		t.Errorf("later calls return %v", again)
	}
}
