package thread

import (
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"
)

func TestBuffer(t *testing.T) {
	for _, size := range []int64{1, 4096, 4097, 3 << 20} {
		b, err := Alloc(size, HugeAuto)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b.Bytes)) != size || cap(b.Bytes) != len(b.Bytes) {
			t.Errorf("%d bytes were asked for, length is %d, capacity %d", size, len(b.Bytes), cap(b.Bytes))
		}
		if at := uintptr(unsafe.Pointer(&b.Bytes[0])); at%uintptr(os.Getpagesize()) != 0 {
			t.Errorf("buffer of %d begins at %#x, within a page", size, at)
		}
		b.Touch()
		for i, v := range b.Bytes {
			if v != 0 {
				t.Fatalf("byte %d is %d, want zeroed memory", i, v)
			}
		}
		if err := errors.Join(b.Free(), b.Free()); err != nil {
			t.Error(err)
		}
	}
}

func TestBufferRefuses(t *testing.T) {
	for _, size := range []int64{0, -1} {
		if _, err := Alloc(size, HugeAuto); err == nil {
			t.Errorf("a buffer of %d bytes was made", size)
		}
	}
	// The system's answer to more address space than a processor has.
	if b, err := Alloc(1<<62, HugeAuto); err == nil {
		_ = b.Free()
		t.Error("a buffer of 4 EiB was made")
	}
}

func TestHugePages(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") {
		t.Skip("this kernel has no transparent huge pages switched on")
	}
	const size = 16 << 20
	for huge, want := range map[Huge]bool{HugeOn: true, HugeOff: false} {
		b, err := Alloc(size, huge)
		if err != nil {
			t.Fatal(err)
		}
		if at := uintptr(unsafe.Pointer(&b.Bytes[0])); want && at%hugePage != 0 {
			t.Errorf("a buffer for huge pages begins at %#x, within one", at)
		}
		b.Touch()
		share, err := b.HugeShare()
		if err != nil {
			t.Fatal(err)
		}
		if want && share < 0.5 || !want && share != 0 {
			t.Errorf("hugepages %s: %.0f %% of the memory lies in huge pages", huge, 100*share)
		}
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	}
}

const smaps = `55d0c8a00000-55d0c8a01000 r--p 00000000 08:01 123 /bin/x
Size:                  4 kB
Rss:                   4 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me sd
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
7f0000400000-7f0000800000 rw-p 00000000 00:00 0 [anon: go]
Rss:                1024 kB
AnonHugePages:         0 kB
7f0000800000-7f0000c00000 rw-p 00000000 00:00 0
Rss:                  64 kB
AnonHugePages:        64 kB
`

func TestSmapsRange(t *testing.T) {
	for _, c := range []struct{ start, end, rss, huge uint64 }{
		{0x7f0000000000, 0x7f0000400000, 4096 << 10, 2048 << 10},
		{0x7f0000200000, 0x7f0000400001, 5120 << 10, 2048 << 10}, // reaches one byte into the next
		{0x7f0000c00000, 0x7f0000d00000, 0, 0},
		{0x55d0c8a00000, 0x55d0c8a01000, 4 << 10, 0},
	} {
		rss, huge, err := smapsRange(strings.NewReader(smaps), c.start, c.end)
		if err != nil || rss != c.rss || huge != c.huge {
			t.Errorf("[%#x, %#x): %d resident, %d huge, %v; want %d and %d", c.start, c.end, rss, huge, err, c.rss,
				c.huge)
		}
	}
}

func FuzzSmapsRange(f *testing.F) {
	f.Add(smaps, uint64(0x7f0000000000), uint64(0x7f0000400000))
	f.Add("-\n", uint64(0), uint64(1))
	f.Add("0-ffffffffffffffff x\nRss: 18446744073709551615 kB\n", uint64(0), uint64(1))
	f.Fuzz(func(t *testing.T, text string, start, end uint64) {
		if len(text) > 1<<20 {
			return
		}
		rss, huge, err := smapsRange(strings.NewReader(text), start, end)
		if err != nil && (rss != 0 || huge != 0) {
			t.Errorf("%d and %d beside the error %v", rss, huge, err)
		}
	})
}
