package fileio

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// pass reads one pass of an order and fails unless it holds every record once.
func pass(t *testing.T, o Order, n int64) []int64 {
	t.Helper()
	seen := make([]bool, n)
	out := make([]int64, n)
	for i := range out {
		r := o.Next()
		if r < 0 || r >= n || seen[r] {
			t.Fatalf("n=%d: record %d at step %d is out of range or repeated", n, r, i)
		}
		seen[r] = true
		out[i] = r
	}
	return out
}

func TestOrdersAreFull(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int64{1, 2, 3, 7, 64, 1000, 4097, 1<<20 + 3} {
		orders := map[string]Order{
			"sequential": NewOrder(n, false, 5),
			"shuffled":   NewOrder(n, true, 5),
			"scrambled":  newScrambled(n, g),
		}
		for name, o := range orders {
			a, b := pass(t, o, n), pass(t, o, n)
			if same := slices.Equal(a, b); same != (name == "sequential") && n >= 1000 {
				t.Errorf("%s n=%d: the second pass is the first again: %v", name, n, same)
			}
			pass(t, o, n)
		}
	}
}

// Of independent random orders a record's places in two passes are a third of a pass apart in the mean, and one in two
// records is met again before a whole pass has gone by.
func TestPassesHaveOrdersOfTheirOwn(t *testing.T) {
	for _, n := range []int64{4096, maxShuffled + 4096} {
		o, places := NewOrder(n, true, 3), make([]int64, n)
		for i, r := range pass(t, o, n) {
			places[r] = int64(i)
		}
		for p := range 4 {
			var sum float64
			sooner := 0
			for i, r := range pass(t, o, n) {
				d := int64(i) - places[r]
				sum += float64(max(d, -d))
				if d < 0 {
					sooner++
				}
				places[r] = int64(i)
			}
			if mean := sum / float64(n) / float64(n); mean < 0.30 || mean > 0.37 || sooner < int(n)*45/100 ||
				sooner > int(n)*55/100 {
				t.Errorf("n=%d pass %d: places are %.3f of a pass apart, %d records come sooner than a pass", n, p+2,
					mean, sooner)
			}
		}
	}
}

func TestOrderDependsOnSeedOnly(t *testing.T) {
	for _, n := range []int64{1000, maxShuffled + 10} {
		a, b, c := pass(t, NewOrder(n, true, 1), n), pass(t, NewOrder(n, true, 1), n), pass(t, NewOrder(n, true, 2), n)
		if !slices.Equal(a, b) || slices.Equal(a, c) {
			t.Errorf("n=%d: same seed equal %v, other seed equal %v", n, slices.Equal(a, b), slices.Equal(a, c))
		}
	}
}

// TestScrambledLooksRandom compares the computed order with chance: in a uniform permutation the mean distance of
// neighbours is n/3, and a record is followed by its neighbour about once in the whole pass.
func TestScrambledLooksRandom(t *testing.T) {
	const n = maxShuffled + 12345
	o := pass(t, NewOrder(n, true, 9), n)
	var sum float64
	next := 0
	for i := 1; i < n; i++ {
		d := o[i] - o[i-1]
		if d == 1 {
			next++
		}
		sum += float64(max(d, -d))
	}
	if mean := sum / (n - 1) / n; mean < 0.30 || mean > 0.37 {
		t.Errorf("mean distance is %.3f n, a random Order has 0.333 n", mean)
	}
	if next > 100 {
		t.Errorf("%d records are followed by their neighbour", next)
	}
}

func TestAlignedBuffersHaveTheirSizeAndPlace(t *testing.T) {
	for _, n := range []int{1, 512, 4096, 1<<20 - 1, 1 << 20, 2<<20 + 1, 16 << 20} {
		if b := Aligned(n); len(b) != n || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%alignment != 0 {
			t.Errorf("%d bytes in ordinary pages: %d at %p", n, len(b), b)
		}
		b := HugePages.Aligned(n)
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		if len(b) != n || cap(b) != n || at%alignment != 0 {
			t.Errorf("%d bytes: %d of %d at %#x", n, len(b), cap(b), at)
		}
		if n >= hugePage/2 && at%hugePage != 0 {
			t.Errorf("%d bytes begin at %#x, inside a huge page", n, at)
		}
		clear(b)
	}
}
