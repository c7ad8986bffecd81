package bzip2

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// sorter sorts the rotations of a text: first by eight bytes, then groups of equal ones by the ranks of their
// continuations, twice as far at each step (Larsson and Sadakane, "Faster suffix sorting", 1999). Text that repeats
// itself takes no more than a few steps more.
type sorter struct {
	keys  []rotation
	order []int32
	rank  []int32
	wrap  []byte
	text  []byte
}

type rotation struct {
	key uint64
	at  int32
}

func byKey(a, b rotation) int { return cmp.Compare(a.key, b.key) }

// column returns the last column of the text's sorted rotations, valid until the next call, and where the text itself
// is among them. The text must not be empty.
func (s *sorter) column(text []byte) (last []byte, origin int) {
	n := len(text)
	s.first(text)
	s.refine(n)
	s.text = slices.Grow(s.text[:0], n)[:n]
	for i, at := range s.order {
		if at == 0 {
			origin, at = i, int32(n)
		}
		s.text[i] = text[at-1]
	}
	return s.text, origin
}

// first sorts by the first eight bytes. The rank of a rotation is the place of the last one that is equal so far.
func (s *sorter) first(text []byte) {
	n := len(text)
	s.wrap = append(s.wrap[:0], text...)
	for i := range 8 {
		s.wrap = append(s.wrap, text[i%n])
	}
	s.keys = slices.Grow(s.keys[:0], n)[:n]
	for i := range n {
		s.keys[i] = rotation{binary.BigEndian.Uint64(s.wrap[i:]), int32(i)}
	}
	slices.SortFunc(s.keys, byKey)
	s.order, s.rank = slices.Grow(s.order[:0], n)[:n], slices.Grow(s.rank[:0], n)[:n]
	for i := n - 1; i >= 0; i-- {
		k := s.keys[i]
		s.order[i] = k.at
		s.rank[k.at] = int32(i)
		if i+1 < n && s.keys[i+1].key == k.key {
			s.rank[k.at] = s.rank[s.keys[i+1].at]
		}
	}
}

// refine sorts groups of rotations that are equal in their first h bytes by the ranks h further on.
func (s *sorter) refine(n int) {
	var group []rotation // by the rank; a type of its own would make the agent 6 KB larger
	for h, sorted := 8, false; !sorted && h < n; h *= 2 {
		sorted = true
		for from := 0; from < n; {
			to := int(s.rank[s.order[from]]) + 1
			if to-from < 2 {
				from = to
				continue
			}
			sorted = false
			group = group[:0]
			for _, at := range s.order[from:to] {
				group = append(group, rotation{uint64(s.rank[(int(at)+h)%n]), at})
			}
			slices.SortFunc(group, byKey)
			for i := len(group) - 1; i >= 0; i-- {
				g := group[i]
				s.order[from+i] = g.at
			}
			for i := len(group) - 1; i >= 0; i-- {
				rank := int32(from + i)
				if i+1 < len(group) && group[i+1].key == group[i].key {
					rank = s.rank[group[i+1].at]
				}
				s.rank[group[i].at] = rank
			}
			from = to
		}
	}
}
