package setdiff

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestCompare changes some of a hundred thousand elements in another set.
func TestCompare(t *testing.T) {
	const elements = 100_000
	r := rand.New(rand.NewPCG(1, 2))
	incomplete, none := 0, 0
	for _, changes := range []int{0, 1, 2, 3, 5, 20, 100, 1000, 30_000} {
		for range 10 {
			var a, b, rest Sketch
			changed := map[uint64]Difference{}
			for len(changed) < changes {
				changed[r.Uint64N(elements)] = Difference{}
			}
			for n := range uint64(elements) {
				e := Element{Number: n, Kind: r.Uint32N(50), Rows: r.Uint32N(1000), Sum: r.Uint64()}
				if n%2 == 0 {
					a.Add(e)
				} else {
					rest.Add(e)
				}
				if _, ok := changed[n]; !ok {
					b.Add(e)
					continue
				}
				d := Difference{Number: n, A: &e}
				if other := e; r.IntN(3) > 0 {
					other.Sum++
					b.Add(other)
					d.B = &other
				}
				changed[n] = d
			}
			a.Merge(&rest)
			c, err := Parse(b.Bytes())
			if err != nil || !bytes.Equal(c.Bytes(), b.Bytes()) {
				t.Fatalf("a sketch was not read as it was written: %v", err)
			}
			got, all := Compare(&a, c)
			if all && len(got) != changes {
				t.Errorf("%d of %d differences are said to be all", len(got), changes)
			}
			if !all && changes <= 5 {
				incomplete++
			}
			if len(got) == 0 && changes > 0 {
				none++
			}
			for _, d := range got {
				want := changed[d.Number]
				if !same(d.A, want.A) || !same(d.B, want.B) {
					t.Errorf("found %+v, want %+v", d, want)
				}
			}
		}
	}
	t.Logf("not all of few were found %d times, none %d times", incomplete, none)
	if none > 4 {
		t.Errorf("none was found %d times of 80", none)
	}
	if incomplete > 2 {
		t.Errorf("up to five differences were not found %d times of 50", incomplete)
	}
}

func same(a, b *Element) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// FuzzCompare has sketches that somebody made up.
func FuzzCompare(f *testing.F) {
	var s Sketch
	s.Add(Element{Number: 7})
	f.Add(s.Bytes(), (&Sketch{}).Bytes())
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, err := Parse(a)
		y, err2 := Parse(b)
		if err != nil || err2 != nil {
			return
		}
		for _, d := range first(Compare(x, y)) {
			if d.A == nil && d.B == nil {
				t.Error("a difference without an element")
			}
		}
	})
}

func first(all []Difference, _ bool) []Difference { return all }

func BenchmarkAdd(b *testing.B) {
	var s Sketch
	b.ReportAllocs()
	for i := range b.N {
		s.Add(Element{Number: uint64(i), Kind: 3, Rows: 4, Sum: uint64(i) * 77})
	}
}
