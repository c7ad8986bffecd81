package limited

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/sys/cgroup"
	"tare/internal/sys/proc"
)

const (
	roleVar = "TARE_LIMITED_TEST_ROLE"
	runVar  = "TARE_LIMITED_TEST_RUN"
	wait    = 2 * time.Minute // bounds every wait; it is no time in which something should have come
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "doomed": // makes a group with something in it, and is killed
		g, err := open(os.Getenv(runVar), "weight", "64", "quota", "0.5")
		if err != nil {
			panic(err)
		}
		cmd := exec.Command("sleep", "1000")
		cmd.Path, cmd.Args = joined(g, "sleep", "1000")
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		fmt.Println("there", cmd.Process.Pid)
		time.Sleep(wait)
		os.Exit(1)
	case "cleaner": // another user's `tare clean`
		fmt.Println(Clean(true))
		os.Exit(0)
	case "nobody": // asks whether limits can be set
		s := Has(spec("quota", "0.5"), Settings(false))
		fmt.Println(s.OK, s.Detail, s.Remedy)
		_, err := open("nobody", "quota", "0.5")
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func spec(settings ...string) env.Spec {
	s := env.Spec{Name: "box", Driver: "namespace", Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

func open(runID string, settings ...string) (*Group, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	return Open(&env.Options{Spec: spec(settings...), RunID: runID}, Settings(false), dir)
}

// joined are the path and the arguments of a command in a group.
func joined(g *Group, argv ...string) (string, []string) {
	path, err := proc.LookPath(argv[0])
	if err != nil {
		panic(err)
	}
	cmd := &proc.Cmd{Path: path, Args: argv}
	g.Join(cmd)
	return cmd.Path, cmd.Args
}

// own begins the run ids of this process's groups.
var own = fmt.Sprintf("limited-%d-", os.Getpid())

var opened atomic.Int64

// group opens the group of a test, which is gone after it.
func group(t *testing.T, settings ...string) *Group {
	t.Helper()
	envtest.NeedControlGroups(t)
	runID := own + strconv.FormatInt(opened.Add(1), 10)
	g, err := open(runID, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := g.Close(); err != nil {
			t.Errorf("closed again: %v", err)
		}
		if left := cgroup.Find(prefix + runID + "+"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	return g
}

// run runs a shell's script in a group to its end.
func run(t *testing.T, g *Group, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cmd := proc.Command(ctx, "/bin/sh", "-c", script)
	g.Join(cmd)
	out, err := proc.RunCmd(cmd, nil)
	return strings.TrimSpace(string(out)), err
}

// TestQuota: what a busy process and its child get together is a quarter of a processor, whatever else the machine
// does.
func TestQuota(t *testing.T) {
	g := group(t, "quota", "0.25")
	cmd := exec.Command("sh")
	cmd.Path, cmd.Args = joined(g, "sh", "-c", "while :; do :; done & while :; do :; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond)
	used := time.Duration(0)
	for _, pid := range proc.Family(cmd.Process.Pid) {
		if u, err := cpuTime(pid); err == nil {
			used += u
		}
	}
	took := time.Since(began)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	// Without the quota it is one processor on the smallest machine, and two on any other.
	if share := used.Seconds() / took.Seconds(); share > 0.5 {
		t.Errorf("a quota of 0.25 processors gave %.2f", share)
	}
}

// cpuTime is what a process has used, from /proc.
func cpuTime(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0, err
	}
	ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
	return time.Duration(ns), err
}

// TestLimits reads each limit where the kernel applies it.
func TestLimits(t *testing.T) {
	allowed, err := exec.Command("sh", "-c", "grep Cpus_allowed_list /proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.FieldsFunc(strings.Fields(string(allowed))[1], func(r rune) bool {
		return r == ','
	})[0], "-")
	g := group(t, "cpuset", first, "weight", "512", "memory", "32MiB", "quota", "2")
	out, err := run(t, g, "grep Cpus_allowed_list /proc/self/status")
	if err != nil || strings.Fields(out)[1] != first {
		t.Errorf("cpuset=%s: %q, %v", first, out, err)
	}
	if swaps, err := os.ReadFile("/proc/swaps"); err == nil && strings.Count(string(swaps), "\n") < 2 {
		if _, err := run(t, g, "dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null"); err == nil {
			t.Error("a process had 64 MiB of memory=32MiB")
		}
	}
	values := map[string]string{}
	for _, dir := range cgroup.Find(prefix) {
		for _, file := range []string{"cpu.shares", "cpu.weight", "memory.limit_in_bytes", "memory.max"} {
			if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil &&
				strings.Contains(dir, "+"+own) {
				values[file] = strings.TrimSpace(string(b))
			}
		}
	}
	if values["cpu.shares"] != "512" && values["cpu.weight"] != "50" {
		t.Errorf("weight=512: %v", values)
	}
	if values["memory.limit_in_bytes"] != "33554432" && values["memory.max"] != "33554432" {
		t.Errorf("memory=32MiB: %v", values)
	}
	if f := g.Facts(); f["cgroup.cpus"] != "1" {
		t.Errorf("facts %v", f)
	}
}

// TestFacts: the smaller of quota and list is the number of processors.
func TestFacts(t *testing.T) {
	for want, l := range map[string]cgroup.Limits{"": {Weight: 100}, "0.5": {Quota: 0.5, CPUs: "0-1"},
		"2": {CPUs: "0-1,1"}, "1": {Quota: 1.5, CPUs: "3"}, "1.5": {Quota: 1.5}} {
		if f := (&Group{nil, l}).Facts(); f["cgroup.cpus"] != want {
			t.Errorf("%+v: %v", l, f)
		}
	}
	if f := (*Group)(nil).Facts(); f != nil {
		t.Errorf("without a group: %v", f)
	}
}

// TestThrottle: what passes to the disk takes as long as the rate says, whatever the disk can do.
func TestThrottle(t *testing.T) {
	dir, err := os.MkdirTemp(".", "throttle-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if _, err := cgroup.DiskBelow(dir); err != nil {
		t.Skip("the file system of this folder does not tell its disk")
	}
	file := filepath.Join(dir, "file")
	write := "dd if=/dev/zero of=" + file + " bs=64K count=40 oflag=direct conv=notrunc 2>&1"
	free := group(t, "write_bps", "1GiB")
	if out, err := run(t, free, write); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	held := group(t, "write_bps", "1MiB")
	began := time.Now()
	if out, err := run(t, held, write); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// 2.5 MiB at 1 MiB a second, of which the kernel lets a part pass at once.
	if took := time.Since(began); took < 1200*time.Millisecond {
		t.Errorf("2.5 MiB took %v at 1 MiB a second", took)
	}
}

// TestKilled: what a killed run leaves is found, told, and removed with what still runs in it; what lives is left
// alone.
func TestKilled(t *testing.T) {
	mine := group(t, "weight", "100")
	runID, sleeper := own+"doomed", 0
	list := func(dry bool) (lines []string) {
		t.Helper()
		all, err := Clean(dry)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			if strings.HasSuffix(l, " of run "+runID) {
				lines = append(lines, l)
			} else if strings.Contains(l, "+"+own) {
				t.Errorf("a living run's: %s", l)
			}
		}
		return lines
	}
	doomed := func() (left []string) {
		t.Helper()
		d := envtest.Doom(t, wait, []string{roleVar + "=doomed", runVar + "=" + runID}, func(line string) bool {
			_, err := fmt.Sscanf(line, "there %d", &sleeper)
			return err == nil
		})
		if lines := list(true); len(lines) > 0 {
			t.Errorf("left over while its run lives: %v", lines)
		}
		d.Kill(t)
		return list(true)
	}
	left := doomed()
	for range 2 { // another test's `tare clean` on this machine may have been faster
		if len(cgroup.Find(prefix+runID+"+")) > 0 {
			break
		}
		left = doomed()
	}
	if len(left) != 1 || !strings.HasPrefix(left[0], "control group /") {
		t.Errorf("left over: %v", left)
	}
	if out := asNobody(t, "cleaner"); strings.Contains(out, runID) {
		t.Errorf("another user, who cannot remove it, finds: %s", out)
	}
	for _, dir := range cgroup.Find(prefix + runID + "+") {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	if lines := list(true); !slices.Equal(lines, left) {
		t.Errorf("of another user's, root finds: %v, want %v", lines, left)
	}
	if err := syscall.Kill(sleeper, 0); err != nil {
		t.Errorf("a look ended what runs there: %v", err)
	}
	if lines := list(false); !slices.Equal(lines, left) {
		t.Errorf("removed: %v, want %v", lines, left)
	}
	if lines := list(true); len(lines) > 0 {
		t.Errorf("still there: %v", lines)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", sleeper))
	if err == nil && strings.Contains(string(b), "1000") {
		t.Error("what ran in it still runs")
	}
	if _, err := run(t, mine, "true"); err != nil {
		t.Errorf("the living run's group: %v", err)
	}
}

// TestRefused: what cannot be limited is said before anything is made.
func TestRefused(t *testing.T) {
	envtest.NeedControlGroups(t)
	runID := own + "refused"
	for says, settings := range map[string][]string{
		"1023":                   {"cpuset", "1023"},
		"/dev/nowhere":           {"read_bps", "/dev/nowhere:1MiB"},
		"/dev/null is no block ": {"write_iops", "/dev/null:5"},
	} {
		if g, err := open(runID, settings...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", settings, err, says)
			_ = g.Close()
		}
	}
	for _, settings := range [][]string{nil, {"quota", "none", "cpuset", "all", "read_bps", "none"}} {
		if g, err := open(runID, settings...); g != nil || err != nil {
			t.Errorf("%v makes a group: %v", settings, err)
		}
	}
	if left := cgroup.Find(prefix + runID + "+"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	out := asNobody(t, "nobody")
	if !strings.HasPrefix(out, "false control groups cannot be made in /") ||
		strings.Count(out, "control groups cannot be made") != 2 || !strings.Contains(out, "root") {
		t.Error(out)
	}
}

// asNobody runs this program in a role as an ordinary user.
func asNobody(t *testing.T, role string) string {
	t.Helper()
	exe, err := os.MkdirTemp("/var/tmp", "tare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(exe) })
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(exe, "test"), b, 0o755), os.Chmod(exe, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(exe, "test"))
	cmd.Dir, cmd.Env = "/", []string{roleVar + "=" + role, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"tare+run", "tare+a+b+c+d", "docker", "tare+run+" + scope() + "+x y+1",
		"tare+.." + "+" + scope() + "+1+2", "tare+run+elsewhere+999999999+1"} {
		if run, ok := abandoned("/sys/fs/cgroup/cpu/" + bad); ok {
			t.Errorf("%s is of run %q", bad, run)
		}
	}
	if run, ok := abandoned("/x/tare+my-run+" + scope() + "+999999999+1"); !ok || run != "my-run" {
		t.Errorf("%q, %v", run, ok)
	}
}
