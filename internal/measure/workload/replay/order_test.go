package replay

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// transacted makes a trace of sessions with some transactions each, whose ids are in any order between sessions.
func transacted(t *testing.T, r *rand.Rand, sessions int) *trace.Trace {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewWriter(&file, trace.Meta{Shard: 1})
	number, first := uint64(0), uint64(0)
	for s := range uint64(sessions) {
		first += r.Uint64N(10) // sessions begin in the order of the log, and overlap
		id := first
		for range r.IntN(5) {
			id += 1 + r.Uint64N(30)
			for k := range 3 {
				text := []byte("SELECT 1")
				e := trace.Event{Op: trace.Query, Text: text, Number: number, Rows: -1,
					Fingerprint: w.Fingerprint(text, lex.Verdict{Class: lex.Read})}
				if err := w.Add(s, &e); err != nil {
					t.Fatal(err)
				}
				if k == 1 { // the first statement belongs to none
					if err := w.Transaction(s, id, number); err != nil {
						t.Fatal(err)
					}
				}
				number++
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tr, err := trace.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// Whatever lane goes on first, all transactions begin, with as many lanes as the work says that it needs.
func TestOrderEndsAlways(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		tr := transacted(t, r, 2+r.IntN(30))
		if len(tr.Transactions()) == 0 {
			continue
		}
		w, err := newWork(tr, 1+r.Int64N(2*int64(len(tr.Shards()))), &Options{Ordered: true})
		if err != nil {
			t.Fatal(err)
		}
		var places []int64
		for _, j := range w.jobs {
			for _, x := range j.turns {
				places = append(places, x.place)
			}
		}
		slices.Sort(places)
		for i, p := range places {
			if p != int64(i) {
				t.Fatalf("seed %d: place %d is taken for %d", seed, p, i)
			}
		}
		simulate(t, r, w, seed)
	}
}

// simulate lets as few lanes as there may be take the jobs, a random one of those that can go on at a time.
func simulate(t *testing.T, r *rand.Rand, w *work, seed uint64) {
	t.Helper()
	lanes, taken, next := make([][]turn, max(1, w.lanes)), 0, int64(0)
	for {
		var ready []int
		for i, left := range lanes {
			if len(left) == 0 && taken < len(w.jobs) || len(left) > 0 && left[0].place == next {
				ready = append(ready, i)
			}
		}
		if len(ready) == 0 {
			break
		}
		i := ready[r.IntN(len(ready))]
		if len(lanes[i]) == 0 {
			lanes[i] = w.jobs[taken].turns
			taken++
			continue
		}
		if k := 1; len(lanes[i]) > k && lanes[i][k].place < lanes[i][0].place {
			t.Fatalf("seed %d: the transactions of a session change places", seed)
		}
		lanes[i] = lanes[i][1:]
		next++
	}
	if taken < len(w.jobs) || slices.ContainsFunc(lanes, func(left []turn) bool { return len(left) > 0 }) {
		t.Fatalf("seed %d: %d lanes wait for each other after %d of %d jobs", seed, len(lanes), taken, len(w.jobs))
	}
}

// What waits is woken in its turn, and at the end.
func TestTurnsStop(t *testing.T) {
	x := turns{waiting: make([]chan struct{}, 5)}
	woken := make(chan struct{}, 1)
	ended := make(chan bool)
	go func() { ended <- x.wait(1, woken) }()
	if !x.wait(0, nil) {
		t.Error("the first has to wait")
	}
	x.done()
	if !<-ended {
		t.Error("the second is stopped")
	}
	go func() { ended <- x.wait(3, woken) }()
	x.stop()
	if <-ended || x.wait(4, nil) {
		t.Error("a wait goes on after the end")
	}
}
