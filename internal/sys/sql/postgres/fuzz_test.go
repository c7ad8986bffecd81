package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"tare/internal/sys/sql"
)

// script is a server that says what it has to say in pieces, whatever it hears.
type script struct {
	rest  []byte
	piece int
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error) { return len(p), nil }
func (s *script) Close() error                { return nil }
func (s *script) Interrupt()                  {}
func (s *script) Private() bool               { return true }

var _ sql.Stream = (*script)(nil)

// message is one as a server sends it.
func message(kind byte, body string) []byte {
	n := len(body) + 4
	return append([]byte{kind, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}

var (
	okay    = message('R', "\x00\x00\x00\x00")
	idle    = message('Z', "I")
	oneRow  = message('D', "\x00\x02\x00\x00\x00\x03abc\xff\xff\xff\xff")
	refusal = message('E', "SERROR\x00C42601\x00Mno\x00\x00")
)

// limit is the memory that a connection may take for a server that says so many bytes. The caller's own rows are bound
// by MaxRow, and grow with what came.
func limit(said int) int { return 4*said + 4*buffer }

// FuzzConn reads whatever a server may say: to the introduction, to each kind of command, in pieces of any size.
func FuzzConn(f *testing.F) {
	f.Add(uint16(1), bytes.Join([][]byte{okay, message('K', "12345678"), message('S', "a\x00b\x00"), idle,
		message('T', "\x00\x02"), oneRow, message('C', "SELECT 1\x00"), idle, refusal, idle}, nil))
	f.Add(uint16(7), bytes.Join([][]byte{okay, idle, message('G', "\x00\x00\x00"), refusal, idle, message('1', ""),
		message('2', ""), message('n', ""), message('s', ""), idle, message('H', "\x00\x00\x00"), message('d', "x\n"),
		message('c', ""), message('C', "COPY 1\x00"), idle}, nil))
	f.Add(uint16(3), append(bytes.Clone(okay), "Z\x00\x00\x00\x05ID\x3f\xff\xff\xff\x00\x01\x00\x00"...))
	f.Add(uint16(100), bytes.Join([][]byte{message('R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"),
		message('R', "\x00\x00\x00\x0br=,s=,i=1"), okay}, nil))
	f.Fuzz(func(t *testing.T, piece uint16, said []byte) {
		for _, digest := range []bool{false, true} {
			c := newConn(&script{bytes.Clone(said), int(piece)%buffer + 1}, Config{User: "u", Password: "p",
				Notice: func(*Error) {}})
			if err := c.startUp(); err == nil {
				talk(c, digest)
			}
			if got := cap(c.in) + cap(c.big) + cap(c.out); got > limit(len(said)) {
				t.Fatalf("%d bytes of memory for %d", got, len(said))
			}
			if len(c.settings) > maxSettings {
				t.Fatalf("%d settings", len(c.settings))
			}
		}
	})
}

// talk says a bit of everything.
func talk(c *Conn, digest bool) {
	r := &Result{Digest: digest}
	_ = c.Query([]byte("SELECT 1"), r)
	r.Row = func([][]byte) error { return nil }
	r.Copy = func([]byte) error { return errors.New("no") }
	_ = c.Query([]byte("SELECT 1"), r)
	c.Parse("", []byte("SELECT $1"))
	c.Bind("", "", [][]byte{nil, []byte("x")})
	c.DescribePortal("")
	c.Execute("", 0)
	_ = c.Sync(r)
	_ = c.CopyIn([]byte("COPY t FROM stdin"), func() ([]byte, error) { return nil, io.EOF })
}

// TestRowsInPieces: what a result adds up to does not depend on how it came, nor on whether the rows were handed on.
func TestRowsInPieces(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 3*buffer/10)
	body := "\x00\x04\x00\x00\x00\x02ab\xff\xff\xff\xff\x00\x00\x00\x00" +
		string(binary.BigEndian.AppendUint32(nil, uint32(len(long)))) + string(long)
	said := bytes.Join([][]byte{oneRow, message('D', body), message('D', "\x00\x00"), oneRow,
		message('C', "SELECT 4\x00"), idle}, nil)
	var want sql.Sum
	row := func(values ...[]byte) {
		for _, v := range values {
			if v == nil {
				want.Null()
			} else {
				want.Value(v)
			}
		}
		want.EndRow()
	}
	row([]byte("abc"), nil)
	row([]byte("ab"), nil, []byte{}, long)
	row()
	row([]byte("abc"), nil)
	for _, piece := range []int{1, 2, 3, 7, 4095, buffer - 1, buffer} {
		for _, handed := range []bool{false, true} {
			c := newConn(&script{bytes.Clone(said), piece}, Config{})
			r := Result{Digest: true}
			rows := 0
			if handed {
				r.Row = func([][]byte) error { rows++; return nil }
			}
			if err := c.Query(nil, &r); err != nil {
				t.Fatal(err)
			}
			if r.Sum.Ordered() != want.Ordered() || r.Sum.Unordered() != want.Unordered() || r.Rows != 4 ||
				handed != (rows == 4) {
				t.Errorf("in pieces of %d, handed on: %t: %d rows, %d handed on, sums %x and %x, want %x and %x", piece,
					handed, r.Rows, rows, r.Sum.Ordered(), r.Sum.Unordered(), want.Ordered(), want.Unordered())
			}
			if !handed && cap(c.big) > 0 {
				t.Errorf("a row that nobody wants takes %d bytes", cap(c.big))
			}
		}
	}
}

// TestHostileServer: what no server says ends the connection, and is told as that.
func TestHostileServer(t *testing.T) {
	for name, said := range map[string][]byte{
		"length below itself":     []byte("D\x00\x00\x00\x03"),
		"length of 2 GiB":         []byte("D\x7f\xff\xff\xff"),
		"row without columns":     message('D', "\x00\x01"),
		"column beyond the row":   message('D', "\x00\x01\x00\x00\x00\x09abc"),
		"column of -2 bytes":      message('D', "\x00\x01\xff\xff\xff\xfe"),
		"bytes behind the row":    message('D', "\x00\x00x"),
		"unknown message":         message('?', ""),
		"state of two bytes":      message('Z', "II"),
		"answer to nothing":       append(bytes.Clone(idle), message('C', "SELECT 1\x00")...),
		"end in a message":        []byte("D\x00\x00\x00\x10\x00"),
		"settings without end":    bytes.Repeat(nil, 0),
		"a COPY in both ways":     message('W', "\x00\x00\x00"),
		"a key where none is due": message('K', "12345678"),
	} {
		if name == "settings without end" {
			for i := range maxSettings + 1 {
				said = append(said, message('S', string(rune('A'+i))+"\x00on\x00")...)
			}
		}
		c := newConn(&script{said, buffer}, Config{})
		err := c.Query([]byte("SELECT 1"), &Result{Digest: true})
		if err == nil { // the answer to nothing comes behind one to something
			err = c.Query([]byte("SELECT 1"), nil)
		}
		if !errors.Is(err, sql.ErrGone) || c.Broken() == nil {
			t.Errorf("%s: %v", name, err)
		}
		if again := c.Query([]byte("SELECT 1"), nil); !errors.Is(again, sql.ErrGone) {
			t.Errorf("%s: afterwards %v", name, again)
		}
	}
}

// TestLogin: what a server may do wrong while it lets a client in.
func TestLogin(t *testing.T) {
	auth := func(code byte, rest string) []byte { return message('R', "\x00\x00\x00"+string(rune(code))+rest) }
	for name, c := range map[string]struct {
		said []byte
		want string
	}{
		"lets nobody in":        {idle, "before it let the client in"},
		"unknown way":           {auth(7, ""), "number 7"},
		"cut short":             {message('R', "\x00"), "a request of 1 bytes"},
		"goes on with nothing":  {auth(11, "r=x,s=x,i=1"), "did not begin"},
		"ends nothing":          {auth(12, "v="), "did not begin"},
		"salt of md5":           {auth(5, "123"), "a salt of 3 bytes"},
		"ways that are unknown": {auth(10, "PLAIN\x00\x00"), `"PLAIN"`},
		"begins twice": {append(auth(10, "SCRAM-SHA-256\x00\x00"), auth(10, "SCRAM-SHA-256\x00\x00")...),
			"begins a login twice"},
		"another's nonce": {append(auth(10, "SCRAM-SHA-256\x00\x00"), auth(11, "r=abc,s=QUFB,i=4096")...),
			"another client's"},
		"lets in without proof": {append(auth(10, "SCRAM-SHA-256\x00\x00"), okay...), "did not prove"},
		"refuses":               {message('E', "SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00"), "28P01"},
	} {
		conn := newConn(&script{bytes.Clone(c.said), 1}, Config{User: "u", Password: "p"})
		if err := conn.startUp(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScram is the example of RFC 7677, section 3, whose client names the user in the first message.
func TestScram(t *testing.T) {
	s := newScram("pencil", "rOprNGfwEbeRWgbNEkqO")
	s.bare = "n=user,r=" + s.nonce
	got, err := s.proof("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
	const want = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0," +
		"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	if err != nil || got != want {
		t.Fatalf("%s, %v", got, err)
	}
	if err := s.check("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="); err != nil || !s.proved {
		t.Error(err)
	}
	for _, final := range []string{"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95GA=", "v=", "", "e=invalid-proof"} {
		if err := s.check(final); err == nil {
			t.Errorf("%q is accepted", final)
		}
	}
	s = newScram("p", "abc")
	for _, challenge := range []string{"", "r=abcd", "r=abcd,s=QUFB", "r=abcd,s=QUFB,i=0", "r=abcd,s=QUFB,i=99999999",
		"r=abc,s=QUFB,i=1", "r=abcd,s=,i=1", "r=abcd,s=?,i=1", "m=x,r=abcd,s=QUFB,i=1"} {
		if _, err := s.proof(challenge); err == nil {
			t.Errorf("%q is accepted", challenge)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add("r=abcd,s=QUFB,i=2")
	f.Fuzz(func(t *testing.T, challenge string) {
		if _, _, count, err := parseChallenge(challenge); err != nil || len(count) > 2 {
			return // the rest is computing
		}
		if proof, err := newScram("p", "abc").proof(challenge); err == nil && proof == "" {
			t.Fatal("no proof")
		}
	})
}

func FuzzError(f *testing.F) {
	f.Add([]byte("SFEHLER\x00VERROR\x00C42601\x00Mbad\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if e := parseError(body); len(e.Error()) > 2*len(body)+100 {
			t.Fatalf("%d bytes become %d", len(body), len(e.Error()))
		}
	})
}

func TestTags(t *testing.T) {
	for tag, want := range map[string]uint64{"SELECT 5\x00": 0, "INSERT 0 5\x00": 5, "UPDATE 12\x00": 12,
		"CREATE TABLE\x00": 0, "COPY 1000\x00": 1000, "FETCH 3\x00": 0, "": 0, "\x00": 0, "SHOW\x00": 0} {
		var r Result
		if r.complete([]byte(tag)); r.Affected != want || r.Commands != 1 {
			t.Errorf("%q: %d", tag, r.Affected)
		}
	}
}

// TestNothingIsSentThatCannotBe: a unit with a mistake in it is refused as a whole, and the connection goes on.
func TestNothingIsSentThatCannotBe(t *testing.T) {
	c := newConn(&script{bytes.Join([][]byte{idle, idle}, nil), 1}, Config{})
	if err := c.Query([]byte("SELECT '\x00'"), nil); !errors.Is(err, errZero) {
		t.Error(err)
	}
	c.Parse("na\x00me", []byte("SELECT 1"))
	c.Execute("", 0)
	if err := c.Sync(nil); !errors.Is(err, errZero) {
		t.Error(err)
	}
	c.Bind("", "", make([][]byte, maxParams+1))
	if err := c.Sync(nil); err == nil {
		t.Error("too many parameters are sent")
	}
	for range 2 {
		if err := c.Query([]byte("SELECT 1"), nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := Dial(context.Background(), Config{Network: "carrier pigeon"}); err == nil {
		t.Error("an unknown network is dialled")
	}
}
