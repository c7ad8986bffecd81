package agent

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/timeaccount"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// TestTheKernelsCounters reads the counters of this process around a loop, with clocks of the kernel in the place of a
// processor's counters, which a virtual machine may not have.
func TestTheKernelsCounters(t *testing.T) {
	eventType = unix.PERF_TYPE_SOFTWARE
	defer func() { eventType = unix.PERF_TYPE_HARDWARE }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c counters
	c.begin()
	from := wire.Now()
	before := usage(false)
	for n := 0; wire.Now()-from < int64(50*time.Millisecond); n++ {
		if _, err := os.ReadFile("/proc/self/comm"); err != nil {
			t.Fatal(err)
		}
	}
	used := usage(false).minus(before)
	took := wire.Now() - from
	c.end()
	a := timeaccount.Of(timeaccount.Input{OS: runtime.GOOS, ElapsedNS: took, Before: c.before, After: c.after,
		State: map[string]string{"cpu_user_ns": fmt.Sprint(used.user), "cpu_system_ns": fmt.Sprint(used.system)}})
	t.Logf("%+v", *a)
	for name, value := range c.before {
		if strings.HasPrefix(value, "!") {
			t.Logf("%s: %s", name, value)
		}
	}
	for _, name := range []string{record.KernelNS, record.ReadBytes, record.OtherNS, record.AccountNS} {
		if a.Counts[name] < 0 || a.Unmeasured[name] != "" {
			t.Errorf("%s is %d, not measured because %q", name, a.Counts[name], a.Unmeasured[name])
		}
	}
	// The clock of a thread cannot have run longer than the time that was looked at.
	if v, ok := a.Counts[record.InstructionsKernel]; ok && (v < 0 || v > took+int64(time.Second)) {
		t.Errorf("the thread's clock says %d ns of %d", v, took)
	}
	for _, fd := range c.fds {
		if fd >= 0 {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				t.Errorf("file descriptor %d is left behind", fd)
			}
		}
	}
}

// TestTheProcessorsCountersHaveChildren runs a process in between, whose time on a processor has to be in the count.
func TestTheProcessorsCountersHaveChildren(t *testing.T) {
	eventType = unix.PERF_TYPE_SOFTWARE // its second one is the time on a processor, in ns
	defer func() { eventType = unix.PERF_TYPE_HARDWARE }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c counters
	c.begin()
	if why := c.before[record.InstructionsUser]; why != "" {
		c.end()
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("counters cannot be opened here: %s, and TARE_REQUIRE is set", why)
		}
		t.Skipf("counters cannot be opened here: %s", why)
	}
	before, own := usage(true), usage(false)
	from := wire.Now()
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	took := wire.Now() - from
	child, used := usage(true).minus(before), usage(false).minus(own)
	c.end()
	a := timeaccount.Of(timeaccount.Input{OS: runtime.GOOS, ElapsedNS: took, Before: c.before, After: c.after,
		State: map[string]string{"cpu_user_ns": fmt.Sprint(used.user), "cpu_system_ns": fmt.Sprint(used.system),
			"children_cpu_user_ns": fmt.Sprint(child.user), "children_cpu_system_ns": fmt.Sprint(child.system)}})
	if got, want := a.Counts[record.InstructionsUser], child.user+child.system; float64(got) < 0.5*float64(want) ||
		a.Unmeasured[record.InstructionsUser] != "" {
		t.Errorf("%d ns were counted of a child that took %d: %s", got, want, a.Unmeasured[record.InstructionsUser])
	}
}

// BenchmarkAccount is what the account of a trial costs: the readings before and after, and what they are of a trial of
// 0.3 s.
func BenchmarkAccount(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var c counters
	for b.Loop() {
		c.begin()
		c.end()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300e6*100, "%-of-0.3s")
}
