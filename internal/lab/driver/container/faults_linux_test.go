package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// patience bounds every wait: on a busy machine an engine takes long for everything.
const patience = 3 * time.Minute

var runs atomic.Int64

// options are the driver's options in these tests. settings alternate names and values.
func options(t *testing.T, driver, arg string, settings ...string) env.Options {
	t.Helper()
	s := env.Spec{Name: "box", Driver: driver, Arg: arg, Settings: map[string]string{}}
	for kv := range slices.Chunk(settings, 2) {
		s.Settings[kv[0]] = kv[1]
	}
	return env.Options{
		Spec: s, RunID: fmt.Sprintf("f%d-%d", os.Getpid(), runs.Add(1)), Dir: t.TempDir(),
		Agents: agenttest.Store(t), Log: slog.New(slog.DiscardHandler),
	}
}

func open(t *testing.T, o env.Options) env.Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := driver{o.Driver}.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func connect(t *testing.T, e env.Env, runID string) *deploy.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := deploy.Attach(ctx, e, runID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func nullRun(t *testing.T, work int64) wire.Run {
	t.Helper()
	kind, ok := all.Lookup("null")
	if !ok {
		t.Fatal("there is no null workload")
	}
	p, err := kind.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return wire.Run{Job: wire.Job{Kind: "null", Params: p, Cell: "faults"}, Work: work}
}

// endless starts a trial that only a fault ends, and returns its end.
func endless(t *testing.T, s *deploy.Conn) <-chan error {
	t.Helper()
	run := nullRun(t, 1<<45)
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(context.Background(), run)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the endless trial ended: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	return done
}

func failure(t *testing.T, done <-chan error) *record.Failure {
	t.Helper()
	select {
	case err := <-done:
		f, ok := errors.AsType[*record.Failure](err)
		if !ok {
			t.Fatalf("the trial ended with %T: %v", err, err)
		}
		return f
	case <-time.After(patience):
		t.Fatal("the trial did not end")
		return nil
	}
}

// succeed runs one trial.
func succeed(t *testing.T, s *deploy.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Run(ctx, nullRun(t, 1000)); err != nil {
		t.Fatal(err)
	}
}

// If the opening is cancelled while the empty image is being made, no image is left: the engine first completes it.
func TestCancelledWhileTheEmptyImageIsMade(t *testing.T) {
	d := dockertest.New(t)
	client, err := proc.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	// A client that goes on after an import only after the test has seen it.
	dir := t.TempDir()
	seen, cancelled := filepath.Join(dir, "seen"), filepath.Join(dir, "cancelled")
	script := fmt.Sprintf("#!/bin/sh\n'%s' \"$@\" || exit\ncase \" $* \" in *' import '*) : >'%s'; "+
		"while [ ! -e '%s' ]; do sleep 0.05; done;; esac\n", client, seen, cancelled)
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(seen); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
		os.WriteFile(cancelled, nil, 0o644)
	}()
	if _, err := (driver{"docker"}).Open(ctx, options(t, "docker", "", "host", d.Host)); !errors.Is(err,
		context.Canceled) {
		t.Fatalf("opened with the error %v", err)
	}
	left, err := newEngine("docker", d.Host).run(t.Context(), nil, "images", "--all", "--quiet")
	if err != nil || len(left) > 0 {
		t.Errorf("images afterwards: %q, %v", left, err)
	}
}

func TestEmptyImageNeedsNoRegistryAndLeavesNone(t *testing.T) {
	d := dockertest.New(t)
	o := options(t, "docker", "", "host", d.Host)
	e := open(t, o)
	succeed(t, connect(t, e, o.RunID))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := newEngine("docker", d.Host).run(t.Context(), nil, "images", "--all", "--quiet")
	if err != nil || len(left) > 0 {
		t.Errorf("images afterwards: %q, %v", left, err)
	}
}

func TestLimitsAreReadBack(t *testing.T) {
	host := dockertest.Start(t)
	e := open(t, options(t, "docker", "", "host", host, "cpus", "0.5", "memory", "64MiB", "cpuset", "0", "network",
		"none",
		"user", "65534:65534", "security", "seccomp=unconfined", "ulimit", "nofile=512:512", "volume", "tmpfs", "dir",
		"/scratch"))
	f := e.Facts()
	for k, want := range map[string]string{
		"cpus": "0.5", "memory": "64MiB", "cpuset": "0", "network": "none", "user": "65534:65534",
		"seccomp": "unconfined",
		"ulimit":  "nofile=512:512", "volume": "tmpfs", "dir": "/scratch", "runtime": "runc", "privileged": "no",
		"image": emptyImage,
	} {
		if f.Settings[k] != want {
			t.Errorf("%s is %q, want %q", k, f.Settings[k], want)
		}
	}
	for _, k := range []string{"engine.version", "engine.storage", "engine.cgroup_version", "engine.kernel",
		"container.id"} {
		if f.Extra[k] == "" {
			t.Errorf("no %s among the facts: %v", k, f.Extra)
		}
	}
	if f.Emulated || f.OS != "linux" || f.Arch != runtime.GOARCH {
		t.Errorf("platform %s/%s, emulated %v", f.OS, f.Arch, f.Emulated)
	}
	// A user that owns nothing can still work in it.
	succeed(t, connect(t, e, "limits"))
}

