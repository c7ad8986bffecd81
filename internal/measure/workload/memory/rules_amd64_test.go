package memory

import "testing"

// recorded are answers of CPUID and what glibc 2.36-9+deb12u14 makes of them: `ld.so --list-tunables` prints
// x86_non_temporal_threshold (past) and x86_rep_movsb_threshold (move). All but the first are processors as QEMU 7.2
// offers them: `qemu-x86_64 -cpu NAME`.
var recorded = []struct {
	name       string
	past, move int
	id         map[[2]uint32][4]uint32
}{
	{
		name: "an Intel of 2023, a virtual machine with 2 of its processors", past: 0xb580000, move: 0x840,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0x24, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x1, 0}:        {0xa0671, 0x1020800, 0xfffa3203, 0x1f8bfbff},
			{0x4, 0}:        {0x4000121, 0x2c0003f, 0x3f, 0},
			{0x4, 1}:        {0x4000122, 0x3c0003f, 0x3f, 0},
			{0x4, 2}:        {0x4000143, 0x3c0003f, 0x7ff, 0},
			{0x4, 3}:        {0x4004163, 0x3c0003f, 0x77fff, 0x4},
			{0x7, 0}:        {0x2, 0xf1bf27eb, 0x1b415fde, 0xbfd14410},
			{0x7, 1}:        {0x201c30, 0, 0, 0x84000},
			{0xb, 0}:        {0, 0x1, 0x100, 0x1},
			{0xb, 1}:        {0x5, 0x2, 0x201, 0x1},
			{0xb, 2}:        {0, 0, 0x2, 0x1},
			{0x80000000, 0}: {0x80000008, 0, 0, 0},
			{0x80000006, 0}: {0, 0, 0x8007040, 0},
			{0x80000008, 0}: {0x343934, 0x4100d200, 0, 0},
		},
	},
	{
		name: "Skylake-Server", past: 0xc00000, move: 0x2000,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xd, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x1, 0}:        {0x50654, 0x800, 0xfed83203, 0x78bfbfd},
			{0x4, 0}:        {0x121, 0x1c0003f, 0x3f, 0x1},
			{0x4, 1}:        {0x122, 0x1c0003f, 0x3f, 0x1},
			{0x4, 2}:        {0x143, 0x3c0003f, 0xfff, 0x1},
			{0x4, 3}:        {0x163, 0x3c0003f, 0x3fff, 0x6},
			{0x7, 0}:        {0, 0x19803a9, 0x8, 0},
			{0xb, 0}:        {0, 0x1, 0x100, 0},
			{0xb, 1}:        {0, 0x1, 0x201, 0},
			{0xb, 2}:        {0, 0, 0x2, 0},
			{0x80000000, 0}: {0x80000008, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x80000006, 0}: {0, 0x42004200, 0x2008140, 0x808140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
			{0x8000001d, 2}: {0x100, 0x240, 0, 0},
		},
	},
	{
		name: "Haswell", past: 0xc00000, move: 0x2000,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xd, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x1, 0}:        {0x306c4, 0x800, 0xfed83203, 0x78bfbfd},
			{0x4, 0}:        {0x121, 0x1c0003f, 0x3f, 0x1},
			{0x4, 1}:        {0x122, 0x1c0003f, 0x3f, 0x1},
			{0x4, 2}:        {0x143, 0x3c0003f, 0xfff, 0x1},
			{0x4, 3}:        {0x163, 0x3c0003f, 0x3fff, 0x6},
			{0x7, 0}:        {0, 0x3a9, 0, 0},
			{0xb, 0}:        {0, 0x1, 0x100, 0},
			{0xb, 1}:        {0, 0x1, 0x201, 0},
			{0xb, 2}:        {0, 0, 0x2, 0},
			{0x80000000, 0}: {0x80000008, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x80000006, 0}: {0, 0x42004200, 0x2008140, 0x808140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
			{0x8000001d, 2}: {0x100, 0x240, 0, 0},
		},
	},
	{
		name: "Penryn", past: 0xc00000, move: 0x800,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xa, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x1, 0}:        {0x10673, 0x800, 0x80082201, 0x78bfbfd},
			{0x4, 0}:        {0x121, 0x1c0003f, 0x3f, 0x1},
			{0x4, 1}:        {0x122, 0x1c0003f, 0x3f, 0x1},
			{0x4, 2}:        {0x143, 0x3c0003f, 0xfff, 0x1},
			{0x4, 3}:        {0x163, 0x3c0003f, 0x3fff, 0x6},
			{0x80000000, 0}: {0x80000008, 0x756e6547, 0x6c65746e, 0x49656e69},
			{0x80000006, 0}: {0, 0x42004200, 0x2008140, 0x808140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
		},
	},
	{
		name: "EPYC-Rome", past: 0xc00000, move: 0x2000,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xd, 0x68747541, 0x444d4163, 0x69746e65},
			{0x1, 0}:        {0x830f10, 0x800, 0xfed8320b, 0x78bfbfd},
			{0x7, 0}:        {0, 0x19801a9, 0x4, 0},
			{0xb, 0}:        {0, 0x1, 0x100, 0},
			{0xb, 1}:        {0, 0x1, 0x201, 0},
			{0xb, 2}:        {0, 0, 0x2, 0},
			{0x80000000, 0}: {0x8000001e, 0x68747541, 0x444d4163, 0x69746e65},
			{0x80000006, 0}: {0, 0x42004200, 0x2006140, 0x808140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
			{0x8000001d, 2}: {0x43, 0x1c0003f, 0x3ff, 0},
			{0x8000001d, 3}: {0x163, 0x3c0003f, 0x3fff, 0x6},
		},
	},
	{
		name: "EPYC-Milan", past: 0x1800000, move: 0x2000,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xd, 0x68747541, 0x444d4163, 0x69746e65},
			{0x1, 0}:        {0xa00f11, 0x800, 0xfed8320b, 0x78bfbfd},
			{0x7, 0}:        {0, 0x19803a9, 0xc, 0},
			{0xb, 0}:        {0, 0x1, 0x100, 0},
			{0xb, 1}:        {0, 0x1, 0x201, 0},
			{0xb, 2}:        {0, 0, 0x2, 0},
			{0x80000000, 0}: {0x8000001e, 0x68747541, 0x444d4163, 0x69746e65},
			{0x80000006, 0}: {0, 0x42004200, 0x2006140, 0x1008140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
			{0x8000001d, 2}: {0x43, 0x1c0003f, 0x3ff, 0},
			{0x8000001d, 3}: {0x163, 0x3c0003f, 0x7fff, 0x6},
		},
	},
	{
		name: "Opteron_G5", past: 0xc60000, move: 0x800,
		id: map[[2]uint32][4]uint32{
			{0, 0}:          {0xd, 0x68747541, 0x444d4163, 0x69746e65},
			{0x1, 0}:        {0x600f20, 0x800, 0xbe983203, 0x78bfbfd},
			{0xb, 0}:        {0, 0x1, 0x100, 0},
			{0xb, 1}:        {0, 0x1, 0x201, 0},
			{0xb, 2}:        {0, 0, 0x2, 0},
			{0x80000000, 0}: {0x8000001a, 0x68747541, 0x444d4163, 0x69746e65},
			{0x80000006, 0}: {0, 0x42004200, 0x2008140, 0x808140},
			{0x80000008, 0}: {0x3028, 0, 0, 0},
			{0x8000001d, 2}: {0x100, 0x240, 0, 0},
		},
	},
}

