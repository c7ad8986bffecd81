package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"tare/internal/sys/sql/lex"
)

// randomTraces makes traces of sessions that are open at the same time, and remembers the events of each.
type randomTraces struct {
	*rand.Rand
	file bytes.Buffer
	w    *Writer
	open [5]int // index in want of the session in each place, -1 for none
	want [][]Event
	told []keyedTransaction // transactions
}

func newRandom(seed uint64) *randomTraces {
	r := &randomTraces{Rand: rand.New(rand.NewPCG(seed, 0)), open: [5]int{-1, -1, -1, -1, -1}}
	r.w = NewWriter(&r.file, Meta{Sources: []string{"a.log"}, Shard: 20})
	r.w.most = 1 << 20
	return r
}

func (r *randomTraces) bytes(most int) []byte {
	b := make([]byte, r.IntN(most))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r *randomTraces) event(number int) Event {
	e := Event{Op: Op(1 + r.IntN(int(ops)-1)), At: r.Int64N(1000) - 1, Rows: r.Int64N(3) - 1, Number: uint64(number),
		Text: r.bytes(2000)}
	if e.Op == Quit && number%7 > 0 {
		e.Op = Query
	}
	if r.IntN(50) == 0 {
		e.Text = r.bytes(3 * fullChunk)
	}
	if e.Op.Statement() {
		q := fmt.Appendf(nil, "SELECT a%d", r.IntN(30))
		e.Fingerprint, e.Volatile = r.w.Fingerprint(q, lex.Classify(q, lex.Options{})), r.IntN(2) == 0
	}
	if r.IntN(2) == 0 {
		e.Database, e.User, e.Name, e.Statement = r.bytes(5), r.bytes(5), r.bytes(5), r.Uint32()
	}
	for range r.IntN(3) {
		e.Params, e.Types = append(e.Params, r.bytes(9)), append(e.Types, Type(r.IntN(int(types))))
	}
	if len(e.Params) > 1 {
		e.Params[0], e.Types = nil, nil
	}
	return e
}

