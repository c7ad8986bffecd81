package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/sys/proc"
)

// TestCleanFindsWhatADeadRunLeft makes containers as a killed controller leaves them, and one of a living run.
func TestCleanFindsWhatADeadRunLeft(t *testing.T) {
	d := dockertest.New(t)
	e := newEngine("docker", d.Host)
	o := options(t, "docker", "", "host", d.Host)
	open(t, o)
	dead := thisProcess()
	dead.Start = "another-boot/1"
	dockertest.Import(t, d.Client(), "box:1", dockertest.Busybox(t))
	for name, verb := range map[string][]string{"made": {"create"}, "runs": {"run", "--detach"}} {
		args := append(verb, "--name", name, "--entrypoint", "/bin/sleep")
		for _, l := range dead.labels("dead-run", "box") {
			args = append(args, "--label", l)
		}
		if _, err := e.run(t.Context(), nil, append(args, "box:1", "1000")...); err != nil {
			t.Fatal(err)
		}
	}
	for _, dry := range []bool{true, false} {
		found, err := clean(t.Context(), e, thisProcess(), dry)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found)
		if want := []string{"docker container made of run dead-run",
			"docker container runs of run dead-run"}; !slices.Equal(found, want) {
			t.Errorf("dry=%v: found %q, want %q", dry, found, want)
		}
	}
	if found, err := clean(t.Context(), e, thisProcess(), true); err != nil || len(found) > 0 {
		t.Errorf("after cleaning: %q, %v", found, err)
	}
	if kept := ours(e)(t, o.RunID); len(kept) != 1 {
		t.Errorf("of the living run there is %q, want its one container", kept)
	}
}

// A container that Docker lists but does not find is none. This uses a real daemon, with one more row in the client's
// list.
func TestContainersThatTheEngineDenies(t *testing.T) {
	d := dockertest.Start(t)
	e := newEngine("docker", d)
	o := options(t, "docker", "", "host", d)
	open(t, o)
	client, err := proc.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ghost := strings.Repeat("0123456789abcdef", 4)
	shim := "#!/bin/sh\ncase \" $* \" in *' ps '*) echo " + ghost + ";; esac\nexec '" + client + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if out, err := e.run(t.Context(), nil, "ps", "--quiet", "--filter", "label="+labelRun+"="+o.RunID); err != nil ||
		!strings.HasPrefix(string(out), ghost) {
		t.Fatalf("the client lists %q, %v", out, err)
	}
	all, err := e.containers(t.Context(), labelRun+"="+o.RunID)
	if err != nil || len(all) != 1 || all[0].Id == ghost {
		t.Errorf("%d containers, %v; want the one of this run", len(all), err)
	}
	if _, err := clean(t.Context(), e, thisProcess(), false); err != nil {
		t.Errorf("clean: %v", err)
	}
}