func TestDefaultSeccompIsTold(t *testing.T) {
	e := open(t, options(t, "docker", "", "host", dockertest.Start(t)))
	if got := e.Facts().Settings["seccomp"]; got != "default" {
		t.Errorf("seccomp is %q", got)
	}
}

func TestWorkFolders(t *testing.T) {
	d := dockertest.Shared(t)
	dockertest.Import(t, d.Client(), "with-data:1", map[string][]byte{"/data/keep": []byte("x")})
	for _, c := range []struct{ image, dir, volume string }{
		{"", "/tare-work", "anonymous"}, {"", "/made/deep/down", "none"}, {"with-data:1", "/data", "none"},
		{"with-data:1", "/data", "anonymous"},
	} {
		t.Run(c.volume+strings.ReplaceAll(c.dir, "/", "_"), func(t *testing.T) {
			e := open(t, options(t, "docker", c.image, "host", d.Host, "dir", c.dir, "volume", c.volume))
			want := map[string]string{"anonymous": "volume", "none": "none"}[c.volume]
			if got := e.Facts().Settings["volume"]; got != want {
				t.Errorf("volume is %q, want %q", got, want)
			}
			succeed(t, connect(t, e, "folders"))
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if left, err := newEngine("docker", d.Host).run(t.Context(), nil, "volume", "ls", "--quiet"); err != nil ||
		len(left) > 0 {
		t.Errorf("volumes afterwards: %q, %v", left, err)
	}
}

func TestStartThatFailsSaysWhy(t *testing.T) {
	e := open(t, options(t, "docker", "", "host", dockertest.Start(t), "network", "nosuchnet"))
	_, err := e.Agent(t.Context())
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok || !strings.Contains(err.Error(), "nosuchnet") || !strings.Contains(x.Remedy, "network=none") {
		t.Errorf("got %v", err)
	}
}

func TestDaemonKilledMidTrial(t *testing.T) {
	d := dockertest.New(t)
	o := options(t, "docker", "", "host", d.Host)
	e := open(t, o)
	s := connect(t, e, o.RunID)
	done := endless(t, s)
	if err := d.Kill(); err != nil {
		t.Fatal(err)
	}
	f := failure(t, done)
	t.Logf("%s", f.Message)
	if f.Kind != deploy.Died || !strings.Contains(f.Evidence, "Cannot connect to the Docker daemon") {
		t.Errorf("the failure is %+v", f)
	}
	if err := e.Close(); err == nil || !strings.Contains(err.Error(), "tare clean") {
		t.Errorf("closing without a daemon must say what may be left: %v", err)
	}
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("closing once the daemon is back: %v", err)
	}
	if left := ours(newEngine("docker", d.Host))(t, o.RunID); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDaemonRestartedMidTrial(t *testing.T) {
	d := dockertest.New(t)
	o := options(t, "docker", "", "host", d.Host)
	e := open(t, o)
	done := endless(t, connect(t, e, o.RunID))
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(); err != nil {
		t.Fatal(err)
	}
	if f := failure(t, done); f.Kind != deploy.Died || f.Evidence == "" {
		t.Errorf("the failure is %+v", f)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestOutOfMemoryIsEvidence makes the kernel kill a container for its memory limit. The engine has removed the
// container before anybody asks.
func TestOutOfMemoryIsEvidence(t *testing.T) {
	d := dockertest.Shared(t)
	dockertest.Import(t, d.Client(), "box:1", dockertest.Busybox(t))
	s, err := startAgent(t.Context(), newEngine("docker", d.Host), "box", "hog", "run", "--rm", "--interactive",
		"--name", "hog",
		"--memory", "16m", "--entrypoint", "/bin/sh", "box:1", "-c", "echo begin; exec tail -c 1000000000 /dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("1 GB went into 16 MB")
	}
	evidence := string(s.Diagnose())
	// Which one it is depends on whether the engine learned of the lack of memory before it removed the container.
	if !strings.Contains(evidence, "container oom") && !strings.Contains(evidence, "memory limit") ||
		!strings.Contains(evidence, "exitCode=137") {
		t.Errorf("nothing tells of the memory:\n%s", evidence)
	}
}

func TestAgentOfAnotherBuildIsRefused(t *testing.T) {
	o := options(t, "docker", "", "host", dockertest.Start(t))
	other := filepath.Join(t.TempDir(), "tare-agent")
	build := proc.Command(t.Context(), "go", "build", "-trimpath", "-ldflags",
		"-X tare/internal/version.Build=another", "-o", other, "tare/cmd/tare-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if _, err := proc.RunCmd(build, nil); err != nil {
		t.Fatal(err)
	}
	store := deploy.NewStore(t.TempDir())
	store.Use(runtime.GOOS, runtime.GOARCH, other)
	o.Agents = store
	e := open(t, o)
	stream, err := e.Agent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := deploy.Connect(t.Context(), stream, o.RunID); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("got %v", err)
	}
}

// TestNoiseBeforeTheAgent uses a container whose agent is started by a shell that first prints noise.
func TestNoiseBeforeTheAgent(t *testing.T) {
	host := dockertest.Start(t)
	d := dockertest.Shared(t)
	files := dockertest.Busybox(t)
	agent, err := os.ReadFile(agenttest.Build(t, "linux", runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	files["/noisy"] = []byte("#!/bin/sh\necho 'Welcome!'; printf '\\033[2J\\377\\000garbage\\n'; exec /real-agent " +
		"\"$@\"\n")
	files["/real-agent"] = agent
	dockertest.Import(t, d.Client(), "noisy:1", files)
	e := newEngine("docker", host)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := startAgent(ctx, e, "box", "noisy", "run", "--rm", "--interactive", "--entrypoint", "/noisy",
		"noisy:1", "agent")
	if err != nil {
		t.Fatal(err)
	}
	s, err := deploy.Connect(ctx, stream, "noise")
	if err != nil {
		t.Fatal(err)
	}
	succeed(t, s)
	s.Close()
}

// TestGarbageForEver uses a container that never stops printing and is not an agent.
func TestGarbageForEver(t *testing.T) {
	d := dockertest.Shared(t)
	dockertest.Import(t, d.Client(), "box:1", dockertest.Busybox(t))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := startAgent(ctx, newEngine("docker", d.Host), "box", "garbage", "run", "--rm", "--interactive",
		"--name", "garbage", "--entrypoint", "/bin/cat", "box:1", "/dev/urandom")
	if err != nil {
		t.Fatal(err)
	}
	defer newEngine("docker", d.Host).remove(context.Background(), "garbage")
	if s, err := deploy.Connect(ctx, stream, "garbage"); err == nil {
		s.Close()
		t.Error("garbage was taken for an agent")
	} else {
		t.Log(err)
	}
}

func TestPodmanLimitsThatAreNotAllowed(t *testing.T) {
	dockertest.Podman(t)
	const files = 1073741816
	o := options(t, "podman", "", "network", "none", "ulimit", fmt.Sprintf("nofile=%[1]d:%[1]d", files))
	e := open(t, o)
	stream, err := e.Agent(t.Context())
	if err == nil {
		stream.Close()
		text, err := os.ReadFile("/proc/sys/fs/nr_open") // the most that anybody may allow
		if most, e := strconv.Atoi(strings.TrimSpace(string(text))); err != nil || e != nil || most < files {
			t.Fatalf("a limit of %d files was not refused, and the kernel allows %q: %v, %v", files, text, err, e)
		}
		t.Skip("this machine allows raising limits")
	}
	if x, ok := errors.AsType[*env.OpenError](err); !ok || !strings.Contains(x.Remedy, "ulimit=") {
		t.Errorf("got %v", err)
	}
	t.Log(err)
}

func TestProbe(t *testing.T) {
	d := dockertest.New(t)
	if s := probe(t.Context(), newEngine("docker", d.Host)); !s.OK || !strings.Contains(s.Detail, "docker 2") {
		t.Errorf("with a daemon: %+v", s)
	}
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	if s := probe(t.Context(), newEngine("docker", d.Host)); s.OK || s.Remedy == "" {
		t.Errorf("without a daemon: %+v", s)
	}
	t.Setenv("PATH", t.TempDir())
	if s := probe(t.Context(), engine{name: "docker-that-is-not-here"}); s.OK || s.Remedy == "" {
		t.Errorf("without a client: %+v", s)
	}
}