// add adds so many events, and ends the trace.
func (r *randomTraces) add(t *testing.T, n int) []byte {
	t.Helper()
	for i := range n {
		e, place := r.event(i), r.IntN(len(r.open))
		if r.open[place] < 0 {
			r.open[place] = len(r.want)
			r.want = append(r.want, nil)
			if e.Op != Connect {
				r.want[r.open[place]] = []Event{{Op: Connect, At: e.At, Rows: -1, Number: e.Number, User: e.User,
					Database: e.Database}}
			}
		}
		if err := r.w.Add(uint64(place), &e); err != nil {
			t.Fatal(err)
		}
		s := &r.want[r.open[place]]
		*s = append(*s, e)
		if e.Op == Quit {
			r.open[place] = -1
		} else if x := r.Uint64N(1000); x < 300 {
			r.told = append(r.told, keyedTransaction{Transaction{r.open[place], e.Number}, x})
			if err := r.w.Transaction(uint64(place), x, e.Number); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.w.Meta.Statements.Total = 7
	if err := r.w.Close(); err != nil {
		t.Fatal(err)
	}
	return r.file.Bytes()
}

func opened(t *testing.T, file []byte) *Trace {
	t.Helper()
	tr, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// same compares events; a slice that is empty is the same as none.
func same(a, b *Event) bool {
	return a.Op == b.Op && a.At == b.At && a.Fingerprint == b.Fingerprint && a.Volatile == b.Volatile &&
		a.Number == b.Number && a.Statement == b.Statement && a.Rows == b.Rows && bytes.Equal(a.Text, b.Text) &&
		bytes.Equal(a.Database, b.Database) && bytes.Equal(a.User, b.User) && bytes.Equal(a.Name, b.Name) &&
		slices.Equal(a.Types, b.Types) && slices.EqualFunc(a.Params, b.Params, func(a, b []byte) bool {
		return (a == nil) == (b == nil) && bytes.Equal(a, b)
	})
}

func TestWhatIsAddedIsRead(t *testing.T) {
	for seed := range uint64(3) {
		r := newRandom(seed)
		file := r.add(t, 1000)
		if again := newRandom(seed); !bytes.Equal(file, again.add(t, 1000)) {
			t.Fatal("the same events make another file")
		}
		tr := opened(t, file)
		if m := tr.Meta(); !reflect.DeepEqual(m, &r.w.Meta) {
			t.Errorf("%+v, want %+v", m, r.w.Meta)
		}
		if tr.Sessions() != len(r.want) {
			t.Fatalf("%d sessions, want %d", tr.Sessions(), len(r.want))
		}
		kinds := make([]int64, len(tr.Fingerprints()))
		c := new(Cursor)
		for i, want := range r.want {
			checkSession(t, tr, i, c, want, kinds)
		}
		for i, k := range tr.Fingerprints() {
			if k.Statements != kinds[i] || k.Class != "read" || len(k.Text) < len("select a1") {
				t.Errorf("fingerprint %d is %+v, want %d statements", i, k, kinds[i])
			}
		}
		checkShards(t, tr, 20)
		checkTransactions(t, tr, r.told)
	}
}

// checkSession compares a session with what was added, and counts the statements by fingerprint.
func checkSession(t *testing.T, tr *Trace, i int, c *Cursor, want []Event, kinds []int64) {
	t.Helper()
	info := Session{Start: -1, End: -1}
	var e Event
	c.Reset(tr, i)
	for k := range want {
		if err := c.Next(&e); err != nil || !same(&e, &want[k]) {
			t.Fatalf("event %d of session %d: %+v, want %+v (%v)", k, i, e, want[k], err)
		}
		if e.Op.Statement() {
			info.Statements++
			kinds[e.Fingerprint]++
		}
		if e.At >= 0 && info.Start < 0 {
			info.Start = e.At
		}
		if e.At >= 0 {
			info.Start, info.End = min(info.Start, e.At), max(info.End, e.At)
		}
	}
	if err := c.Next(&e); err != io.EOF {
		t.Fatalf("%v behind session %d", err, i)
	}
	if got := tr.Info(i); got != info {
		t.Errorf("session %d is %+v, want %+v", i, got, info)
	}
}

// checkTransactions holds that all transactions are there, those of a session in their order, and a lower id comes
// before a higher one unless it is later in its session.
func checkTransactions(t *testing.T, tr *Trace, told []keyedTransaction) {
	t.Helper()
	got := slices.Clone(tr.Transactions())
	highest, last := map[Transaction]uint64{}, map[int]uint64{}
	for _, x := range told {
		last[x.Session] = max(last[x.Session], x.id)
		highest[x.Transaction] = last[x.Session]
	}
	before, seen := uint64(0), map[int]uint64{}
	for _, x := range got {
		id, ok := highest[x]
		if !ok || id < before || x.First < seen[x.Session] {
			t.Fatalf("%+v with id %d comes behind %d, and %d of its session", x, id, before, seen[x.Session])
		}
		before, seen[x.Session] = id, x.First
	}
	if len(got) != len(told) || len(got) == 0 {
		t.Errorf("%d transactions of %d", len(got), len(told))
	}
}

// A trace of the first version is one of the second without transactions.
func TestFirstVersion(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, Meta{})
	if err := errors.Join(w.Add(1, &Event{Op: Prepare, Text: []byte("SELECT 1")}), w.Close()); err != nil {
		t.Fatal(err)
	}
	file := bytes.ReplaceAll(b.Bytes(), []byte(magic), []byte(magicBefore))
	if tr := opened(t, file); tr.Sessions() != 1 || len(tr.Transactions()) != 0 {
		t.Errorf("%d sessions, %d transactions", tr.Sessions(), len(tr.Transactions()))
	}
	if _, err := Open(bytes.NewReader(append(file[:len(file)-len(magic)], magic...)), int64(len(file))); err == nil {
		t.Error("one of both versions is read")
	}
}

// checkShards holds that shards have each session once, in order, and enough statements.
func checkShards(t *testing.T, tr *Trace, least int64) {
	t.Helper()
	next := 0
	for _, s := range tr.Shards() {
		n := int64(0)
		for i := s.First; i < s.First+s.Sessions; i++ {
			n += tr.Info(i).Statements
		}
		if s.First != next || n != s.Statements || n < least {
			t.Errorf("%+v has %d statements and follows session %d", s, n, next)
		}
		next = s.First + s.Sessions
	}
	if next != tr.Sessions() {
		t.Errorf("shards have %d sessions of %d", next, tr.Sessions())
	}
}

func TestShards(t *testing.T) {
	many := func(n int, statements int64) []session {
		return slices.Repeat([]session{{Session: Session{Statements: statements}}}, n)
	}
	for _, c := range []struct {
		sessions []session
		least    int64
		want     int
		first    Shard
	}{
		{nil, 0, 0, Shard{}},
		{many(3, 1), 0, 1, Shard{0, 3, 3}},          // too short for one
		{many(200, 1), 0, 3, Shard{0, 64, 64}},      // at least 64
		{many(5, 1), 2, 2, Shard{0, 2, 2}},          // the fifth belongs to the second
		{many(2048, 100), 0, 256, Shard{0, 8, 800}}, // a 256th
		{many(1000, 5000), 0, 1000, Shard{0, 1, 5000}},
		{many(3000, 1000), 0, 600, Shard{0, 5, 5000}}, // at most 4096
	} {
		got := shards(c.sessions, c.least)
		if len(got) != c.want || len(got) > 0 && got[0] != c.first {
			t.Errorf("%d sessions, %d at least: %d shards %+v, want %d", len(c.sessions), c.least, len(got), got,
				c.want)
		}
	}
}

// Damage anywhere is found, and nothing is taken for the end that is none.
func TestDamage(t *testing.T) {
	file := newRandom(1).add(t, 300)
	whole := bytes.Clone(file)
	for i := 0; i < len(file); i += 1 + len(file)/5000 {
		file[i] ^= 0x10
		if err := readThrough(file); err == nil {
			t.Fatalf("a changed byte at %d of %d is not found", i, len(file))
		} else if !errors.Is(err, ErrDamaged) {
			t.Fatalf("at %d: %v", i, err)
		}
		file[i] ^= 0x10
	}
	for n := 0; n < len(file); n += 1 + len(file)/1000 {
		if err := readThrough(file[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes of %d: %v", n, len(file), err)
		}
	}
	if err := readThrough(whole); err != nil {
		t.Fatal(err)
	}
}

// readThrough reads all of a trace.
func readThrough(file []byte) error {
	tr, err := Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	var c Cursor
	var e Event
	for _, s := range tr.Shards() {
		for i := s.First; i < s.First+s.Sessions; i++ {
			c.Reset(tr, i)
			for err = c.Next(&e); err == nil; err = c.Next(&e) {
			}
			if again := c.Next(&e); again != err {
				return fmt.Errorf("%v, and then %v", err, again)
			}
			if err != io.EOF {
				return err
			}
		}
	}
	return nil
}

func FuzzOpen(f *testing.F) {
	for seed, n := range []int{0, 1, 40} {
		r := newRandom(uint64(seed))
		for i := range n {
			e := r.event(i)
			e.Text = e.Text[:min(len(e.Text), 20)]
			if err := r.w.Add(uint64(i%3), &e); err != nil {
				f.Fatal(err)
			}
		}
		if err := r.w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(r.file.Bytes())
	}
	f.Fuzz(func(_ *testing.T, file []byte) { _ = readThrough(file) })
}

// FuzzFrame needs no checksum to get to the frames.
func FuzzFrame(f *testing.F) {
	r := newRandom(1)
	for i := range 20 {
		e := r.event(i)
		f.Add(appendFrame(nil, &e))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again Event
		for in := (frames{b: b}); in.next(&e); {
			out := frames{b: appendFrame(nil, &e)}
			if !out.next(&again) || !same(&e, &again) {
				t.Fatalf("%+v is read again as %+v", e, again)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	for _, e := range []Event{{}, {Op: ops}, {Op: Query, Fingerprint: 1}, {Op: Quit, At: -2}, {Op: Quit, Rows: -2},
		{Op: Prepare, Params: make([][]byte, maxParams+1)}, {Op: Prepare, Types: []Type{Int}}} {
		w := NewWriter(io.Discard, Meta{})
		w.Fingerprint([]byte("SELECT 1"), lex.Verdict{})
		if err := w.Add(1, &e); err == nil || w.Close() == nil {
			t.Errorf("%+v is taken", e)
		}
	}
	if w := NewWriter(io.Discard, Meta{}); w.Transaction(1, 1, 1) == nil || w.Close() == nil {
		t.Error("a transaction of no session is taken")
	}
}

// fullDisk is a disk that has room for so many bytes.
type fullDisk int

var errFull = errors.New("no space")

func (f *fullDisk) Write(p []byte) (int, error) {
	if *f -= fullDisk(len(p)); *f < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestFullDisk(t *testing.T) {
	text := bytes.Repeat([]byte("x"), 10_000)
	write := func(room int) (left fullDisk, added, closed error) {
		left = fullDisk(room)
		w := NewWriter(&left, Meta{})
		for i := 0; i < 100 && added == nil; i++ {
			added = w.Add(uint64(i%3), &Event{Op: Prepare, Text: text})
		}
		return left, added, w.Close()
	}
	const plenty = 10 << 20
	left, _, _ := write(plenty)
	size := plenty - int(left)
	for room := 0; room < size; room += 1 + size/50 {
		if _, added, closed := write(room); !errors.Is(closed, errFull) || added != nil && !errors.Is(added, errFull) {
			t.Fatalf("with room for %d bytes of %d: %v, %v", room, size, added, closed)
		}
	}
	if _, added, closed := write(size); added != nil || closed != nil {
		t.Errorf("with just enough room: %v, %v", added, closed)
	}
}

// Kinds beyond the limit are one.
func TestManyFingerprints(t *testing.T) {
	w := NewWriter(io.Discard, Meta{})
	n := uint32(0)
	for i := range maxFingerprints + 50 {
		n = w.Fingerprint(fmt.Appendf(nil, "SELECT a%s", string(rune('a'+i%26))+fmt.Sprintf("x%dx", i)), lex.Verdict{})
	}
	if n != maxFingerprints || len(w.kinds) != maxFingerprints+1 || w.kinds[n].ID != 0 {
		t.Errorf("the last is %d of %d, %+v", n, len(w.kinds), w.kinds[n])
	}
}

// What is begun and not written stays below the limit, however many sessions there are that never end.
func TestMemoryOfWriter(t *testing.T) {
	w := NewWriter(io.Discard, Meta{})
	w.most = 8 << 20
	text := bytes.Repeat([]byte("x"), 1000)
	most := uint64(0)
	for i := range 60_000 {
		if err := w.Add(uint64(i%5000), &Event{Op: Prepare, At: -1, Rows: -1, Text: text}); err != nil {
			t.Fatal(err)
		}
		if i%5_000 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if most > 32<<20 {
		t.Errorf("%d MiB of memory for a trace of %d MiB", most>>20, w.at>>20)
	}
}

// Neither reading nor writing allocates for an event.
func TestNothingIsAllocatedForAnEvent(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, Meta{})
	q := []byte("SELECT a FROM b WHERE c = 5")
	v := lex.Classify(q, lex.Options{})
	e := Event{Op: Execute, At: 5, Rows: -1, Text: q, Params: [][]byte{q[:4], nil}, Types: []Type{Text, Int}}
	add := func() {
		e.Fingerprint = w.Fingerprint(q, v)
		if err := w.Add(1, &e); err != nil {
			t.Fatal(err)
		}
	}
	for range 100_000 {
		add()
	}
	if n := testing.AllocsPerRun(20_000, add); n > 0 {
		t.Errorf("%v allocations to write an event", n)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr := opened(t, file.Bytes())
	c := tr.Session(0)
	next := func() {
		if err := c.Next(&e); err != nil {
			t.Fatal(err)
		}
	}
	for range 100_000 {
		next()
	}
	if n := testing.AllocsPerRun(20_000, next); n > 0 {
		t.Errorf("%v allocations to read an event", n)
	}
}

// BenchmarkNext reads the events of a session.
func BenchmarkNext(b *testing.B) {
	var file bytes.Buffer
	w := NewWriter(&file, Meta{})
	q := []byte("SELECT c FROM sbtest1 WHERE id = 500123")
	e := Event{Op: Query, At: 5, Rows: -1, Text: q, Fingerprint: w.Fingerprint(q, lex.Verdict{})}
	for range 10_000 {
		if err := w.Add(1, &e); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	t, err := Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		b.Fatal(err)
	}
	c := t.Session(0)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Next(&e); err == io.EOF {
			c.Reset(t, 0)
		} else if err != nil {
			b.Fatal(err)
		}
	}
}
