package perf

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is also a process that starts another one, which works.
func TestMain(m *testing.M) {
	switch os.Getenv("TARE_PERF_ROLE") {
	case "parent":
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "TARE_PERF_ROLE=child")
			fmt.Println(cmd.Run())
		}
	case "child":
		for used := time.Duration(0); used < 200*time.Millisecond; used = processorTime() {
			_, _ = os.ReadDir("/proc/self/fd")
		}
	default:
		os.Exit(m.Run())
	}
}

// processorTime is how long this process was on processors.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func open(t *testing.T) *Recorder {
	t.Helper()
	r, err := Open(t.Context())
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("%v, and TARE_REQUIRE is set", err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestRecordsWhatAProcessStarts samples a process whose child, started later, does the work: its stacks are seen, those
// of another time are not, and nothing stays in the user's folder.
func TestRecordsWhatAProcessStarts(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	r := open(t)
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), "TARE_PERF_ROLE=parent")
	in, err := parent.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		parent.Wait()
	}()
	answers := bufio.NewReader(out)
	once := func(from, to func(begun, ended int64) int64) *Profile {
		t.Helper()
		if err := r.Start([]int{parent.Process.Pid}); err != nil {
			t.Fatal(err)
		}
		begun := Now()
		fmt.Fprintln(in, "go")
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "nil") {
			t.Fatal(line, err)
		}
		ended := Now()
		p, err := r.Stop(from(begun, ended), to(begun, ended))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := func(begun, _ int64) int64 { return begun }
	last := func(_, ended int64) int64 { return ended }
	p := once(first, last)
	for tries := 0; p.Samples == 0 && tries < 3; tries++ { // on a busy machine perf may come too late to a processor
		p = once(first, last)
	}
	kernel := false
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			kernel = kernel || f.Kernel
		}
	}
	// It works for 0.2 s on a processor, which are 199 samples.
	if p.Samples < 20 || !kernel {
		t.Errorf("%d samples, of the kernel: %v", p.Samples, kernel)
	}
	if p = once(last, func(_, ended int64) int64 { return ended + 1 }); p.Samples > 2 {
		t.Errorf("%d samples of a time in which nothing was done", p.Samples)
	}
	if left, _ := filepath.Glob(filepath.Join(home, ".*")); len(left) > 0 {
		t.Errorf("perf left %v", left)
	}
}

// TestRecorderEnds: what cannot be sampled is said, and a recorder that is closed, or whose run is over, has no process
// left.
func TestRecorderEnds(t *testing.T) {
	r := open(t)
	if err := r.Start(nil); err == nil {
		t.Error("nothing was sampled, without a word")
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start([]int{gone.ProcessState.Pid()}); err == nil || !strings.Contains(err.Error(), "perf record") {
		t.Errorf("a process that is gone: %v", err)
	}
	if _, err := r.Stop(0, 0); err == nil {
		t.Error("nothing was recorded, and it was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	r2, err := Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := r2.Start([]int{os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	pid := r2.record.Pid()
	cancel()
	if _, err := r2.Stop(0, 0); err == nil {
		t.Log("perf had recorded all before it was stopped")
	}
	r2.Close()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
		t.Errorf("perf (%d) still runs", pid)
	}
}
