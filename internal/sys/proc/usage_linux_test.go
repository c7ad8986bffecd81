package proc

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

func TestUsageOfThisProcess(t *testing.T) {
	before, rss, err := Usage(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Fatalf("%v %d %v", before, rss, err)
	}
	// On a busy machine this process may get no tick of the processor in any given time.
	after := before
	began := time.Now()
	for end := began.Add(patience); err == nil && after <= before && time.Now().Before(end); {
		for part := time.Now(); time.Since(part) < 50*time.Millisecond; {
		}
		after, _, err = Usage(os.Getpid())
	}
	took := time.Since(began)
	if most := time.Duration(runtime.NumCPU())*took + 10*Tick; err != nil || after <= before || after-before > most {
		t.Errorf("%v of work took %v, %v", took, after-before, err)
	}
	if _, _, err := Usage(1 << 30); err == nil {
		t.Error("a process that is not there has a usage")
	}
}

// TestFamilyCPUTime: a child counts while it runs and when it has ended.
func TestFamilyCPUTime(t *testing.T) {
	const count = `(i=0; while [ $i -lt %d ]; do i=$((i+1)); done)`
	s, err := Start(Command(t.Context(), "sh", "-c", fmt.Sprintf(count+"; echo; "+count+" & wait", 300_000, 1<<40)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	if _, err := s.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	own, _ := CPUTime(s.Pid())
	all, err := FamilyCPUTime(s.Pid())
	if err != nil || all < own+Tick {
		t.Errorf("with a child that has ended: %v of %v, %v", all-own, all, err)
	}
	for end, before := time.Now().Add(patience), all; all < before+5*Tick; {
		if all, err = FamilyCPUTime(s.Pid()); err != nil || time.Now().After(end) {
			t.Fatalf("with a child that runs: %v more, %v", all-before, err)
		}
		time.Sleep(Tick)
	}
	if _, err := FamilyCPUTime(1 << 30); err == nil {
		t.Error("a process that is not there has a CPU time")
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9 10 11 12")
	f.Add("")
	f.Add(")")
	// Numbers of which the sum, or the product with what they count, is beyond an int64.
	f.Add("1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 9223372036854775807 9223372036854775807 7 8 20 0 1 0 9 10 11 12")
	f.Add("1 (a) S 0 1 1 0 -1 4194560 1 2 3 4 1 1 7 8 20 0 1 0 9 10 9223372036854775807 12")
	f.Fuzz(func(t *testing.T, text string) {
		if cpu, rss, err := parseStat(text); err == nil && (cpu < 0 || rss < 0) {
			t.Errorf("%q gives %v %d", text, cpu, rss)
		}
	})
}
