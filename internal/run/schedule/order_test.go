package schedule

import (
	"fmt"
	"slices"
	"testing"
)

func TestOrdersHoldEverySlotOnce(t *testing.T) {
	for slots := range 9 {
		next := Orders(1, "cpu.prime", slots)
		for block := range 40 {
			got := slices.Sorted(slices.Values(next(block)))
			if want := orderPlain(slots); !slices.Equal(got, want) {
				t.Fatalf("%d slots, block %d: got slots %v, want %v", slots, block, got, want)
			}
		}
	}
}

func TestOrdersTwoSlotsAreMirroredPairs(t *testing.T) {
	starts := map[int]int{}
	for seed := range uint64(40) {
		next := Orders(seed, "w", 2)
		for pair := range 20 {
			a, b := next(2*pair+1), next(2*pair+2)
			if a[0] != b[1] || a[1] != b[0] {
				t.Fatalf("seed %d pair %d: %v then %v are not mirrored", seed, pair, a, b)
			}
			starts[a[0]]++
		}
	}
	// 800 fair coins stay within 5 standard deviations of 400.
	if starts[0] < 330 || starts[0] > 470 {
		t.Errorf("slot 0 starts %d of 800 pairs, want about half", starts[0])
	}
}

func TestOrdersAreBalancedOverACycle(t *testing.T) {
	for slots := 2; slots <= 9; slots++ {
		cycle := slots
		if slots%2 == 1 {
			cycle = 2 * slots
		}
		next := Orders(7, "fs.randread", slots)
		for c := range 5 {
			places := map[[2]int]int{}
			follows := map[[2]int]int{}
			for b := range cycle {
				row := next(c*cycle + b + 1)
				for i, s := range row {
					places[[2]int{s, i}]++
					if i > 0 {
						follows[[2]int{row[i-1], s}]++
					}
				}
			}
			want := cycle / slots
			for s := range slots {
				for o := range slots {
					if n := places[[2]int{s, o}]; n != want {
						t.Errorf("%d slots, cycle %d: slot %d stands %d times in place %d, want %d", slots, c, s, n, o,
							want)
					}
					if s != o && follows[[2]int{s, o}] != want {
						t.Errorf("%d slots, cycle %d: slot %d follows %d %d times, want %d", slots, c, o, s,
							follows[[2]int{s, o}], want)
					}
				}
			}
		}
	}
}

func TestOrdersDependOnSeedAndLabelOnly(t *testing.T) {
	text := func(seed uint64, label string) string {
		next := Orders(seed, label, 4)
		s := ""
		for b := range 30 {
			s += fmt.Sprint(next(b + 1))
		}
		return s
	}
	if again := text(3, "a"); text(3, "a") != again {
		t.Error("the same seed and label give different orders")
	}
	if text(3, "a") == text(4, "a") {
		t.Error("seeds 3 and 4 give the same orders")
	}
	if text(3, "a") == text(3, "b") {
		t.Error("labels a and b give the same orders")
	}
	// Asking out of turn, as a resumed run does, changes nothing.
	next := Orders(3, "a", 4)
	late := next(17)
	next(2)
	if !slices.Equal(late, Orders(3, "a", 4)(17)) {
		t.Error("the order of block 17 depends on what was asked before")
	}
}

func TestOrdersRowsVaryBetweenCycles(t *testing.T) {
	next := Orders(11, "w", 4)
	seen := map[string]bool{}
	for b := 1; b <= 400; b++ {
		seen[fmt.Sprint(next(b))] = true
	}
	if len(seen) < 20 {
		t.Errorf("400 blocks of 4 slots show %d of 24 orders: the slots keep their names", len(seen))
	}
}
