package container

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// What an engine of this machine's has at work for a container is known once its agent runs.
func TestServersOfAContainer(t *testing.T) {
	for name, x := range map[string]struct {
		options func(t *testing.T) env.Options
		want    string
	}{
		"docker": {func(t *testing.T) env.Options {
			return options(t, "docker", "", "host", dockertest.Start(t))
		}, "containerd-shim"},
		"podman": {func(t *testing.T) env.Options {
			dockertest.Podman(t)
			return options(t, "podman", "", "network", "none")
		}, "conmon"},
	} {
		t.Run(name, func(t *testing.T) {
			o := x.options(t)
			e := open(t, o)
			s, ok := e.(env.HostServers)
			if !ok {
				t.Fatalf("%T does not tell what serves it", e)
			}
			if got := s.Servers(); len(got) > 0 {
				t.Errorf("without an agent %v serve it", got)
			}
			connect(t, e, o.RunID)
			var names []string
			for _, pid := range s.Servers() {
				names = append(names, proc.Name(pid))
			}
			if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, x.want) }) {
				t.Errorf("what serves it is %q, without a %s", names, x.want)
			}
		})
	}
}
