// Package agenttest builds the real agent for tests that run it in real environments.
package agenttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/sys/proc"
)

var (
	mu     sync.Mutex
	dir    string
	builds = map[string]func() (string, error){}
)

// Build returns an executable of cmd/tare-agent for the platform. It is built once per test process, in a directory
// that Main removes.
func Build(t testing.TB, goos, goarch string) string {
	t.Helper()
	return build(t, "tare-agent", goos, goarch)
}

// build is Build for a command.
func build(t testing.TB, command, goos, goarch string) string {
	t.Helper()
	mu.Lock()
	key := command + "_" + goos + "_" + goarch
	build, ok := builds[key]
	if !ok {
		build = sync.OnceValues(func() (string, error) { return compile(command, goos, goarch) })
		builds[key] = build
	}
	mu.Unlock()
	path, err := build()
	if err != nil {
		t.Fatalf("build %s for %s/%s: %v", command, goos, goarch, err)
	}
	return path
}

// Tracers returns a store with an agent for this machine's platform that can trace.
func Tracers(t testing.TB) *deploy.Store {
	t.Helper()
	s := deploy.NewTracers(filepath.Join(t.TempDir(), "agents"))
	s.Use(runtime.GOOS, runtime.GOARCH, build(t, "tare-tracer", runtime.GOOS, runtime.GOARCH))
	t.Cleanup(func() { s.Close() })
	return s
}

// Store returns a store of agents from Build: for this machine's platform, and for others, given as GOOS/GOARCH.
func Store(t testing.TB, more ...string) *deploy.Store {
	t.Helper()
	s := deploy.NewStore(filepath.Join(t.TempDir(), "agents"))
	for _, p := range append([]string{runtime.GOOS + "/" + runtime.GOARCH}, more...) {
		goos, goarch, _ := strings.Cut(p, "/")
		s.Use(goos, goarch, Build(t, goos, goarch))
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Main runs a package's tests with a home directory of their own, and removes it and the agents that were built for
// them: func TestMain(m *testing.M) { os.Exit(agenttest.Main(m)) }. Without Main, the next test process that builds an
// agent removes those agents.
func Main(m *testing.M) int {
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		if dir != "" {
			os.RemoveAll(dir)
		}
	}()
	if err := ownHome(); err != nil {
		fmt.Fprintln(os.Stderr, "a home for the tests:", err)
		return 1
	}
	return m.Run()
}

// ownHome gives this process and its children a home and XDG folders of their own, so that tests leave nothing in the
// user's. Caches that are addressed by content stay shared: Go's build and module caches, and guest kernels.
func ownHome() error {
	mu.Lock()
	defer mu.Unlock()
	if err := ours(); err != nil {
		return err
	}
	if err := keepGo(); err != nil {
		return err
	}
	cache := filepath.Join(dir, "home", ".cache")
	if err := os.MkdirAll(filepath.Join(cache, "tare"), 0o755); err != nil {
		return err
	}
	if user, err := os.UserCacheDir(); err == nil {
		guests := filepath.Join(user, "tare", "guest")
		if _, err := os.Stat(guests); err == nil {
			if err := os.Symlink(guests, filepath.Join(cache, "tare", "guest")); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"} {
		os.Unsetenv(name)
	}
	return os.Setenv("HOME", filepath.Dir(cache))
}

func compile(command, goos, goarch string) (string, error) {
	out, err := place(command, goos, goarch)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := proc.Command(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "tare/cmd/"+command)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOFLAGS=")
	_, err = proc.RunCmd(cmd, nil)
	return out, err
}

const prefix = "tare-agenttest-"

// place returns where to build, in a directory of this process, and removes the directories of processes that have
// ended.
func place(command, goos, goarch string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if err := ours(); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s_%s_%s", command, goos, goarch)
	if goos == "windows" {
		name += ".exe"
	}
	return filepath.Join(dir, name), nil
}

// keepGo makes the go command keep its usual folders. The go command may be missing: some tests start this program
// again with an almost empty environment.
func keepGo() error {
	if _, err := proc.LookPath("go"); err != nil {
		return nil
	}
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOENV"}
	out, err := proc.RunCmd(proc.Command(context.Background(), append([]string{"go", "env"}, names...)...), nil)
	if err != nil {
		return err
	}
	values := strings.Split(string(out), "\n")
	if len(values) < len(names) {
		return fmt.Errorf("go env says %q", out)
	}
	for i, name := range names {
		if err := os.Setenv(name, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// ours makes the directory of this process. mu is held.
func ours() (err error) {
	if dir != "" {
		return nil
	}
	sweep()
	if dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-*", prefix, os.Getpid())); err != nil {
		return err
	}
	// Containers and other users run the agents in it.
	return os.Chmod(dir, 0o755)
}

func sweep() {
	old, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*-*")) // the pattern is well-formed
	for _, d := range old {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), prefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			os.RemoveAll(d)
		}
	}
}
