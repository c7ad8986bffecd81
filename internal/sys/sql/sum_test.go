package sql

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// rowsOf returns the sum of rows; the text NULL stands for NULL.
func rowsOf(rows ...[]string) *Sum {
	s := &Sum{}
	for _, r := range rows {
		for _, v := range r {
			if v == "NULL" {
				s.Null()
			} else {
				s.Value([]byte(v))
			}
		}
		s.EndRow()
	}
	return s
}

func TestSumTellsApart(t *testing.T) {
	type rows = [][]string
	seen := map[[2]uint64]string{}
	for _, c := range []rows{
		nil, {{""}}, {{"", ""}}, {{"NULL"}}, {{"NULL", ""}}, {{"", "NULL"}}, {{"\x00"}}, {{"\x00\x00"}}, {{"a"}},
		{{"b"}},
		{{"a", "b"}}, {{"b", "a"}}, {{"ab"}}, {{"ab", ""}}, {{"", "ab"}}, {{"a"}, {"b"}}, {{"a"}, {"a"}},
		{{"a"}, {"a"}, {"a"}}, {{"0123456789abcdef"}}, {{"0123456789abcdef\x00"}}, {{"0123456789abcdef", ""}},
		{{"01234567", "89abcdef"}},
		{{"1"}, {}}, {{}, {"1"}}, {{}}, {{}, {}},
	} {
		s := rowsOf(c...)
		key := [2]uint64{s.Ordered(), s.Unordered()}
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %s have the same sum", c, other)
		}
		seen[key] = fmt.Sprintf("%q", c)
	}
}

// The sum of a linear checksum of each row, such as a CRC, often stays the same if two rows exchange their values.
func TestSumDetectsExchangedValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	value := func() string { return fmt.Sprintf("%08x", rng.Uint32()) }
	for range 20_000 {
		a, b, p, q := value(), value(), value(), value()
		if rowsOf([]string{a, p}, []string{b, q}).Unordered() == rowsOf([]string{a, q},
			[]string{b, p}).Unordered() {
			t.Fatalf("the sum of %s %s, %s %s does not change if the second values are exchanged", a, p, b, q)
		}
	}
}

func TestSumOrder(t *testing.T) {
	a, b := rowsOf([]string{"1"}, []string{"2"}, []string{"2"}), rowsOf([]string{"2"}, []string{"1"}, []string{"2"})
	if a.Unordered() != b.Unordered() || a.Ordered() == b.Ordered() {
		t.Errorf("%x %x and %x %x", a.Ordered(), a.Unordered(), b.Ordered(), b.Unordered())
	}
}

// The sum of a value does not depend on the size of its parts.
func TestSumInParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, 300)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	for n := range len(text) + 1 {
		whole := &Sum{}
		whole.Value([]byte("before"))
		whole.Value(text[:n])
		whole.Value([]byte("behind"))
		whole.EndRow()
		for range 20 {
			s := &Sum{}
			s.Value([]byte("before"))
			for at := 0; at < n; {
				k := min(rng.IntN(100), n-at)
				s.Part(text[at : at+k])
				at += k
			}
			s.End()
			s.Value([]byte("behind"))
			s.EndRow()
			if s.Ordered() != whole.Ordered() || s.Unordered() != whole.Unordered() {
				t.Fatalf("%d bytes in parts: %x, whole: %x", n, s.Ordered(), whole.Ordered())
			}
		}
	}
}

// Each bit of a value changes about half of the bits of the sum.
func TestSumAvalanche(t *testing.T) {
	text := bytes.Repeat([]byte{0x5a}, 140)
	base := &Sum{}
	base.Value(text)
	for bit := range 8 * len(text) {
		text[bit/8] ^= 1 << (bit % 8)
		s := &Sum{}
		s.Value(text)
		text[bit/8] ^= 1 << (bit % 8)
		changed := 0
		for x := s.row ^ base.row; x != 0; x &= x - 1 {
			changed++
		}
		if changed < 12 || changed > 52 {
			t.Errorf("bit %d changes %d bits of the sum", bit, changed)
		}
	}
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{4, 12, 120, 64 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v, s := make([]byte, n), &Sum{}
			b.SetBytes(int64(n))
			for b.Loop() {
				s.Value(v)
				s.EndRow()
			}
		})
	}
}
