package matrix

import "tare/internal/measure/fileio"

// stride is the distance between records in strideread, as in iozone.
const stride = 17

// backward is n-1, n-2 ... 0.
type backward struct{ n, i int64 }

func (b *backward) Next() int64 {
	if b.i == 0 {
		b.i = b.n
	}
	b.i--
	return b.i
}

// same is always record 0.
type same struct{}

func (same) Next() int64 { return 0 }

// strided is iozone's order of a stride read: seventeen records on, until that would come within two records of the
// end; then back, to record 1 the first time, record 2 the second. With 17 records or fewer it never leaves record 0,
// and with 18 or 19 it never jumps. A pass touches n records, but not every record, and some twice.
type strided struct{ n, i, at, wraps int64 }

func (s *strided) Next() int64 {
	r := s.at
	if s.i++; s.i == s.n {
		*s = strided{n: s.n}
	} else {
		s.at = s.jump()
	}
	return r
}

// jump returns the record after s.at.
func (s *strided) jump() int64 {
	if s.n <= stride {
		return 0
	}
	if s.at+stride < s.n-2 {
		return s.at + stride
	}
	s.wraps++
	return s.wraps % s.n
}

// minStrided is the least number of records at which at least half of the steps of a stride read are strides or the way
// back from one. Up to 17 there are none, and up to 25 most steps are to the next record.
const minStrided = 26

// list is an order held in memory.
type list struct {
	records []int64
	i       int
}

func (l *list) Next() int64 {
	r := l.records[l.i]
	if l.i++; l.i == len(l.records) {
		l.i = 0
	}
	return r
}

// maxList bounds the memory of a list: 128 MiB.
const maxList = 1 << 24

// orderOf returns the order of an operation over n records. The random order is iozone's as long as it fits into
// memory.
func orderOf(o Op, n int64, seed uint64) fileio.Order {
	switch o {
	case RandRead, RandWrite:
		if n > maxList {
			return fileio.NewOrder(n, true, seed)
		}
		return &list{records: Permutation(n)}
	case BkwdRead:
		return &backward{n: n}
	case RecRewrite:
		return same{}
	case StrideRead:
		return &strided{n: n}
	}
	return fileio.NewOrder(n, false, seed)
}
