package container

import (
	"slices"
	"testing"

	"tare/internal/env/container/dockertest"
)

// TestCleanFindsWhatADeadRunLeft makes containers as a killed controller leaves them, and one of a run that lives.
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
		if want := []string{"docker container made of run dead-run", "docker container runs of run dead-run"}; !slices.Equal(found, want) {
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
