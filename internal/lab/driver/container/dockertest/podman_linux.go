package dockertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/internal/sys/proc"
)

// Podman gives the test a separate Podman store, through environment variables that Podman reads, and removes it
// afterwards. Limits that this machine does not allow are set to what it allows, as a user would have to do.
func Podman(t *testing.T) {
	t.Helper()
	need(t, "podman", "conmon")
	runtime := "crun"
	if _, err := proc.LookPath("runc"); err == nil {
		runtime = "runc" // crun fails on machines that mix cgroup v1 and v2; runc works with both
	}
	dir, err := os.MkdirTemp("", "tare-podman-")
	if err != nil {
		t.Fatal(err)
	}
	var nofile, nproc syscall.Rlimit
	const rlimitNproc = 6 // RLIMIT_NPROC, which package syscall lacks
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &nofile); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Getrlimit(rlimitNproc, &nproc); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	// static_dir keeps its default, below the store. When a container ends, Podman's monitor runs a process that does
	// not get another static_dir. That process would not find the container, and Podman would wait 20 s for it.
	t.Setenv("CONTAINERS_CONF", write("containers.conf", fmt.Sprintf(`[containers]
default_ulimits = ["nofile=%d:%d", "nproc=%d:%d"]
[engine]
runtime = %q
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = %q
[network]
network_config_dir = %q
`, min(nofile.Max, 1024), min(nofile.Max, 1024), min(nproc.Max, 4096), min(nproc.Max, 4096), runtime,
		dir+"/tmp", dir+"/net")))
	t.Setenv("CONTAINERS_STORAGE_CONF", write("storage.conf",
		fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", dir+"/root", dir+"/run")))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		if _, err := proc.Run(ctx, nil, "podman", "rm", "--all", "--force", "--time", "0"); err != nil {
			t.Errorf("remove podman's containers: %v", err)
		}
		unmountBelow(dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove podman's store: %v", err)
		}
	})
}

// unmountBelow detaches all mounts below dir; Podman bind-mounts its storage onto itself.
func unmountBelow(dir string) {
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			syscall.Unmount(f[1], syscall.MNT_DETACH)
		}
	}
}
