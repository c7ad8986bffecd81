// Package disktest is for tests: the programs that disks, images and file systems are made with and checked by.
package disktest

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"

	"tare/internal/proc"
)

// Need skips a test that needs a program which is not installed, or fails it where everything has to run (TARE_REQUIRE).
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

// Run runs a program in a folder, the test's own when dir is "", and returns its standard output. One that fails fails the
// test, with what it said.
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

// Seal computes the checksum of a VHDX's header or table of regions anew, which b is the whole of. Without it no other
// damage would ever be reached.
func Seal(b []byte) {
	clear(b[4:8])
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
