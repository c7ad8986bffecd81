package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/measure/wire"
)

// ours lists the containers of a run that are running, or that `tare clean` will not find.
func ours(e engine) func(t testing.TB, runID string) []string {
	return func(t testing.TB, runID string) []string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		all, err := e.containers(ctx, labelRun+"="+runID)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, c := range all {
			// Its controller was killed between create and start.
			if c.State.Status != "created" || !c.abandoned(thisProcess(), time.Now()) {
				left = append(left, fmt.Sprintf("container %s: %s", c.Name, c.State.Status))
			}
		}
		return left
	}
}

// killContainer kills an environment's container from outside, like a user or the kernel.
func killContainer(e engine) func(testing.TB, env.Env, wire.Hello) {
	return func(t testing.TB, opened env.Env, _ wire.Hello) {
		t.Helper()
		if _, err := e.run(t.Context(), nil, "kill", opened.(*container).name); err != nil {
			t.Fatal(err)
		}
	}
}

// goodMounts are all kinds of mounts, one in a directory whose name could break an option.
func goodMounts(t *testing.T) []env.Spec {
	odd := filepath.Join(t.TempDir(), "a, b\"c d=e:f")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	return []env.Spec{
		{Name: "bind", Driver: "bind"}, {Name: "odd", Driver: "bind", Settings: map[string]string{"dir": odd}},
		{Name: "volume", Driver: "volume"},
		{Name: "memory", Driver: "tmpfs", Settings: map[string]string{"size": "64MiB"}},
		{Name: "root", Driver: "dir", Arg: "/"},
	}
}

var brokenMounts = []env.Spec{
	{Name: "nowhere", Driver: "bind", Settings: map[string]string{"dir": "/proc/nowhere"}},
	{Name: "missing", Driver: "dir", Arg: "/nowhere-at-all"},
}

func TestDockerContract(t *testing.T) {
	d := dockertest.Shared(t)
	e := newEngine("docker", d.Host)
	spec := func(arg string, settings ...string) env.Spec {
		s := env.Spec{Driver: "docker", Arg: arg, Settings: map[string]string{"host": d.Host}}
		for _, kv := range settings {
			k, v, _ := strings.Cut(kv, "=")
			s.Settings[k] = v
		}
		return s
	}
	dockertest.Import(t, d.Client(), "scratch-like:1", map[string][]byte{"/a": nil})
	envtest.Run(t, driver{"docker"}, envtest.Options{
		Spec:   spec("scratch-like:1", "cpus=1.5", "memory=256MiB"),
		Mounts: goodMounts(t), Broken: brokenMounts,
		Impossible: []env.Spec{
			spec("nosuch.invalid/image:1"),
			spec("nosuch:1", "pull=never"),
			spec("scratch-like:1", "runtime=nosuchruntime"),
			spec("scratch-like:1", "platform=linux/arm64", "pull=never"),
			spec("scratch-like:1", "host=unix:///nonexistent/docker.sock"),
			spec("", "container=nosuch"),
		},
		Kill:  killContainer(e),
		Leaks: ours(e),
	})
	cleanedUp(t, e)
}

func TestPodmanContract(t *testing.T) {
	dockertest.Podman(t)
	e := newEngine("podman", "")
	dockertest.Import(t, []string{"podman"}, "scratch-like:1", map[string][]byte{"/a": nil})
	spec := func(arg string, settings map[string]string) env.Spec {
		return env.Spec{Driver: "podman", Arg: arg, Settings: settings}
	}
	envtest.Run(t, driver{"podman"}, envtest.Options{
		Spec:   spec("scratch-like:1", map[string]string{"cpus": "1.5", "memory": "256MiB", "network": "none"}),
		Mounts: goodMounts(t), Broken: brokenMounts,
		Impossible: []env.Spec{
			spec("nosuch.invalid/image:1", nil),
			spec("localhost/nosuch:1", map[string]string{"pull": "never"}),
			spec("scratch-like:1", map[string]string{"runtime": "nosuchruntime"}),
			spec("", map[string]string{"container": "nosuch"}),
		},
		Kill:  killContainer(e),
		Leaks: ours(e),
	})
	cleanedUp(t, e)
}

// cleanedUp runs clean after controllers were killed, and fails if anything is left.
func cleanedUp(t *testing.T, e engine) {
	t.Helper()
	found, err := clean(t.Context(), e, thisProcess(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("clean found %q", found)
	left, err := e.containers(t.Context(), labelRun)
	if err != nil {
		t.Error(err)
	}
	for _, c := range left {
		t.Errorf("container %s (%s) is there after clean", c.Name, c.State.Status)
	}
}
