package proc

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestThreadTimes(t *testing.T) {
	sum := func() (all time.Duration) {
		times, err := ThreadTimes(os.Getpid())
		if err != nil || len(times) == 0 {
			t.Fatal(times, err)
		}
		for _, d := range times {
			all += d
		}
		return all
	}
	before := sum()
	after := before
	for end := time.Now().Add(patience); after <= before && time.Now().Before(end); after = sum() {
		for part := time.Now(); time.Since(part) < 20*time.Millisecond; {
		}
	}
	if after <= before {
		t.Errorf("threads that worked used %v before and %v after", before, after)
	}
	// A thread has its own name and its own time.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	me := unix.Gettid()
	old, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", me))
	if err != nil {
		t.Fatal(err)
	}
	name := func(to string) {
		if err := os.WriteFile(fmt.Sprintf("/proc/self/task/%d/comm", me), []byte(to), 0); err != nil {
			t.Fatal(err)
		}
	}
	name("vhost-1")
	defer name(strings.TrimSpace(string(old)))
	if times, err := ThreadTimes(os.Getpid()); err != nil || times[Thread{me, "vhost-1"}] <= 0 {
		t.Errorf("the thread %d is not among %v, %v", me, times, err)
	}
	if _, err := ThreadTimes(1 << 30); err == nil {
		t.Error("a process that there is not has threads")
	}
}
