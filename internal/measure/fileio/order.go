package fileio

import (
	"math/bits"
	"math/rand/v2"
)

// maxShuffled bounds the memory of a precomputed order: 8 MiB. Larger files use a computed one.
const maxShuffled = 1 << 20

// Order gives the records of one pass, each exactly once.
type Order interface {
	// Next returns the next record; after the last one of a pass it begins again with the first.
	Next() int64
}

// sequential is 0, 1, 2 ... n-1.
type sequential struct{ n, i int64 }

func (s *sequential) Next() int64 {
	r := s.i
	if s.i++; s.i == s.n {
		s.i = 0
	}
	return r
}

// shuffled is a uniformly drawn permutation held in memory.
type shuffled struct {
	records []int64
	i       int
}

func (s *shuffled) Next() int64 {
	r := s.records[s.i]
	if s.i++; s.i == len(s.records) {
		s.i = 0
	}
	return r
}

// scrambled computes a permutation of any size without memory: a counter through a bijection on k bits, where 2^k is
// less than twice n; results of n and above are skipped, so a step costs two evaluations at most on average. Each round
// (xor with own high half, multiply by an odd number, add) can be undone, hence the whole can.
type scrambled struct {
	n, i    uint64
	mask    uint64
	half    uint
	mul     [3]uint64
	add     [3]uint64
	counted uint64 // records given in this pass
}

func newScrambled(n int64, g *rand.Rand) *scrambled {
	k := bits.Len64(uint64(n - 1))
	s := &scrambled{n: uint64(n), mask: 1<<k - 1, half: uint(k+1) / 2}
	for i := range s.mul {
		s.mul[i], s.add[i] = g.Uint64()|1, g.Uint64()
	}
	return s
}

func (s *scrambled) Next() int64 {
	for {
		x := s.i
		s.i = (s.i + 1) & s.mask
		for r := range s.mul {
			x ^= x >> s.half
			x = (x*s.mul[r] + s.add[r]) & s.mask
		}
		x ^= x >> s.half
		if x < s.n {
			if s.counted++; s.counted == s.n {
				s.counted, s.i = 0, 0
			}
			return int64(x)
		}
	}
}

// NewOrder makes the order of a pass over n records. The same seed gives the same Order everywhere.
func NewOrder(n int64, random bool, seed uint64) Order {
	if !random {
		return &sequential{n: n}
	}
	g := rand.New(rand.NewPCG(seed, 0x6f72_6465_72)) // "order"
	if n > maxShuffled {
		return newScrambled(n, g)
	}
	records := make([]int64, n)
	for i := range records {
		records[i] = int64(i)
	}
	g.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	return &shuffled{records: records}
}
