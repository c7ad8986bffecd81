package dockertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/nstest"
	"tare/internal/sys/proc"
)

// Daemon is a Docker daemon for tests.
type Daemon struct {
	Host string // value for DOCKER_HOST or --host

	dir    string
	cgroup string // the parent of its containers' cgroups
	space  *nstest.Space
	daemon *proc.Stream
}

// Client is the argv prefix for commands to the daemon.
func (d *Daemon) Client() []string { return []string{"docker", "--host", d.Host} }

var daemons = nstest.Daemons[*Daemon]{Name: "dockerd", Start: start}

// Share lets all tests of a package use one daemon, which stop ends:
//
//	func TestMain(m *testing.M) {
//		stop := dockertest.Share()
//		defer stop()
//		m.Run()
//	}
func Share() (stop func()) { return daemons.Share() }

// Start returns the host of a running daemon. If TestMain called Share, all tests of the package share it; otherwise it
// ends with the test.
func Start(t testing.TB) string { return Shared(t).Host }

// Shared is Start for tests that need the client, too.
func Shared(t testing.TB) *Daemon {
	t.Helper()
	return daemons.Shared(t)
}

// New returns a running daemon that ends with the test. It is for tests that kill the daemon.
func New(t testing.TB) *Daemon {
	t.Helper()
	return daemons.New(t)
}

// programs are the programs that a separate daemon needs.
var programs = []string{"dockerd", "containerd", "docker", "nsenter", "ip"}

// start makes the namespaces and starts a daemon in them.
func start(t testing.TB) *Daemon {
	t.Helper()
	need(t, programs...)
	d, err := launch()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Launch is New for programs other than tests; the caller ends the daemon with Close. The error names the missing part.
func Launch() (*Daemon, error) {
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			return nil, fmt.Errorf("%s is not installed", p)
		}
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a separate Docker daemon needs root")
	}
	return launch()
}

func launch() (*Daemon, error) {
	// Not t.TempDir: the path of a Unix socket has at most 107 bytes, so the name must be short.
	dir, err := os.MkdirTemp("", "tare-dockerd-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{dir: dir, cgroup: filepath.Base(dir), Host: "unix://" + dir + "/docker.sock"}
	if err := d.start(); err != nil {
		d.Close()
		return nil, fmt.Errorf("start dockerd: %w", err)
	}
	return d, nil
}

func (d *Daemon) start() error {
	// With an empty configuration, the daemon does not read the machine's /etc/docker/daemon.json.
	if err := os.WriteFile(filepath.Join(d.dir, "daemon.json"), []byte("{}\n"), 0o600); err != nil {
		return err
	}
	space, err := nstest.New(":")
	if err != nil {
		return err
	}
	d.space = space
	return d.Run()
}

// OnHost is the argv prefix that runs a program on the daemon's own "host": the namespaces of the daemon, which have
// their own loopback.
func (d *Daemon) OnHost() []string { return d.space.Network() }

// Run starts the daemon, which must not be running, and returns when it answers. After Kill that is like a restart of
// Docker's service.
func (d *Daemon) Run() error {
	path, err := proc.LookPath("dockerd")
	if err != nil {
		return err
	}
	log := filepath.Join(d.dir, "log")
	d.daemon, err = d.space.Start(log, path, "--config-file", filepath.Join(d.dir, "daemon.json"), "--host", d.Host,
		"--pidfile", filepath.Join(d.dir, "pid"),
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"),
		"--cgroup-parent", "/"+d.cgroup, "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--bridge=none", "--iptables=false", "--ip6tables=false")
	if err != nil {
		return err
	}
	return nstest.Await(d.daemon, log, func(ctx context.Context) error {
		_, err := proc.Run(ctx, nil, append(d.Client(), "version")...)
		return err
	})
}

// Containers are the daemon's containers, each with its name and state. It leaves out a container that the daemon lists
// but does not find: a daemon in CI kept listing a removed one, without a name, until the test timed out.
func (d *Daemon) Containers() ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	ids, err := proc.Run(ctx, nil, append(d.Client(), "ps", "--all", "--quiet", "--no-trunc")...)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, id := range strings.Fields(string(ids)) {
		c, err := proc.Run(ctx, nil, append(d.Client(), "container", "inspect", "--format",
			"{{.Name}} {{.State.Status}}", id)...)
		if x, ok := errors.AsType[*proc.ExitError](err); ok &&
			strings.Contains(strings.ToLower(x.Stderr), "no such container") {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, strings.TrimSpace(string(c)))
	}
	return all, nil
}

// Kill kills the daemon with SIGKILL and leaves the other processes of its namespaces alone.
func (d *Daemon) Kill() error { return d.signal("KILL") }

// Stop stops the daemon like its service would be stopped.
func (d *Daemon) Stop() error { return d.signal("TERM") }

func (d *Daemon) signal(name string) error {
	return d.space.Signal(d.daemon, filepath.Join(d.dir, "pid"), name)
}

// Close ends the daemon with all processes that it ever started, and removes its files and cgroups.
func (d *Daemon) Close() error {
	if d.space != nil {
		if err := d.space.Close(); err != nil {
			return err
		}
	}
	if d.daemon != nil {
		d.daemon.Close()
	}
	removeCgroups(d.cgroup)
	return os.RemoveAll(d.dir)
}

// removeCgroups removes an empty tree of cgroups in every hierarchy. For a moment the kernel still counts ended
// processes as members.
func removeCgroups(name string) {
	tops, _ := filepath.Glob("/sys/fs/cgroup/*/" + name)
	tops = append(tops, "/sys/fs/cgroup/"+name)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left := false
		for _, top := range tops {
			below, _ := os.ReadDir(top)
			for _, entry := range below {
				if entry.IsDir() {
					syscall.Rmdir(filepath.Join(top, entry.Name()))
				}
			}
			if err := syscall.Rmdir(top); err != nil && err != syscall.ENOENT {
				left = true
			}
		}
		if !left {
			return
		}
	}
}
