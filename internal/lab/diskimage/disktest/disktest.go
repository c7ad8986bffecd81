// Package disktest is for tests: the programs that disks, images and file systems are made with and checked by.
package disktest

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// Need skips a test that needs a program which is not installed, or fails it where everything has to run
// (TARE_REQUIRE).
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			Lacking(t, "%s is not installed", p)
		}
	}
}

// Lacking skips a test for something that this machine has not, or fails it where everything has to run.
func Lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format+", and TARE_REQUIRE is set", args...)
	}
	t.Skipf(format, args...)
}

// Run runs a program in a folder, the test's own when dir is "", and returns its standard output. One that fails fails
// the test, with what it said.
func Run(t testing.TB, dir string, argv ...string) []byte {
	t.Helper()
	path, err := proc.LookPath(argv[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := proc.Command(t.Context(), append([]string{path}, argv[1:]...)...)
	cmd.Dir = dir
	out, err := proc.RunCmd(cmd, nil)
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return out
}

// patience is how long a loop device may take to let go of its file.
const patience = time.Minute

// Loop makes a loop device over a file until the test ends, with more options for losetup, and returns its path. The
// kernel detaches a device only once its last user has closed it, and whoever lists loop devices is one for a moment:
// the cleanup waits until the file is let go, so that what the file lies on can be unmounted.
func Loop(t testing.TB, file string, options ...string) string {
	t.Helper()
	Need(t, "losetup")
	out, err := proc.Run(t.Context(), nil, append(append([]string{"losetup", "--find", "--show"}, options...), file)...)
	if err != nil {
		Lacking(t, "losetup: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if _, err := proc.Run(context.Background(), nil, "losetup", "--detach", device); err != nil {
			t.Error(err)
		}
		LetGo(t, file)
	})
	return device
}

// LetGo waits until no loop device has a file any longer, and fails the test when one keeps it.
func LetGo(t testing.TB, file string) {
	t.Helper()
	var held []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		if held, err = proc.Run(context.Background(), nil, "losetup", "--associated", file); err != nil {
			t.Error(err)
			return
		}
		if len(bytes.TrimSpace(held)) == 0 {
			return
		}
	}
	t.Errorf("after %v there is still %s", patience, held)
}

// Seal computes the checksum of a VHDX's header or table of regions anew, which b is the whole of. Without it no other
// damage would ever be reached.
func Seal(b []byte) {
	clear(b[4:8])
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
