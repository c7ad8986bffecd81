package local

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

func TestContract(t *testing.T) {
	spaces := filepath.Join(t.TempDir(), "a, b\n'\"ä")
	if err := os.Mkdir(spaces, 0o700); err != nil {
		spaces = t.TempDir() // a file system that allows only certain names
	}
	envtest.Run(t, Driver{}, envtest.Options{
		Spec: env.Spec{Driver: "local"},
		Mounts: []env.Spec{{Name: "here", Driver: "dir", Arg: t.TempDir()},
			{Name: "spaces", Driver: "dir", Arg: spaces}},
		Broken: []env.Spec{{Name: "no", Driver: "dir", Arg: "/nowhere-at-all"},
			{Name: "bytes", Driver: "dir", Arg: "/tmp/\xff"}},
		Impossible: []env.Spec{
			{Driver: "local", Settings: map[string]string{"dir": "/proc/nowhere"}},
			{Driver: "local", Settings: map[string]string{"cpus": "1023"}},
		},
	})
}
