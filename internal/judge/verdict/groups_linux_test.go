package verdict

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/record"
)

// TestGroupsAreBounded: what a hostile bundle may make a look cost.
func TestGroupsAreBounded(t *testing.T) {
	var many []record.Group
	for i := range 20 * record.MaxGroups {
		many = append(many, record.Group{ID: fmt.Sprint(i), Text: "x", Count: 20, P50: 1, Seconds: 20})
	}
	w := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.01}
	w.change = func(tr *record.Trial) { tr.Groups = many }
	if n := len(grouped(t, w.evaluate(), "vm").Groups); n != record.MaxGroups+1 {
		t.Errorf("%d groups", n)
	}
	// By the processor time of this thread: on a busy machine the longer one waits for its turn more often.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	look := func(groups int) (fastest time.Duration) {
		w := world{plan: testPlan("cpu.prime"), blocks: 30, noise: 0.01, change: statements(1, groups, 0.01, nil)}
		in := w.input()
		fastest = time.Hour
		for range 5 {
			began := used()
			Evaluate(in)
			fastest = min(fastest, used()-began)
		}
		return fastest
	}
	few, all := look(50), look(record.MaxGroups)
	t.Logf("a look at 2 candidates and 30 blocks: %v with 50 groups, %v with %d", few, all, record.MaxGroups)
	// In proportion it would be 8 times; in proportion to the square 64.
	if ratio := float64(all) / float64(few); ratio > 4*record.MaxGroups/50 {
		t.Errorf("%.1f times as long", ratio)
	}
}
