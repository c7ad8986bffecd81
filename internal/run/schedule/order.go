package schedule

import (
	"hash/fnv"
	"math/rand/v2"
)

// Orders returns the order of the slots in each block of one workload: a pure function of its arguments, so a resumed
// run continues the very sequence it began. Blocks count from 1; block 0, the warm-up, and anything below take the
// slots as they come. Each label has its own sequence for the same seed. Every answer is a new slice that holds
// 0..slots-1 once; it is empty for no slots.
//
// Two slots run in mirrored pairs, AB BA or BA AB by chance, so that a steady drift cancels within each pair. More
// slots follow a Williams square: over one cycle (slots blocks for an even number of slots, twice as many for an odd
// one) every slot stands in every place equally often and follows every other slot equally often. Rows come in random
// order and slots get random names in each cycle, so that no regular disturbance of the host can keep step with a
// target.
func Orders(seed uint64, label string, slots int) func(block int) []int {
	h := fnv.New64a()
	h.Write([]byte(label)) // a hash's Write returns no error
	stream := h.Sum64()
	rows := orderRows(slots)

	return func(block int) []int {
		if block < 1 || slots < 2 {
			return orderPlain(slots)
		}
		cycle, place := (block-1)/len(rows), (block-1)%len(rows)
		rng := rand.New(rand.NewPCG(seed^orderMix(uint64(cycle)), stream))
		row := rows[rng.Perm(len(rows))[place]]
		names := rng.Perm(slots)
		out := make([]int, slots)
		for i, r := range row {
			out[i] = names[r]
		}
		return out
	}
}

func orderPlain(slots int) []int {
	out := make([]int, max(slots, 0))
	for i := range out {
		out[i] = i
	}
	return out
}

// orderRows is the Williams square for n slots (Williams 1949): the first row runs 0, n-1, 1, n-2, ..., each further
// row adds one to it modulo n, and an odd n needs the reversed rows as well. For two slots it is AB, BA.
func orderRows(n int) [][]int {
	if n < 1 {
		return nil
	}
	first := make([]int, n)
	for i := range first {
		if i%2 == 0 {
			first[i] = i / 2
		} else {
			first[i] = n - (i+1)/2
		}
	}
	var rows [][]int
	for shift := range n {
		row := make([]int, n)
		for i, v := range first {
			row[i] = (v + shift) % n
		}
		rows = append(rows, row)
	}
	if n%2 == 0 {
		return rows
	}
	for _, row := range rows[:n] {
		back := make([]int, n)
		for i, v := range row {
			back[n-1-i] = v
		}
		rows = append(rows, back)
	}
	return rows
}

// orderMix spreads neighbouring cycle numbers over all bits (the finaliser of splitmix64): generators seeded with
// neighbouring values would start out alike.
func orderMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
