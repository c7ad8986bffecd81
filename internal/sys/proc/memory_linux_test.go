package proc

import (
	"os"
	"strings"
	"testing"
)

// This process maps its program, which others of it may share, so that less is proportional than resident.
func TestMemoryOfThisProcess(t *testing.T) {
	rss, pss, err := Memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if rss < 1<<20 || pss < 0 || pss > rss {
		t.Errorf("resident %d, proportional %d", rss, pss)
	}
	if _, _, err := Memory(1 << 30); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

const rollup = `559ee4a00000-7ffd0a1fe000 ---p 00000000 00:00 0                          [rollup]
Rss:                3456 kB
Pss:                1234 kB
Pss_Dirty:           900 kB
Shared_Clean:       2000 kB
`

func TestParseRollup(t *testing.T) {
	if rss, pss, err := parseRollup(strings.NewReader(rollup)); rss != 3456<<10 || pss != 1234<<10 || err != nil {
		t.Errorf("%d, %d, %v", rss, pss, err)
	}
	for _, bad := range []string{"Rss: x kB\n", "Rss: -1 kB\n", "Pss: 12 MB\n", "Rss: 9999999999999999 kB\n"} {
		if _, _, err := parseRollup(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseRollup(f *testing.F) {
	f.Add(rollup)
	f.Fuzz(func(t *testing.T, text string) {
		rss, pss, err := parseRollup(strings.NewReader(text))
		if rss < 0 || pss < 0 || err != nil && (rss != 0 || pss != 0) {
			t.Errorf("%d, %d, %v", rss, pss, err)
		}
	})
}
