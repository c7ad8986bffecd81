package replay

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/record"
	"tare/internal/sys/sql/trace"
)

// random makes a trace of sessions of very different lengths.
func random(t *testing.T, r *rand.Rand, sessions int) *trace.Trace {
	t.Helper()
	var all [][]int64
	for range sessions {
		at := r.Int64N(10_000)
		times := []int64{at}
		for range 1 + r.IntN(1+r.IntN(60)) {
			at += r.Int64N(50)
			times = append(times, at)
		}
		all = append(all, times)
	}
	return made(t, 4, all...)
}

// TestEverySessionIsOnOneHost divides works of all kinds: each session of the work is on one host and nowhere else, the
// places of a host's statements are without gaps, and what is common is what one host alone would have.
func TestEverySessionIsOnOneHost(t *testing.T) {
	type which struct {
		session int
		round   int64
	}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := random(t, r, 6+r.IntN(60))
		o := Options{Whole: r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			o.Think, o.Connect = 1, 1
		}
		units := 1 + r.Int64N(2*int64(len(tr.Shards())))
		whole, err := newWork(tr, units, &o)
		if err != nil {
			t.Fatal(err)
		}
		hosts := 2 + r.IntN(4)
		for range hosts {
			o.Parts = append(o.Parts, 1+r.Int64N(3))
		}
		once := 0
		for _, j := range whole.jobs {
			if j.round == 0 {
				once++
			}
		}
		if once < hosts {
			continue // TestTooFewSessions
		}
		did, statements := map[which]int{}, int64(0)
		for o.Part = range o.Parts {
			w, err := newWork(tr, units, &o)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			place := int64(0)
			for _, j := range w.jobs {
				did[which{j.session, j.round}]++
				if j.place != place {
					t.Fatalf("seed %d: a session begins at %d, want %d", seed, j.place, place)
				}
				place += tr.Info(j.session).Statements
			}
			if w.statements != place || w.all != whole.statements || !slices.Equal(w.executions, whole.executions) {
				t.Fatalf("seed %d: %d statements of %d, want %d of %d", seed, w.statements, w.all, place,
					whole.statements)
			}
			if got, want := newPacing(w, &o), newPacing(whole, &o); got.origin != want.origin || got.span != want.span {
				t.Fatalf("seed %d: another schedule", seed)
			}
			statements += place
		}
		if statements != whole.statements || len(did) != len(whole.jobs) {
			t.Fatalf("seed %d: %d sessions with %d statements, want %d with %d", seed, len(did), statements,
				len(whole.jobs), whole.statements)
		}
		for _, j := range whole.jobs {
			if n := did[which{j.session, j.round}]; n != 1 {
				t.Fatalf("seed %d: session %d is on %d hosts", seed, j.session, n)
			}
		}
	}
}

// TestSharesAreMet holds that hosts get as many statements as their shares say, at all times of the log.
func TestSharesAreMet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tr := random(t, r, 400)
	o := Options{Whole: true, Think: 1, Connect: 1, Parts: []int64{1, 3, 2}}
	sums := make([][]float64, len(o.Parts)) // by part and session, up to it
	for o.Part = range o.Parts {
		w, err := newWork(tr, 1, &o)
		if err != nil {
			t.Fatal(err)
		}
		mine := map[int]bool{}
		for _, j := range w.jobs {
			mine[j.session] = true
		}
		sum := 0.0
		for i := range tr.Sessions() {
			if mine[i] {
				sum += float64(1 + tr.Info(i).Statements)
			}
			sums[o.Part] = append(sums[o.Part], sum)
		}
	}
	for i := range tr.Sessions() {
		all := sums[0][i] + sums[1][i] + sums[2][i]
		for k, part := range o.Parts {
			want := all * float64(part) / 6
			if got := sums[k][i]; got < want-130 || got > want+130 { // two of the longest sessions
				t.Fatalf("after %d sessions part %d has %v, want about %v", i+1, k, got, want)
			}
		}
	}
	// More work leaves those that were there where they are.
	o = Options{Parts: []int64{1, 1}}
	few, err := newWork(tr, 20, &o)
	if err != nil {
		t.Fatal(err)
	}
	more, err := newWork(tr, 40, &o)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range few.jobs {
		if more.jobs[i].session != j.session {
			t.Fatalf("job %d is session %d, and with more work %d", i, j.session, more.jobs[i].session)
		}
	}
}

func TestTooFewSessions(t *testing.T) {
	tr := made(t, 1, []int64{0, 1}, []int64{0, 1}, []int64{0, 1})
	for _, c := range []struct {
		units int64
		hosts int
		want  string
	}{{1, 2, TooFew}, {2, 2, ""}, {3, 3, ""}, {3, 4, "refused"}, {30, 4, "refused"}} {
		o := Options{Kind: "sql.replay", Parts: slices.Repeat([]int64{1}, c.hosts), Part: c.hosts - 1}
		_, err := newWork(tr, c.units, &o)
		f, failed := errors.AsType[*record.Failure](err)
		if failed != (c.want != "") || failed && f.Kind != c.want {
			t.Errorf("%d shards for %d hosts: %v, want %q", c.units, c.hosts, err, c.want)
		}
	}
}
