package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
)

// opened opens the host with settings and returns the facts from inside, and the agent's /proc/PID/FILE.
func opened(t *testing.T, file string, settings map[string]string) (threads int, text string) {
	t.Helper()
	o := env.Options{Spec: env.Spec{Name: "host", Driver: "local", Settings: settings}, RunID: "local-settings",
		Dir: t.TempDir(), Agents: agenttest.Store(t)}
	e, err := Driver{}.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := deploy.Attach(t.Context(), e, o.RunID)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.Hello().PID), file))
	if err != nil {
		t.Fatal(err)
	}
	if dir := settings["dir"]; dir != "" && filepath.Dir(filepath.Dir(f.WorkDir)) != dir &&
		filepath.Dir(f.WorkDir) != dir {
		t.Errorf("the agent works in %s, not below %s", f.WorkDir, dir)
	}
	return f.Threads, string(b)
}

func TestCPUs(t *testing.T) {
	threads, status := opened(t, "status", map[string]string{"cpus": "0"})
	if threads != 1 || !strings.Contains(status, "Cpus_allowed_list:\t0\n") {
		t.Errorf("the agent may use %d threads: %s", threads, status)
	}
}

func TestNice(t *testing.T) {
	_, stat := opened(t, "stat", map[string]string{"nice": "3"})
	// Field 19, counted from the name in parentheses.
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	own = 20 - own // the system call returns 20 minus the niceness
	if f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]); f[16] != strconv.Itoa(min(own+3, 19)) {
		t.Errorf("niceness %s, and the test's own is %d", f[16], own)
	}
}

func TestDirIsLeftAsItWas(t *testing.T) {
	dir := t.TempDir()
	opened(t, "stat", map[string]string{"dir": dir})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}
