package ledger

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTimeline: whatever the order and the span of times, each counts once, in the part that has it.
func TestTimeline(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var times []int64
		at := rng.Int64N(1 << 50)
		for range 1 + rng.IntN(300) {
			at = max(0, at+(rng.Int64N(1000)-300)*(1<<rng.IntN(36)))
			times = append(times, at)
		}
		l := Timeline[[]int64]{Add: func(to, more *[]int64) { *to = append(slices.Clone(*to), *more...) }}
		for _, at := range times {
			p := l.At(at, nil)
			*p = append(slices.Clone(*p), at)
		}
		n := 0
		for i, p := range l.Parts {
			n += len(p)
			for _, at := range p {
				if from := l.Origin + int64(i)*l.Width; at < from || at >= from+l.Width {
					t.Fatalf("%d is in the part from %d on, which is %d wide", at, from, l.Width)
				}
			}
		}
		if n != len(times) || len(l.Parts) > MaxParts {
			t.Fatalf("%d of %d times are in %d parts", n, len(times), len(l.Parts))
		}
	}
}
