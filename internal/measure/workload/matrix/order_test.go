package matrix

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTwister holds the generator to the first outputs that its authors published for this key (mt19937-64.out.txt).
func TestTwister(t *testing.T) {
	g := newTwister(0x12345, 0x23456, 0x34567, 0x45678)
	for i, want := range []uint64{7266447313870364031, 4946485549665804864, 16945909448695747420, 16394063075524226720,
		4873882236456199058} {
		if got := g.uint64(); got != want {
			t.Fatalf("output %d is %d, want %d", i, got, want)
		}
	}
}

// TestPermutation compares with the offsets that strace shows of iozone 3.489 (-a -i 0 -i 2).
func TestPermutation(t *testing.T) {
	for _, want := range [][]int64{
		{1, 5, 7, 13, 10, 6, 0},
		{9, 8, 5, 17, 18, 10, 13, 14, 7, 0, 15, 12, 16, 1, 6, 2, 3, 4, 19, 11},
	} {
		n := int64(20)
		if len(want) == 7 {
			n = 16
		}
		if got := Permutation(n)[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("n=%d: %v, iozone does %v", n, got, want)
		}
	}
	for _, n := range []int64{1, 2, 3, 1000} {
		p := Permutation(n)
		slices.Sort(p)
		for i, r := range p {
			if r != int64(i) {
				t.Fatalf("n=%d: not every record once", n)
			}
		}
	}
}

// TestStride compares with where strace shows iozone 3.489 to go after each read of a stride read (-a -i 0 -i 5).
func TestStride(t *testing.T) {
	for n, seen := range map[int64]string{
		5:  "0 0 0 0 0",
		17: "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
		18: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0",
		19: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 0",
		20: "17 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
		21: "17 1 18 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19",
		35: "17 1 18 2 19 3 20 4 21 5 22 6 23 7 24 8 25 9 26 10 27 11 28 12 29 13 30 14 31 15 32 16 17 18 19",
		36: "17 1 18 2 19 3 20 4 21 5 22 6 23 7 24 8 25 9 26 10 27 11 28 12 29 13 30 14 31 15 32 16 33 17 18 19",
		37: "17 34 1 18 2 19 3 20 4 21 5 22 6 23 7 24 8 25 9 26 10 27 11 28 12 29 13 30 14 31 15 32 16 33 17 34 18",
		53: "17 34 1 18 35 2 19 36 3 20 37 4 21 38 5 22 39 6 23 40 7 24 41 8 25 42 9 26 43 10 27 44 11 28 45 12 29 " +
			"46 13 30 47 14 31 48 15 32 49 16 33 50 17 34 18",
		60: "17 34 51 1 18 35 52 2 19 36 53 3 20 37 54 4 21 38 55 5 22 39 56 6 23 40 57 7 24 41 8 25 42 9 26 43 10 " +
			"27 44 11 28 45 12 29 46 13 30 47 14 31 48 15 32 49 16 33 50 17 34 51",
	} {
		s := strided{n: n}
		var went []string
		for range n {
			s.at = s.jump()
			went = append(went, strconv.FormatInt(s.at, 10))
		}
		if got := strings.Join(went, " "); got != seen {
			t.Errorf("n=%d: went %s, iozone %s", n, got, seen)
		}
		o := orderOf(StrideRead, n, 1)
		first, second := make([]int64, n), make([]int64, n)
		for i := range first {
			first[i] = o.Next()
		}
		for i := range second {
			second[i] = o.Next()
		}
		if !slices.Equal(first, second) || first[0] != 0 {
			t.Errorf("n=%d: a pass begins at record %d, and the second is %v", n, first[0], second)
		}
		if n > 2 && strconv.FormatInt(first[1], 10) != went[0] {
			t.Errorf("n=%d: the order goes to %d after record 0, the jumps to %s", n, first[1], went[0])
		}
	}
}

// TestOrders wants every operation to touch what its name says.
func TestOrders(t *testing.T) {
	const n = 40
	for o, want := range map[Op][]int64{
		Write: {0, 1, 2}, Reread: {0, 1, 2}, BkwdRead: {39, 38, 37}, RecRewrite: {0, 0, 0}, StrideRead: {0, 17, 34},
		RandRead: Permutation(n)[:3],
	} {
		order := orderOf(o, n, 1)
		for i, w := range want {
			if got := order.Next(); got != w {
				t.Errorf("%s: step %d touches record %d, want %d", o, i, got, w)
			}
		}
		if o == RecRewrite || o == StrideRead {
			continue
		}
		order = orderOf(o, n, 1)
		for pass := range 2 {
			seen := map[int64]bool{}
			for range n {
				seen[order.Next()] = true
			}
			if len(seen) != n {
				t.Errorf("%s: pass %d touches %d of %d records", o, pass, len(seen), n)
			}
		}
	}
}

func TestRows(t *testing.T) {
	count := func(minSize, maxSize, minRec, maxRec int64, crossover bool) int {
		return len(Rows(minSize, maxSize, minRec, maxRec, crossover))
	}
	// iozone -a prints 126 rows, and 146 with -z.
	if n := count(AutoMinSize, AutoMaxSize, AutoMinRec, AutoMaxRec, true); n != 126 {
		t.Errorf("the automatic matrix has %d rows, iozone's 126", n)
	}
	if n := count(AutoMinSize, AutoMaxSize, AutoMinRec, AutoMaxRec, false); n != 146 {
		t.Errorf("the whole matrix has %d rows, iozone's 146", n)
	}
	for _, r := range Rows(AutoMinSize, AutoMaxSize, AutoMinRec, AutoMaxRec, true) {
		if r.Rec > r.Size || r.Size > 16<<20 && r.Rec < 64<<10 {
			t.Errorf("row %v should not be there", r)
		}
	}
	for _, bad := range [][4]int64{{0, 1 << 20, 4096, 4096}, {4096, 4096, 0, 4096}, {2, 1, 1, 1},
		{4096, 4096, 8192, 16384}} {
		if n := count(bad[0], bad[1], bad[2], bad[3], false); n != 0 {
			t.Errorf("%v gives %d rows", bad, n)
		}
	}
	if n := count(1, 1<<62, 1, 1<<62, false); n != 63*64/2 {
		t.Errorf("doubling up to 2^62 gives %d rows", n)
	}
}

func FuzzParseOps(f *testing.F) {
	for _, s := range []string{"all", "write read", "fread+fread,write", "", "wirte", "all,write"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ops, err := ParseOps(s)
		if err != nil {
			return
		}
		if len(ops) == 0 || !slices.IsSorted(ops) || len(slices.Compact(slices.Clone(ops))) != len(ops) {
			t.Errorf("ParseOps(%q) = %v: empty, unsorted or doubled", s, ops)
		}
		var names []string
		for _, o := range ops {
			names = append(names, o.String())
		}
		if again, err := ParseOps(strings.Join(names, " ")); err != nil || !slices.Equal(again, ops) {
			t.Errorf("ParseOps(%q) = %v, and of its names %v, %v", s, ops, again, err)
		}
	})
}
