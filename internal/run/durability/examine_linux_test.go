//go:build amd64 || arm64

package durability

import (
	"os"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/record"
)

// TestExamine tries flushes in real machines: QEMU passes them on in one and ignores them in the other.
func TestExamine(t *testing.T) {
	for cache, want := range map[string]struct{ verdict, class string }{
		"writeback": {record.Propagated, ClassFlushes},
		"unsafe":    {record.Untested, ClassIgnores},
	} {
		t.Run(cache, func(t *testing.T) {
			watcher(t) // a machine is not booted where nothing can be seen
			o := vmOptions(t, cache)
			v, s := opened(t, o.Info.Driver,
				env.Options{Spec: o.Spec, RunID: o.RunID, Dir: o.Dir, Agents: o.Agents, Log: o.Log})
			e := record.Environment{Target: record.Target{Outside: v.Facts()}}
			var err error
			if e.Inside, err = s.Facts(t.Context()); err != nil {
				t.Fatal(err)
			}
			image := Image(&e)
			if _, err := os.Stat(image); err != nil {
				t.Fatalf("the image is not found in QEMU's command line: %v", err)
			}
			tests, err := Examine(t.Context(), Subject{Worker: s, Image: image})
			if err != nil {
				t.Fatal(err)
			}
			declared := Declared("qemu", &e)
			d := Conclude(declared, tests, InMemory(image))
			t.Logf("%+v", d)
			if InMemory(image) != "" && cache == "writeback" {
				want.class = ClassMemory
			}
			if d.Verdict != want.verdict || d.Class != want.class || (len(d.Settings) > 0) != (cache == "unsafe") {
				t.Errorf("declared %+v, concluded %+v", declared, d)
			}
			watched := tests[0]
			if asked := watchedMany - watchedFew; watched.Asked != asked ||
				cache == "unsafe" && watched.Seen > asked/8 || cache == "writeback" && watched.Seen < asked {
				t.Errorf("%+v", watched)
			}
			if cost := tests[1]; cost.Inside <= 0 || cost.Host <= 0 {
				t.Errorf("%+v", cost)
			}
		})
	}
}
