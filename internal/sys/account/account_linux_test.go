package account

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func chosen(t *testing.T) User {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("the test needs root")
		}
		t.Skip("the test needs root")
	}
	u, err := Choose("no-such-user", "root", "nobody")
	if err != nil || u.Name != "nobody" {
		t.Fatalf("chose %q, %v", u.Name, err)
	}
	return u
}

func TestNobodyIsThere(t *testing.T) {
	if os.Geteuid() != 0 {
		if u, err := Choose("no-such-user"); err != nil || u.Name == "" {
			t.Errorf("a user other than root does not stay the same: %q, %v", u.Name, err)
		}
		return
	}
	if u, err := Choose("no-such-user", "root"); !errors.Is(err, ErrNone) {
		t.Errorf("chose %q, %v", u.Name, err)
	}
}

// TestClosedDirectory: a program that runs as another user writes its own file in a directory that only root can enter.
func TestClosedDirectory(t *testing.T) {
	u := chosen(t)
	closed := filepath.Join(t.TempDir(), "closed")
	own := filepath.Join(closed, "own")
	for _, dir := range []string{closed, own} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Give(own); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(own)
	if err != nil || !u.Owns(st) {
		t.Errorf("it does not own its directory: %v", err)
	}
	if st, err = os.Stat(closed); err != nil || u.Owns(st) {
		t.Errorf("it owns root's directory: %v", err)
	}
	if err := u.ReachTo(own); err != nil || !u.Privileged() {
		t.Fatalf("reach a closed directory: %v", err)
	}
	cmd := exec.Command("/bin/sh", "-c", `id -un && echo x > "$1/file"`, "sh", own)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{}
	u.Become(cmd.SysProcAttr)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "nobody" {
		t.Errorf("as nobody: %s%v", out, err)
	}
}

// TestOpenDirectory: a program needs no capability for an open directory, or for its own below open ones.
func TestOpenDirectory(t *testing.T) {
	u := chosen(t)
	open, err := os.MkdirTemp("/tmp", "tare-account-") // t.TempDir may be below a directory that only root can enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(open)
	own := filepath.Join(open, "own")
	if err := errors.Join(os.Chmod(open, 0o755), os.Mkdir(own, 0o700), u.Give(own)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/usr", own} {
		if err := u.ReachTo(dir); err != nil || u.Privileged() {
			t.Errorf("%s needs a capability, or %v", dir, err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", `echo x > "$1/file"`, "sh", own)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{}
	u.Become(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("write a file: %s%v", out, err)
	}
	if err := os.Chmod(own, 0o055); err != nil {
		t.Fatal(err)
	}
	if err := u.ReachTo(own); err != nil || !u.Privileged() {
		t.Errorf("a directory that is closed to its owner needs no capability, or %v", err)
	}
}
