package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func TestRunningDockerContainer(t *testing.T) {
	testRunning(t, newEngine("docker", dockertest.Start(t)))
}

func TestRunningPodmanContainer(t *testing.T) {
	dockertest.Podman(t)
	testRunning(t, newEngine("podman", ""))
}

func testRunning(t *testing.T, e engine) {
	files := dockertest.Busybox(t)
	dockertest.Import(t, e.argv(), "box:1", files)
	// An image with one program, which cannot remove files.
	dockertest.Import(t, e.argv(), "bare:1", map[string][]byte{"/sleep": files["/bin/sleep"]})
	for _, c := range []struct{ name, image, user string }{{"shell", "box:1", ""}, {"bare", "bare:1", ""},
		{"user", "box:1", "1000"}} {
		t.Run(c.name, func(t *testing.T) {
			inside(t, e, c.name, c.image, c.user)
		})
	}
}

func inside(t *testing.T, e engine, name, image, user string) {
	program := map[string]string{"box:1": "/bin/sleep", "bare:1": "/sleep"}[image]
	run := []string{"run", "--detach", "--name", name, "--network", "none", "--stop-timeout", "0"}
	settings := []string{"container", name}
	if len(e.global) > 0 {
		settings = append(settings, "host", e.global[1])
	}
	if user != "" {
		run = append(run, "--user", user)
	}
	if _, err := e.run(t.Context(), nil, append(run, "--entrypoint", program, image, "1000")...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.remove(context.Background(), name) })
	before := changes(t, e, name)
	o := options(t, e.name, "", settings...)
	c := open(t, o)
	for range 2 {
		s := connect(t, c, o.RunID)
		succeed(t, s)
		if _, err := c.Agent(t.Context()); err == nil {
			t.Error("a second agent was started beside the first")
		}
		s.Close()
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if after := changes(t, e, name); after != before {
		t.Errorf("the container was changed:\n%s", after)
	}
	if seen, err := e.inspect(t.Context(), name); err != nil || !seen.State.Running {
		t.Errorf("the container does not run any more: %v", err)
	}
	// If a controller dies, its agent ends, and the agent removes its folder.
	o = options(t, e.name, "", settings...)
	c = open(t, o)
	agent, err := c.Agent(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Not before the agent has written all its output and waits: when a write to a client fails, conmon (2.1.6,
	// conn_sock.c) frees the client's record and then reads from it whether to close the input. So an agent that writes
	// while its client dies may stay. `tare clean` removes that one.
	if _, err := deploy.Connect(t.Context(), agent, o.RunID); err != nil {
		t.Fatal(err)
	}
	if err := agent.(*stream).Kill(); err != nil {
		t.Fatal(err)
	}
	if user != "" {
		// That user cannot remove a folder from the root directory, but Close can.
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	deadline := time.Now().Add(patience)
	for changes(t, e, name) != before {
		if time.Now().After(deadline) {
			t.Fatalf("after the client was killed there is still:\n%s", changes(t, e, name))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// changes are the files of a container that its image does not have.
func changes(t *testing.T, e engine, name string) string {
	t.Helper()
	out, err := e.run(t.Context(), nil, "diff", name)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestStoppedContainerIsRefused(t *testing.T) {
	d := dockertest.Shared(t)
	e := newEngine("docker", d.Host)
	dockertest.Import(t, d.Client(), "box:1", dockertest.Busybox(t))
	if _, err := e.run(t.Context(), nil, "create", "--name", "stopped", "--entrypoint", "/bin/sleep", "box:1",
		"1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.remove(context.Background(), "stopped") })
	_, err := driver{"docker"}.Open(t.Context(), options(t, "docker", "", "host", d.Host, "container", "stopped"))
	if x, ok := errors.AsType[*env.OpenError](err); !ok || !strings.Contains(x.Remedy, "docker start stopped") {
		t.Errorf("got %v", err)
	}
}

// TestHandshakeTime logs how long a handshake takes in an existing container; the goal is 0.3 s.
func TestHandshakeTime(t *testing.T) {
	d := dockertest.Shared(t)
	e := newEngine("docker", d.Host)
	dockertest.Import(t, d.Client(), "box:1", dockertest.Busybox(t))
	if _, err := e.run(t.Context(), nil, "run", "--detach", "--name", "timed", "--entrypoint", "/bin/sleep", "box:1",
		"1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.remove(context.Background(), "timed") })
	for name, o := range map[string]env.Options{
		"made, started": options(t, "docker", "", "host", d.Host),
		"running, exec": options(t, "docker", "", "host", d.Host, "container", "timed"),
	} {
		var times []time.Duration
		for range 5 {
			c := open(t, o)
			began := time.Now()
			s := connect(t, c, o.RunID)
			times = append(times, time.Since(began).Round(time.Millisecond))
			s.Close()
			c.Close()
		}
		slices.Sort(times)
		t.Logf("%s: median %v of %v", name, times[len(times)/2], times)
	}
}

// A container reaches this machine's loopback if it uses its network; otherwise the error names the setting.
func TestHostNetworkReachesThePeer(t *testing.T) {
	d := dockertest.Shared(t)
	path, err := agenttest.Store(t).Path(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	// The daemon has its own network, so the peer must run in it, too.
	peer := filepath.Join(t.TempDir(), "peer")
	script := fmt.Sprintf("#!/bin/sh\nexec %s '%s' \"$@\"\n", strings.Join(d.OnHost(), " "), path)
	if err := os.WriteFile(peer, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	there := deploy.NewStore(t.TempDir())
	there.Use(runtime.GOOS, runtime.GOARCH, peer)
	for network, want := range map[string]string{"host": "", "none": "use network=host"} {
		o := options(t, "docker", "", "host", d.Host, "network", network)
		c := open(t, o)
		if _, err := env.Loopback("box", c); want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || reach(o.Spec) == nil {
				t.Errorf("network=%s: %v and, by the spec, %v, want %s", network, err, reach(o.Spec), want)
			}
			continue
		}
		envtest.Network(t, c, connect(t, c, o.RunID), there)
	}
}
