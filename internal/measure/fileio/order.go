package fileio

import (
	"math/bits"
	"math/rand/v2"
)

// maxShuffled bounds the memory of a precomputed order: 8 MiB. Larger files use a computed one.
const maxShuffled = 1 << 20

// Order gives the records of one pass, each exactly once.
type Order interface {
	// Next returns the next record; after the last one of a pass the next pass begins.
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

// shift makes the order of each pass different: it is added to every record, modulo their number. The position of a
// record in the next pass is then independent of its position in this one. The same order in each pass would be the
// worst case of an LRU cache that is smaller than the file: each record would be evicted just before its turn, while a
// program that draws a new order finds some records cached. The first pass has no shift.
type shift struct {
	n, by int64
	state uint64
}

// of moves a record of 0 to n-1.
func (s *shift) of(r int64) int64 {
	if r += s.by; r >= s.n {
		r -= s.n
	}
	return r
}

// next is for the next pass.
func (s *shift) next() {
	s.state = s.state*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
	high, _ := bits.Mul64(s.state, uint64(s.n))
	s.by = int64(high)
}

// shuffled is a uniformly drawn permutation held in memory.
type shuffled struct {
	records []int64
	i       int
	shift
}

func (s *shuffled) Next() int64 {
	r := s.of(s.records[s.i])
	if s.i++; s.i == len(s.records) {
		s.i = 0
		s.next()
	}
	return r
}

// scrambled computes a permutation of any size without memory: a counter through a bijection on k bits, where 2^k is
// less than twice n; results of n and above are skipped, so a step costs two evaluations at most on average. Each round
// (xor with own high half, multiply by an odd number, add) is invertible, so the whole function is a bijection.
type scrambled struct {
	n, i    uint64
	mask    uint64
	half    uint
	mul     [3]uint64
	add     [3]uint64
	counted uint64 // records given in this pass
	shift
}

func newScrambled(n int64, g *rand.Rand) *scrambled {
	k := bits.Len64(uint64(n - 1))
	s := &scrambled{n: uint64(n), mask: 1<<k - 1, half: uint(k+1) / 2}
	for i := range s.mul {
		s.mul[i], s.add[i] = g.Uint64()|1, g.Uint64()
	}
	s.shift = shift{n: n, state: g.Uint64()}
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
			r := s.of(int64(x))
			if s.counted++; s.counted == s.n {
				s.counted, s.i = 0, 0
				s.next()
			}
			return r
		}
	}
}

// NewOrder makes the order of passes over n records. Random passes differ from each other. The same seed gives the same
// Order everywhere.
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
	return &shuffled{records: records, shift: shift{n: n, state: g.Uint64()}}
}