func (r rules) erms() bool { return r.stringTo > 0 }

func TestRulesAreTheCLibrarys(t *testing.T) {
	for _, c := range recorded {
		id := func(leaf, sub uint32) (eax, ebx, ecx, edx uint32) {
			v := c.id[[2]uint32{leaf, sub}]
			return v[0], v[1], v[2], v[3]
		}
		_, leaf7, _, _ := id(7, 0)
		r := rulesOf(id, leaf7>>5&1 == 1)
		if r.streamFrom != c.past {
			t.Errorf("%s: past the cache from %d bytes, the C library from %d", c.name, r.streamFrom, c.past)
		}
		if erms := leaf7>>9&1 == 1; r.erms() != erms || erms && r.stringFrom != c.move {
			t.Errorf("%s: string moves from %d to %d, the C library from %d (it has them: %t)", c.name, r.stringFrom,
				r.stringTo, c.move, erms)
		}
	}
}

// What is not said leads to no rule that cannot be.
func FuzzRules(f *testing.F) {
	f.Add(uint32(0x24), uint32(0x756e6547), uint32(0xffffffff), uint32(0), true)
	f.Add(uint32(0x24), uint32(0x68747541), uint32(0xffffffff), uint32(0xffffffff), false)
	f.Add(uint32(0), uint32(0), uint32(0), uint32(0), true)
	f.Fuzz(func(t *testing.T, last, vendor, a, b uint32, avx2 bool) {
		r := rulesOf(func(leaf, _ uint32) (uint32, uint32, uint32, uint32) {
			if leaf == 0 {
				return last, vendor, a, b
			}
			return a, b, a ^ b, a + b
		}, avx2)
		if r.streamFrom < 4*pageSize || r.stringFrom < 0 || r.stringTo < 0 {
			t.Fatalf("%+v", r)
		}
		for _, n := range []int{8, 4096, 1 << 20, 1 << 30} {
			if m := r.moveOf(n); n < m.least() || !avx2 && (m == byVectors || m == byStream) {
				t.Fatalf("%d bytes by %s with %+v", n, m, r)
			}
		}
	})
}
