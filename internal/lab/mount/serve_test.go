package mount

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// need skips a test if a program is missing, or fails it if TARE_REQUIRE is set.
func need(t *testing.T, remedy string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			lack(t, "%s is not installed: %s", p, remedy)
		}
	}
}

func lack(t *testing.T, format string, a ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, a...)
	}
	t.Skipf(format, a...)
}

// plainTemp is a folder for temporary files without a space in its name: ssh's and sshd's configuration cannot contain
// one, and the mount reports that (TestPaths).
func plainTemp() string {
	if strings.ContainsAny(os.TempDir(), " \t") {
		return "/tmp"
	}
	return os.TempDir()
}

// plainDir is a test's directory in plainTemp.
func plainDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(plainTemp(), "tare-mount-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// request makes an empty folder with that name, and everything else that a mount needs.
func request(t *testing.T, kind, folder string, settings map[string]string) Request {
	t.Helper()
	// Not t.TempDir: its path contains the test's name and is longer than real ones.
	in := ""
	if kind == "sshfs" {
		in = plainTemp()
	}
	base, err := os.MkdirTemp(in, "tare-mount-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	r := Request{
		Spec: env.Spec{Name: "m", Driver: kind, Settings: settings}, RunID: "test",
		Dir: filepath.Join(base, "s"), Folder: filepath.Join(base, folder), Log: slog.New(slog.DiscardHandler),
	}
	for _, dir := range []string{r.Dir, r.Folder} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// open serves a mount, and checks at the end of the test that nothing of it is left.
func open(t *testing.T, r Request) *Served {
	t.Helper()
	s, err := Serve(t.Context(), r)
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Fatalf("%v\n%s", err, x.Evidence)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, r, s) })
	return s
}

// end closes a mount twice and checks that nothing is left.
func end(t *testing.T, r Request, s *Served) {
	t.Helper()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	nothingLeft(t, r)
	if t.Failed() && s.Diagnose != nil {
		t.Logf("the server said:\n%s", s.Diagnose())
	}
}

// nothingLeft reports files in the server's folder, and processes and mounts with its name.
func nothingLeft(t *testing.T, r Request) {
	t.Helper()
	filepath.WalkDir(r.Dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name != r.Dir {
			t.Errorf("left: file %s (%v)", name, err)
		}
		return nil
	})
	if runtime.GOOS != "linux" {
		return
	}
	// A killed process may take a moment to end.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := naming(t, r.Dir)
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Errorf("left: processes %q", left)
			break
		}
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), r.Dir) {
		t.Errorf("left: a mount (%v)", err)
	}
}

// naming are the processes whose command line contains a text.
func naming(t *testing.T, text string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), text) {
			found = append(found, fmt.Sprintf("%s %q", name, b))
		}
	}
	return found
}

// markKey is an environment variable of this test and of all its children.
const markKey = "TARE_MOUNT_TEST_MARK"

// rpcbinds are the rpcbind processes that this test started, through a server or a child. Other tests, and the machine,
// may have some, too.
func rpcbinds(t *testing.T) (found []string) {
	t.Helper()
	mark := markKey + "=" + os.Getenv(markKey)
	for _, p := range naming(t, "rpcbind") {
		name, _, _ := strings.Cut(p, " ")
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(name), "environ")); err == nil &&
			strings.Contains(string(b), mark) {
			found = append(found, p)
		}
	}
	return found
}

// failing serves a mount that must fail, and returns the error.
func failing(t *testing.T, ctx context.Context, r Request) *env.OpenError {
	t.Helper()
	s, err := Serve(ctx, r)
	if err == nil {
		s.Close()
		t.Fatalf("%s was served", r.Spec)
	}
	x, ok := errors.AsType[*env.OpenError](err)
	if !ok {
		t.Fatalf("%T is not an *env.OpenError: %v", err, err)
	}
	if x.Remedy == "" || x.Op == "" {
		t.Errorf("no remedy or operation: %v", err)
	}
	nothingLeft(t, r)
	return x
}
