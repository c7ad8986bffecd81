package memory

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/thread"
)

func TestChainIsOneCycleThroughEveryLine(t *testing.T) {
	for _, stride := range []int{64, 128} {
		for _, size := range []int{256, 1 << 10, 16 << 10, 1 << 20, 1<<20 + 128} {
			buf, err := thread.Alloc(int64(size), thread.HugeAuto)
			if err != nil {
				t.Fatal(err)
			}
			n := link(buf.Bytes, stride, 1)
			if n != size/stride {
				t.Errorf("%d bytes, stride %d: %d nodes, want %d", size, stride, n, size/stride)
			}
			visited := map[*node]bool{}
			p := nodeAt(buf.Bytes, 0)
			for range n {
				visited[p] = true
				p = p.next
			}
			if p != nodeAt(buf.Bytes, 0) || len(visited) != n {
				t.Errorf("%d bytes, stride %d: %d of %d lines visited, back at the start: %t", size, stride,
					len(visited), n, p == nodeAt(buf.Bytes, 0))
			}
			if got := cycle(p, n); got != n {
				t.Errorf("cycle finds %d nodes, want %d", got, n)
			}
			if err := buf.Free(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestChaseCountsLoads(t *testing.T) {
	buf, err := thread.Alloc(4096, thread.HugeAuto)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	n := link(buf.Bytes, 64, 3)
	start := nodeAt(buf.Bytes, 0)
	want := start
	for loads := range 2 * n {
		if got := chase(start, loads); got != want {
			t.Fatalf("chase of %d loads went elsewhere", loads)
		}
		want = want.next
	}
}

func TestBrokenChainIsFound(t *testing.T) {
	buf, err := thread.Alloc(4096, thread.HugeAuto)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Free()
	n := link(buf.Bytes, 64, 3)
	p := nodeAt(buf.Bytes, 0)
	p.next.next = p // closes too early
	if got := cycle(p, n); got != 2 {
		t.Errorf("a chain that closes after 2 of %d loads is seen to close after %d", n, got)
	}
}

func TestSameSeedSameOrder(t *testing.T) {
	order := func(seed uint64) []int {
		memory := make([]byte, 64<<10)
		n := link(memory, 64, seed)
		var o []int
		base := nodeAt(memory, 0)
		for p, i := base, 0; i < n; p, i = p.next, i+1 {
			o = append(o, offset(base, p))
		}
		return o
	}
	if !slices.Equal(order(5), order(5)) {
		t.Error("two chains of one seed differ: targets would not do the same work")
	}
	if slices.Equal(order(5), order(6)) {
		t.Error("the seed does not change the chain")
	}
}

func TestLatencyTrial(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.latency")
	// 32 MiB of 4 KiB pages do not fit any first-level cache or TLB, 4 KiB fits all of them: so the order is certain,
	// the figures are not.
	b := trialtest.Run(t, kind, map[string]string{"sizes": "4KiB+32MiB", "hugepages": "off"}, 2)
	near, far := b.Metrics["latency_4KiB_ns"], b.Metrics["latency_32MiB_ns"]
	if !(far > 2*near) {
		t.Errorf("a load from 32 MiB takes %.2f ns, from 4 KiB %.2f ns; want the first to be far slower", far, near)
	}
	if b.Checks["nodes_4KiB"] != "64" || b.Checks["nodes_32MiB"] != "524288" {
		t.Errorf("checks %v", b.Checks)
	}
	if b.State["huge_pages_32MiB"] != "0%" {
		t.Errorf("huge pages were forbidden, and the state is %v", b.State)
	}
	if n := len(b.Samples["latency_4KiB_ns"]); n != 2 {
		t.Errorf("%d samples, want one a round", n)
	}
}

func TestLatencyMetrics(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.latency")
	p, err := kind.Resolve(map[string]string{"sizes": "8KiB, 1MiB"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range kind.MetricsFor(p) {
		names = append(names, m.Name)
	}
	if !slices.Equal(names, []string{"latency_8KiB_ns", "latency_1MiB_ns"}) ||
		kind.Primary(p).Name != "latency_1MiB_ns" {
		t.Errorf("metrics %v, primary %s", names, kind.Primary(p).Name)
	}
}

func TestSizes(t *testing.T) {
	got, err := parseSizes("16KiB,256KiB+4MiB")
	if err != nil || !slices.Equal(got, []int64{16 << 10, 256 << 10, 4 << 20}) {
		t.Errorf("parseSizes = %v, %v", got, err)
	}
	for text, says := range map[string]string{
		"":                          "has no size",
		",+ ":                       "has no size",
		"16XiB":                     "not a size",
		"100":                       "between 1KiB and 128GiB",
		"1PiB":                      "between 1KiB and 128GiB",
		"1025":                      "multiple of 128",
		"4MiB,4MiB":                 "ascending",
		"4MiB,1MiB":                 "ascending",
		strings.Repeat("1KiB+", 17): "at most 16",
	} {
		if _, err := parseSizes(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("parseSizes(%q) gave %v, want an error with %q", text, err, says)
		}
	}
}

func TestLatencyRefuses(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "memory.latency")
	for _, c := range []struct {
		given map[string]string
		says  string
	}{
		{map[string]string{"sizes": "4MiB,1MiB"}, "ascending"},
		{map[string]string{"stride": "63"}, "not one of 64, 128"},
	} {
		if _, err := trialtest.Try(t, kind, c.given, 1); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v gave %v, want an error with %q", c.given, err, c.says)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{defaultSizes, "16KiB+1GiB", "1KiB", "", "9e9", "1.5MiB,2MiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sizes, err := parseSizes(text)
		if err != nil {
			return
		}
		if len(sizes) == 0 || len(sizes) > maxSizes || !slices.IsSorted(sizes) || sizes[0] < minSize ||
			sizes[len(sizes)-1] > maxSize {
			t.Errorf("%q gives %v", text, sizes)
		}
	})
}

func offset(base, p *node) int {
	return int(uintptr(unsafe.Pointer(p)) - uintptr(unsafe.Pointer(base)))
}
