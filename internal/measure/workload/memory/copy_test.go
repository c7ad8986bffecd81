package memory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/thread"
)

func randomBytes(n int) []byte {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestKernelsCopyEverything(t *testing.T) {
	for _, method := range []string{"memcpy", "dumb", "mcblock"} {
		for _, size := range []int{8, 64, 4096, 4104, 1<<20 + 8} {
			for _, block := range []int{8, 24, 1000, size} {
				for _, by := range moves {
					if lacks(move(by)) != "" {
						continue // refused, see TestCopyRefuses
					}
					src, dst := randomBytes(size), make([]byte, size)
					kernelFor("mbw-2.0", method).copy(move(by), dst, src, min(block, size))
					if !bytes.Equal(src, dst) {
						t.Errorf("%s by %s of %d bytes in blocks of %d is not a copy", method, by, size, block)
					}
				}
			}
		}
	}
}

func TestOldBlockCopyRepeatsTheFirst(t *testing.T) {
	for _, c := range []struct{ size, block int }{{64, 16}, {72, 16}, {16, 16}, {4096, 24}} {
		src, dst := randomBytes(c.size), make([]byte, c.size)
		kernelFor("mbw-1.2", "mcblock").copy(theRules.moveOf(c.block), dst, src, c.block)
		want := bytes.Repeat(src[:c.block], c.size/c.block+1)[:c.size]
		if !bytes.Equal(dst, want) {
			t.Errorf("%d bytes in blocks of %d: the source pointer must stand still", c.size, c.block)
		}
	}
}

// What ran is in the checks, so cells that ran different things under one name are not compared.
func TestLabels(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.copy")
	for _, c := range []struct{ labels, method, ran string }{
		{"mbw-2.0", "memcpy", "one memmove of the array"},
		{"mbw-2.0", "dumb", "8-byte loop"},
		{"mbw-2.0", "mcblock", "memmove by block"},
		{"mbw-1.2", "memcpy", "8-byte loop"},
		{"mbw-1.2", "dumb", "one memmove of the array"},
		{"mbw-1.2", "mcblock", "memmove by block, always from the first"},
	} {
		given := map[string]string{"labels": c.labels, "method": c.method, "size": "4MiB"}
		b := trialtest.Run(t, kind, given, 3)
		if got, want := b.Checks["definition"], c.labels+" "+c.method+": "+c.ran; got != want {
			t.Errorf("%v ran %q, want %q", given, got, want)
		}
		if b.Checks["verified"] != "4MiB" || len(b.Samples["mib_per_second"]) != 3 {
			t.Errorf("%v: checks %v, %d samples; want 4MiB verified and one sample a pass", given, b.Checks,
				len(b.Samples["mib_per_second"]))
		}
	}
}

// Every way can be forced, and the state says which it was; one that the processor lacks is refused with the reason.
func TestEveryWay(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.copy")
	for _, m := range moves {
		for method, note := range map[string]string{"memcpy": "copied_by", "mcblock": "block_copied_by"} {
			given := map[string]string{"method": method, "size": "4MiB", "by": m}
			b, err := trialtest.Try(t, kind, given, 2)
			if why := lacks(move(m)); why != "" && move(m) != byAuto {
				if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), why) {
					t.Errorf("%v gave %v, want the reason %q", given, err, why)
				}
				continue
			}
			if err != nil {
				t.Errorf("%v: %v", given, err)
				continue
			}
			want := move(m)
			if want == byAuto {
				want = theRules.moveOf(map[string]int{"memcpy": 4 << 20, "mcblock": 256 << 10}[method])
			}
			if b.State[note] != want.word() || want.word() == "" {
				t.Errorf("%v: the state is %v, want %s %q", given, b.State, note, want.word())
			}
		}
	}
}

func TestFaultyCopyIsFound(t *testing.T) {
	for _, repeats := range []bool{false, true} {
		c := &copyTrial{size: 1 << 20, block: 4096, kernel: kernel{repeats: repeats}}
		c.a, c.b = make([]byte, c.size), make([]byte, c.size)
		if err := c.verify(); err != nil {
			t.Fatalf("equal arrays: %v", err)
		}
		c.b[c.size-1] ^= 0x10
		if err := c.verify(); err == nil || !strings.Contains(err.Error(), "faulty") {
			t.Errorf("repeats %t: one wrong bit gave %v", repeats, err)
		}
	}
}

func TestStampsDiffer(t *testing.T) {
	seen := map[uint64]int{fill: -1}
	for i := 0; i < 64<<20; i += stampEvery {
		if at, dup := seen[stamp(7, i)]; dup {
			t.Fatalf("the words at %d and %d are equal", at, i)
		}
		seen[stamp(7, i)] = i
	}
}

func TestCopyRefuses(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.copy")
	for _, c := range []struct {
		given map[string]string
		says  string
	}{
		{map[string]string{"size": "4097"}, "multiple of 8"},
		{map[string]string{"size": "1"}, "between 4KiB and 1TiB"},
		{map[string]string{"method": "memcopy"}, "did you mean \"memcpy\""},
		{map[string]string{"method": "mcblock", "size": "1MiB", "block": "2MiB"}, "larger than size"},
		{map[string]string{"method": "dumb", "by": "memmove"}, "loop over 8 bytes"},
		{map[string]string{"method": "mcblock", "block": "32", "by": "rep-movsb"}, "rep-movsb"},
		{map[string]string{"size": "1TiB"}, "use a smaller size"}, // 2 TiB: more than the test machines have
	} {
		if _, err := trialtest.Try(t, kind, c.given, 1); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v gave %v, want an error with %q", c.given, err, c.says)
		}
	}
}

func TestHugePagesOff(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.copy")
	b := trialtest.Run(t, kind, map[string]string{"size": "8MiB", "hugepages": "off"}, 1)
	if b.State["huge_pages_source"] != "0%" {
		t.Errorf("huge pages were forbidden, and the state is %v", b.State)
	}
}

func TestRefusedHugePagesAreSaid(t *testing.T) {
	buf, err := thread.Alloc(8<<20, thread.HugeOff)
	if errors.Is(err, thread.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	buf.Touch()
	for asked, want := range map[thread.Huge]int{thread.HugeOn: 1, thread.HugeOff: 0, thread.HugeAuto: 0} {
		b := &workload.Bench{}
		noteHuge(b, "pages", buf, asked)
		if len(b.Warnings) != want || b.State["pages"] != "0%" {
			t.Errorf("asked %s, got none: warnings %v, state %v", asked, b.Warnings, b.State)
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	for _, method := range []string{"memcpy", "dumb", "mcblock"} {
		for _, size := range []int{16 << 10, 64 << 20} {
			b.Run(method+"/"+strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
				src, dst := slices.Repeat([]byte{1}, size), slices.Repeat([]byte{2}, size)
				k := kernelFor("mbw-2.0", method)
				b.SetBytes(int64(size))
				for b.Loop() {
					k.copy(theRules.moveOf(min(size, 256<<10)), dst, src, min(size, 256<<10))
				}
			})
		}
	}
}
