package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
)

func spec(argv string, settings ...string) env.Spec {
	s := env.Spec{Driver: "command", Settings: map[string]string{"argv": argv}}
	for i := 0; i < len(settings); i += 2 {
		s.Settings[settings[i]] = settings[i+1]
	}
	return s
}

func TestContractEnv(t *testing.T) {
	envtest.Run(t, driver{}, envtest.Options{
		Spec: spec("env TARE_TEST='a b'"),
		Impossible: []env.Spec{
			spec("tare-no-such-program -x"), spec("false"), spec("cat"), spec("sh -c 'echo no >&2; exit 3'"),
			spec("env", "dir", "/proc"), spec("env", "put", "none", "path", "/nowhere/agent"),
			spec("env", "put", "none"), spec(""),
		},
	})
}

// A shell on the far side, as with ssh, splits the words unless they are quoted for it; and it prints noise.
func TestContractThroughShell(t *testing.T) {
	envtest.Run(t, driver{}, envtest.Options{
		Spec:       spec(`sh -c 'echo "Welcome to $0"; echo noise >&2; eval "$1"' there`, "quote", "sh"),
		Impossible: []env.Spec{spec(`sh -c 'echo "Welcome to $0"; eval "$1"' there`, "quote", "sh", "dir", "/nowhere")},
	})
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("this test needs root")
		}
		t.Skip("needs root")
	}
}

// busyboxRoot makes a root with only a static busybox in it.
func busyboxRoot(t *testing.T) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("busybox is missing: apt-get install busybox-static")
		}
		t.Skip("busybox is missing: apt-get install busybox-static")
	}
	root := t.TempDir()
	for _, d := range []string{"bin", "tmp", "proc", "dev"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "busybox"), b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, applet := range strings.Fields("sh cat mkdir chmod rm uname sleep true mount") {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func leaksIn(root string) func(testing.TB, string) []string {
	return func(t testing.TB, runID string) []string {
		found, err := filepath.Glob(filepath.Join(root, "*", "*"+runID+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

// In another root the agent has neither its own /proc/self/exe nor a C library, only busybox's shell.
func TestContractUnshareChroot(t *testing.T) {
	needRoot(t)
	root := busyboxRoot(t)
	enter := `unshare --mount --propagation private sh -c 'mount -t proc proc "` + root + `/proc" && exec chroot "` +
		root + `" env -i PATH=/bin "$@"' enter`
	enter = strings.Replace(enter, "env -i PATH=/bin ", "/bin/busybox env -i PATH=/bin ", 1)
	envtest.Run(t, driver{}, envtest.Options{
		Spec:       spec(enter),
		Impossible: []env.Spec{spec(`chroot "` + root + `" /nowhere`), spec("chroot /nowhere-at-all")},
		Leaks:      leaksIn(root),
	})
}
