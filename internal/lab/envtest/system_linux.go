package envtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/internal/measure/wire"
)

// process is one row of /proc.
type process struct {
	pid, parent int
	state       string
	cmdline     string // arguments separated by spaces
	agent       bool   // runs the agent's executable
	inner       int    // its process id in its own PID namespace
}

// processes lists the running processes. Zombies of other programs are left out; our own are not.
func processes(agent string) []process {
	exe, _ := os.Stat(agent)
	entries, _ := os.ReadDir("/proc")
	var all []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		dir := "/proc/" + e.Name()
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		p := process{pid: pid, state: fields[0], inner: pid}
		p.parent, _ = strconv.Atoi(fields[1])
		if b, err := os.ReadFile(dir + "/cmdline"); err == nil {
			p.cmdline = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
		}
		if b, err := os.ReadFile(dir + "/status"); err == nil {
			if _, rest, ok := strings.Cut(string(b), "NSpid:"); ok {
				line, _, _ := strings.Cut(rest, "\n")
				if f := strings.Fields(line); len(f) > 0 {
					p.inner, _ = strconv.Atoi(f[len(f)-1])
				}
			}
		}
		if st, err := os.Stat(dir + "/exe"); err == nil && exe != nil {
			p.agent = os.SameFile(st, exe)
		}
		all = append(all, p)
	}
	return all
}

// systemLeaks returns processes, mounts and temporary files of a run whose private directory is dir. An agent of this
// test binary counts as the run's, because the suite's tests run one after another. A killed controller may leave
// directories of package leftover; `tare clean` removes them.
func systemLeaks(t testing.TB, runID, dir, agent string) []string {
	var left []string
	for _, p := range processes(agent) {
		// A controller that will be killed has the run's id only in its environment variables.
		if p.pid != os.Getpid() && p.state != "Z" && (p.agent || strings.Contains(p.cmdline, runID)) {
			left = append(left, fmt.Sprintf("process %d (%s): %s", p.pid, p.state, p.cmdline))
		}
		if p.state == "Z" && p.parent == os.Getpid() {
			left = append(left, fmt.Sprintf("zombie %d", p.pid))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(mounts), "\n") {
		if strings.Contains(line, runID) || strings.Contains(line, dir) {
			left = append(left, "mount "+line)
		}
	}
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm", "/run", os.Getenv("HOME")} {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+runID+"*"))
		for _, f := range found {
			if !strings.HasPrefix(filepath.Base(f), "tare-run-") {
				left = append(left, "file "+f)
			}
		}
	}
	return left
}

// killAgent kills the agent's process. It is a process of this host, but may be in a PID namespace of its own.
func killAgent(t testing.TB, runID, agent string, h wire.Hello) {
	t.Helper()
	for _, p := range processes(agent) {
		if p.inner == h.PID && (p.agent || strings.Contains(p.cmdline, runID)) && p.pid != os.Getpid() {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatalf("kill agent %d: %v", p.pid, err)
			}
			return
		}
	}
	t.Fatalf("there is no process of the run's agent %d on this host", h.PID)
}
