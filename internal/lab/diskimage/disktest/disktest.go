// Package disktest is for tests: it runs the programs that make and check disks, images and file systems.
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

// Need skips a test if a program is not installed, or fails it if TARE_REQUIRE is set.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := proc.LookPath(p); err != nil {
			Lacking(t, "%s is not installed", p)
		}
	}
}

// Lacking skips a test that needs something that this machine lacks, or fails it if TARE_REQUIRE is set.
func Lacking(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format+", and TARE_REQUIRE is set", args...)
	}
	t.Skipf(format, args...)
}

// Run runs a program in a folder, the test's own if dir is "", and returns its standard output. If the program fails,
// the test fails with its output.
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

// patience is how long a loop device may take to release its file.
const patience = time.Minute

// Loop makes a loop device for a file until the test ends, with further options for losetup, and returns its path. The
// kernel detaches a device only after its last user has closed it, and a program that lists loop devices is a user for
// a moment. So the cleanup waits until the file is released and its file system can be unmounted.
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

// LetGo waits until no loop device uses a file, and fails the test if one keeps it.
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

// Seal computes the checksum of a VHDX header or region table again; b is all of it. Without it a reader would stop at
// the checksum and never see other damage.
func Seal(b []byte) {
	clear(b[4:8])
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
