package datadir

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const lockedVar = "TARE_TEST_LOCKED_DIR"

// TestLocked: a directory whose server is alive is refused, also if the server is outside of this PID namespace.
func TestLocked(t *testing.T) {
	if dir := os.Getenv(lockedVar); dir != "" {
		fmt.Println(Idle(dir))
		return
	}
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("the test needs root")
		}
		t.Skip("the test needs root")
	}
	dir := made(t, map[string]string{"ibdata1": "x"})
	f, err := os.OpenFile(filepath.Join(dir, "ibdata1"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &l); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[uintptr]string{0: fmt.Sprintf("process %d has", os.Getpid()),
		syscall.CLONE_NEWPID: "another PID namespace"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLocked$")
		cmd.Env = append(os.Environ(), lockedVar+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s%v; want %q", out, err, want)
		}
	}
}
