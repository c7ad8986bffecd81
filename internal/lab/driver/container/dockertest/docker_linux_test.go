package dockertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDaemonRunsContainersAndLeavesNothing(t *testing.T) {
	d := start(t)
	closed := false
	t.Cleanup(func() {
		if !closed {
			d.Close()
		}
	})
	Import(t, d.Client(), "box", Busybox(t))
	if got := run(t, nil, append(d.Client(), "run", "--rm", "--entrypoint", "/bin/sh", "box", "-c",
		"echo $((6*7))")...); got != "42" {
		t.Fatalf("container said %q, want 42", got)
	}
	run(t, nil, append(d.Client(), "run", "--detach", "--entrypoint", "/bin/sleep", "box", "1000")...)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	closed = true
	if _, err := os.Stat(d.dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.dir, err)
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/" + d.cgroup); len(groups) > 0 {
		t.Errorf("cgroups are still there: %v", groups)
	}
	if left := mountsBelow(t, d.dir); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
}

func TestDaemonSurvivesBeingKilledAndRunAgain(t *testing.T) {
	d := New(t)
	Import(t, d.Client(), "box", Busybox(t))
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	t.Logf("dockerd answers %v after its start", time.Since(began).Round(time.Millisecond))
	if got := run(t, nil, append(d.Client(), "images", "--quiet", "box")...); got == "" {
		t.Error("the image was lost")
	}
}

func TestPodman(t *testing.T) {
	Podman(t)
	Import(t, []string{"podman"}, "box", Busybox(t))
	if got := run(t, nil, "podman", "run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", "box", "-c",
		"echo $((6*7))"); got != "42" {
		t.Fatalf("container said %q, want 42", got)
	}
}

func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			found = append(found, line)
		}
	}
	return found
}
