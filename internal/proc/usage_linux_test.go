package proc

import (
	"os"
	"testing"
	"time"
)

func TestUsageOfThisProcess(t *testing.T) {
	before, rss, err := Usage(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Fatalf("%v %d %v", before, rss, err)
	}
	for began := time.Now(); time.Since(began) < 200*time.Millisecond; {
	}
	after, _, err := Usage(os.Getpid())
	if err != nil || after <= before || after-before > 10*time.Second {
		t.Errorf("200 ms of work took %v, %v", after-before, err)
	}
	if _, _, err := Usage(1 << 30); err == nil {
		t.Error("a process that is not there has a usage")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12")
	f.Add("")
	f.Add(")")
	f.Fuzz(func(t *testing.T, text string) {
		if cpu, rss, err := parseStat(text); err == nil && (cpu < 0 && rss < 0) {
			t.Errorf("%q gives %v %d", text, cpu, rss)
		}
	})
}
