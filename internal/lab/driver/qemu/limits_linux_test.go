package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/envtest"
	"tare/internal/lab/microvm"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/sys/cgroup"
	"tare/internal/sys/proc"
)

// TestLimitedMachine: all threads of QEMU, those of the processors and of the disk, are in the machine's control group,
// two busy virtual processors get what its quota says, and the group goes with the machine.
func TestLimitedMachine(t *testing.T) {
	envtest.NeedControlGroups(t)
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "cpus", "2", "memory", "256MiB", "disk", "64MiB", "quota",
		"1", "weight", "512"))
	if _, err := cgroup.DiskBelow(o.Dir); err == nil {
		o.Settings["write_iops"] = "10000"
	}
	v, s := open(t, driver{}, o)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/cgroup", v.Pid()))
	if err != nil || len(tasks) < 3 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, name := range tasks {
		if b, err := os.ReadFile(name); err == nil && !strings.Contains(string(b), "/tare+"+o.RunID+"+") {
			t.Errorf("%s is in none of its groups:\n%s", name, b)
		}
	}
	kind, _ := all.Lookup("cpu.prime")
	params, err := kind.Resolve(map[string]string{"threads": "2"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	before, began := used(t, v.Pid()), time.Now()
	job := wire.Job{Kind: kind.Name, Params: params, Cell: "c"}
	if _, err := s.Run(ctx, wire.Run{Job: job, Work: 300}); err != nil {
		t.Fatal(err)
	}
	spent, took := used(t, v.Pid())-before, time.Since(began)
	// Without the quota it is two processors where there are two.
	if share := spent.Seconds() / took.Seconds(); share > 1.3 || spent < 100*time.Millisecond {
		t.Errorf("a quota of one processor gave %.2f, %v in %v", share, spent, took)
	}
	f := v.Facts()
	if f.Extra["cgroup.cpus"] != "1" || f.Settings["weight"] != "512" || f.Settings["cpuset"] != "all" ||
		!strings.HasSuffix(f.Command[0], "qemu-system-x86_64") {
		t.Errorf("%+v", f)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if left := cgroup.Find("tare+" + o.RunID + "+"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// used is the processor time of a process.
func used(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	threads, err := proc.ThreadTimes(pid)
	if err != nil || len(threads) == 0 {
		t.Fatalf("%s (%d) has no threads: %v", proc.Name(pid), pid, err)
	}
	for _, ran := range threads {
		sum += ran
	}
	return sum
}

// TestLimitThatCannotBe: the machine does not open, says why, and leaves nothing.
func TestLimitThatCannotBe(t *testing.T) {
	envtest.NeedControlGroups(t)
	needBeside(t, "amd64", microvm.Cloud)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "write_bps", "/dev/nowhere:1MiB", "weight", "5"))
	if x := fails(t, driver{}, o); x.Op != "set limits" || !strings.Contains(x.Err.Error(), "/dev/nowhere") {
		t.Errorf("%+v", x)
	}
	if left := cgroup.Find("tare+" + o.RunID + "+"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
