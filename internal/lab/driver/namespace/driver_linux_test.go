package namespace

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func spec(settings ...string) env.Spec {
	s := env.Spec{Driver: "namespace", Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

// mount is the spec of a mount.
func mount(name, kind string, settings ...string) env.Spec {
	s := spec(settings...)
	s.Name, s.Driver = name, kind
	return s
}

func TestContract(t *testing.T) {
	envtest.Run(t, Driver{}, envtest.Options{
		Spec: spec(),
		Mounts: []env.Spec{
			mount("bind", "bind"), mount("else", "bind", "dir", t.TempDir()), mount("memory", "tmpfs"),
			mount("Small", "tmpfs", "size", "64MiB"),
		},
		Broken: []env.Spec{mount("no", "bind", "dir", "/proc/nowhere")},
		Impossible: []env.Spec{
			spec("root", "/nowhere-at-all"), spec("dir", "/proc"), spec("cpus", "1023"),
			spec("root", filepath.Join(os.Args[0], "file")),
		},
	})
}

func TestContractUserNamespace(t *testing.T) {
	envtest.Run(t, Driver{}, envtest.Options{Spec: spec("user", "own"),
		Mounts:     []env.Spec{mount("bind", "bind"), mount("memory", "tmpfs", "size", "64MiB")},
		Impossible: []env.Spec{spec("user", "own", "dir", "/sys")}})
}
