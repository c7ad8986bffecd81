//go:build linux && (amd64 || arm64 || riscv64)

package syscalls

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload/trialtest"
)

func TestAllOperations(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "syscall")
	b := trialtest.Run(t, kind, nil, 3)
	m := b.Metrics
	// Only what cannot be otherwise: each of these is a null call and something more, on any kernel.
	for name, ns := range map[string]float64{
		"switch_ns": m["switch_ns"], "forkexec_us": 1000 * m["forkexec_us"], "mmap_ns": m["mmap_ns"],
	} {
		if !(ns > m["null_ns"]) {
			t.Errorf("%s says %.0f ns, a null system call takes %.0f ns", name, ns, m["null_ns"])
		}
	}
	if !(1000*m["forkexec_us"] > m["switch_ns"]) {
		t.Errorf("fork and exec take %.1f us, a switch of processes %.0f ns", m["forkexec_us"], m["switch_ns"])
	}
	for name := range m {
		if len(b.Samples[name]) != 3 {
			t.Errorf("%s: %d samples, want one a round", name, len(b.Samples[name]))
		}
	}
	if f, err := strconv.ParseFloat(b.State["faults_per_first_write"], 64); err != nil || f < 0.99 || f > 1.1 {
		t.Errorf("%q page faults for each first write, want one", b.State["faults_per_first_write"])
	}
	if left, _ := os.ReadDir(b.Dir); len(left) != 0 {
		t.Errorf("%v is left in the work directory", left)
	}
	t.Logf("%v %v", m, b.State)
}

func TestEachOperationAlone(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "syscall")
	for _, o := range opTable() {
		given := map[string]string{"op": o.name}
		b := trialtest.Run(t, kind, given, 1)
		p, _ := kind.Resolve(given)
		if len(b.Metrics) != 1 || kind.Primary(p).Name != o.metric.Name {
			t.Errorf("op=%s reports %v, primary %s", o.name, b.Metrics, kind.Primary(p).Name)
		}
	}
}

func TestCountsFitTheOperations(t *testing.T) {
	for _, o := range opTable() {
		switch o.name {
		case "switch":
			if o.count%2 != 0 {
				t.Errorf("switch: %d is not a whole number of round trips", o.count)
			}
		case "fault":
			if o.count%faultPages != 0 {
				t.Errorf("fault: %d is not a whole number of mappings", o.count)
			}
		}
	}
}

// The kernel's own count is the judge of whether the other process really takes turns with this one.
func TestSwitchSwitches(t *testing.T) {
	runtime.LockOSThread() // not unlocked: the binding ends with the thread
	var one unix.CPUSet
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if all.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	o := &pipeSwitch{trips: 500}
	defer func() {
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := o.prepare(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	var theirs unix.CPUSet
	if err := unix.SchedGetaffinity(o.pid, &theirs); err != nil || theirs != one {
		t.Errorf("the other process may run on %d processors (%v), want this one's only", theirs.Count(), err)
	}
	if _, err := o.round(); err != nil {
		t.Fatal(err)
	}
	if perTrip := float64(o.switches) / float64(o.done); perTrip < 0.95 || perTrip > 1.2 {
		t.Errorf("this thread was switched out %.2f times a round trip, want once", perTrip)
	}
}

func TestOtherProcessGone(t *testing.T) {
	o := &pipeSwitch{trips: 10}
	if err := o.prepare(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(o.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// Until the kernel has closed the dead process's pipe ends, a round could still begin: wait for that.
	if err := unix.Waitid(unix.P_PID, o.pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := o.round(); err == nil {
		t.Error("the other process was killed, and the round gave no error")
	}
	if err := o.close(); err == nil || !strings.Contains(err.Error(), "instead of exit code 0") {
		t.Errorf("close says %v, want how the process ended", err)
	}
}

func TestNoexecWorkDirectory(t *testing.T) {
	dir := t.TempDir()
	err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, "size=1m")
	if errors.Is(err, unix.EPERM) && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip("mounting a noexec file system needs root")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	for _, op := range []operation{&forkExec{count: 1}, &pipeSwitch{trips: 1}} {
		err := op.prepare(dir)
		if err == nil {
			_, err = op.round()
		}
		if err == nil || !strings.Contains(err.Error(), "noexec") {
			t.Errorf("%T in a noexec directory gave %v", op, err)
		}
		if err := op.close(); err != nil {
			t.Errorf("%T: close after failure: %v", op, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
		t.Errorf("%v is left behind", left)
	}
}

func TestProgramDoesWhatItSays(t *testing.T) {
	var s spawnable
	if err := s.write(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(s.path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	pid, err := s.start([]string{"p"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := wait(pid); err != nil {
		t.Error(err)
	}
	var down, up [2]int
	if err := unix.Pipe2(down[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := unix.Pipe2(up[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	pid, err = s.start([]string{"p", "echo"}, []uintptr{uintptr(down[0]), uintptr(up[1])})
	unix.Close(down[0])
	unix.Close(up[1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(down[1], []byte("tare")); err != nil {
		t.Fatal(err)
	}
	unix.Close(down[1])
	in := os.NewFile(uintptr(up[0]), "echo")
	defer in.Close()
	got := make([]byte, 8)
	n := 0
	for n < len(got) {
		m, err := in.Read(got[n:])
		n += m
		if err != nil {
			break
		}
	}
	if string(got[:n]) != "tare" {
		t.Errorf("the program echoes %q", got[:n])
	}
	if err := wait(pid); err != nil {
		t.Error(err)
	}
	if err := s.remove(); err != nil {
		t.Error(err)
	}
}

func TestCleanupWithoutSetup(t *testing.T) {
	kind := trialtest.Named(t, Kinds(), "syscall")
	p, err := kind.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	trial, err := kind.New(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := trial.Cleanup(nil); err != nil {
		t.Error(err)
	}
}
