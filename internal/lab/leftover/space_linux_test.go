package leftover

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A directory of a run outside is not taken for a dead run's by tare in a container that shares it, although the
// process is not there.
func TestOwnerInAnotherPIDNamespace(t *testing.T) {
	if base := os.Getenv("TARE_TEST_SEEN_FROM"); base != "" {
		for _, dir := range Find(base) {
			t.Errorf("taken for left over: %s", dir)
		}
		return
	}
	base := t.TempDir()
	dir, release, err := New(base, "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if found := Find(base); len(found) > 0 {
		t.Errorf("the own directory is left over: %v", found)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", self, "-test.run",
		"^"+t.Name()+"$", "-test.v")
	if os.Geteuid() == 0 {
		cmd.Args = append(cmd.Args[:1], cmd.Args[3:]...)
	}
	cmd.Env = append(os.Environ(), "TARE_TEST_SEEN_FROM="+base)
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "unshare:") && os.Geteuid() != 0 {
		t.Skipf("no namespaces for this user: %s", out)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
	// One that is dead in this namespace is.
	o, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	o.PID = 1 << 30
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(o.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := Find(base); len(found) != 1 {
		t.Errorf("a dead owner's directory is not found: %v", found)
	}
}
