package matrix

// The generator is MT19937-64 of T. Nishimura and M. Matsumoto ("Tables of 64-bit Mersenne Twisters", ACM TOMACS 10(4),
// 2000), with the initialization by an array that the authors published in 2004.
const (
	mtN     = 312
	mtM     = 156
	mtUpper = 0xFFFFFFFF80000000
	mtLower = 0x7FFFFFFF
	mtTwist = 0xB5026F5AA96619E9
)

type twister struct {
	state [mtN]uint64
	next  int
}

// newTwister starts the generator from a key of at least one word.
func newTwister(key ...uint64) *twister {
	t := &twister{next: mtN}
	s := &t.state
	fill := func(i int) { s[i] = 6364136223846793005*(s[i-1]^s[i-1]>>62) + uint64(i) }
	s[0] = 19650218
	for i := 1; i < mtN; i++ {
		fill(i)
	}
	i, j := 1, 0
	wrap := func() {
		if i++; i >= mtN {
			s[0], i = s[mtN-1], 1
		}
	}
	for range max(mtN, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>62)*3935559000370003845) + key[j] + uint64(j)
		wrap()
		j = (j + 1) % len(key)
	}
	for range mtN - 1 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>62)*2862933555777941757) - uint64(i)
		wrap()
	}
	s[0] = 1 << 63
	return t
}

func (t *twister) uint64() uint64 {
	s := &t.state
	if t.next == mtN {
		for i := range s {
			x := s[i]&mtUpper | s[(i+1)%mtN]&mtLower
			s[i] = s[(i+mtM)%mtN] ^ x>>1 ^ (x&1)*mtTwist
		}
		t.next = 0
	}
	x := s[t.next]
	t.next++
	x ^= x >> 29 & 0x5555555555555555
	x ^= x << 17 & 0x71D67FFFEDA60000
	x ^= x << 37 & 0xFFF7EEE000000000
	return x ^ x>>43
}

// Permutation returns the order in which iozone 3.489 touches n records at random: a shuffle by a generator that is
// seeded anew for each pass, so that the order is the same in every pass, run and machine.
func Permutation(n int64) []int64 {
	t := newTwister(0x12345, 0x23456, 0x34567, 0x45678)
	p := make([]int64, n)
	for i := range p {
		p[i] = int64(i)
	}
	for i := n - 1; i >= 0; i-- {
		j := t.uint64() % uint64(i+1)
		p[i], p[j] = p[j], p[i]
	}
	return p
}
