//go:build linux && (amd64 || arm64) && !portable

package developer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/proc"
)

// The role that this test binary takes when strace runs it: one trial of a kind, with marks around Measure.
const (
	roleEnv = "TARE_TEST_TRACED"
	mark    = "/no-such-mark"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(roleEnv); name != "" {
		os.Exit(traced(name))
	}
	trialtest.InMemory()
	os.Exit(m.Run())
}

// traced runs a trial and returns the exit code.
func traced(line string) int {
	runtime.LockOSThread() // as a worker does
	name, rest, _ := strings.Cut(line, " ")
	given := map[string]string{}
	for _, kv := range strings.Fields(rest) {
		k, v, _ := strings.Cut(kv, "=")
		given[k] = v
	}
	for _, k := range Kinds() {
		if k.Name != name {
			continue
		}
		p, err := k.Resolve(with(small[name], given))
		if err == nil {
			var w workload.Trial
			if w, err = k.New(p); err == nil {
				err = workload.Drive(context.Background(), marked{w},
					&workload.Bench{Dir: os.Getenv("TARE_TEST_DIR"), Home: os.Getenv("TARE_TEST_DIR"), Work: 1,
						Seed: 7})
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	return 2
}

type marked struct{ workload.Trial }

func (m marked) Measure(ctx context.Context, b *workload.Bench) error {
	_ = unix.Access(mark, 0)
	err := m.Trial.Measure(ctx, b)
	_ = unix.Access(mark, 0)
	return err
}

func (m marked) Report(b *workload.Bench) error { return m.Trial.(workload.Reporter).Report(b) }

var call = regexp.MustCompile(`^(\w+)\(.*\) += (-?\d+)( E\w+)?`)

// trace runs one unit of a kind under strace and returns the system calls of Measure: name, and error if there was one.
// Those of Go's runtime on other threads are left out, and those that enter and leave the folder.
func trace(t *testing.T, line string) []string {
	t.Helper()
	needProgram(t, "strace")
	dir := t.TempDir()
	// A file for each thread (-ff), because the lines of several in one are cut where they overlap.
	cmd := proc.Command(t.Context(), "strace", "-ff", "-qq", "-e", "trace=%file,%desc,fcntl", "-e", "signal=none", "-o",
		filepath.Join(dir, "trace"), os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+line, "TARE_TEST_DIR="+t.TempDir())
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		if strings.Contains(strings.ToLower(err.Error()), "ptrace") {
			missing(t, "this system does not let strace trace: "+err.Error())
		}
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "trace.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if parts := strings.Split(string(text), `"`+mark+`"`); len(parts) == 3 {
			calls := callsIn(t, parts[1])
			n := len(calls)
			if n < 4 || calls[0] != "openat" || calls[1] != "fchdir" || calls[n-2] != "fchdir" ||
				calls[n-1] != "close" {
				t.Fatalf("%s does not enter its folder first and leave it last: %v", line, calls)
			}
			return calls[2 : n-2]
		}
	}
	t.Fatalf("no thread of %d in the trace of %s has both marks", len(files), line)
	return nil
}

// callsIn reads what lies between the marks: the end of the line of the first, and the beginning of that of the second.
func callsIn(t *testing.T, text string) []string {
	t.Helper()
	lines := strings.Split(text, "\n")
	var calls []string
	for _, l := range lines[1 : len(lines)-1] {
		m := call.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("a line of the trace cannot be read: %s", l)
		}
		if m[1] != "mmap" && m[1] != "munmap" { // no kind maps memory; Go's runtime may at any time
			calls = append(calls, m[1]+m[3])
		}
	}
	return calls
}

// runs writes calls as "3 a, b".
func runs(calls []string) string {
	var out []string
	for i := 0; i < len(calls); {
		n := 1
		for i+n < len(calls) && calls[i+n] == calls[i] {
			n++
		}
		if n == 1 {
			out = append(out, calls[i])
		} else {
			out = append(out, fmt.Sprintf("%d %s", n, calls[i]))
		}
		i += n
	}
	return strings.Join(out, ", ")
}

// TestSystemCalls holds each kind to its sequence of system calls, which is that of the program it stands for.
func TestSystemCalls(t *testing.T) {
	const stat = "newfstatat"
	begin := "3 fcntl, " + stat + " ENOENT, pread64, " + stat + " ENOENT, fstat, fcntl, pread64, 2 " + stat +
		", openat, fstat, pwrite64, "
	through := "2 fcntl, 3 pwrite64, pread64, fdatasync, openat, fdatasync, close, pwrite64, fdatasync, 4 pwrite64, " +
		"fdatasync, "
	for line, want := range map[string]string{
		"dev.status":                        stat,
		"dev.edit dependants=3":             "openat, write, close, renameat2, 3 " + stat + ", openat, read, close",
		"dev.edit how=inplace dependants=2": "openat, write, close, 2 " + stat + ", openat, read, close",
		"dev.edit fsync=yes dependants=0":   "openat, write, fdatasync, close, renameat2, openat, read, close",
		"dev.journal": strings.Replace(begin, "pwrite64, ", "10 pwrite64, ", 1) + through +
			"close, unlinkat, 3 fcntl",
		"dev.journal mode=truncate": strings.Replace(begin, "pwrite64, ", "10 pwrite64, ", 1) + through +
			"ftruncate, fdatasync, close, 3 fcntl",
		"dev.journal mode=wal": "4 fcntl, pread64, 6 pwrite64, fdatasync, 2 fcntl, fdatasync, pread64, " +
			"pwrite64, pread64, pwrite64, pread64, pwrite64, fdatasync",
		"dev.journal mode=wal fsync=no": "4 fcntl, pread64, 6 pwrite64, 2 fcntl, pread64, pwrite64, pread64, " +
			"pwrite64, pread64, pwrite64",
		"dev.journal fsync=no locks=no": stat + " ENOENT, pread64, " + stat + " ENOENT, fstat, pread64, 2 " + stat +
			", openat, fstat, 13 pwrite64, pread64, 5 pwrite64, close, unlinkat",
		"dev.probe": "5 " + stat + " ENOENT, " + stat + ", openat, read, close, " + stat +
			", 3 " + stat + " ENOENT, " + stat + ", openat ENOENT, openat, read, close, " + stat + " ENOENT, " + stat +
			", openat, read, close",
		"dev.probe depth=1 candidates=0": stat + " ENOENT, " + stat + ", openat, read, close, 2 " + stat +
			", openat ENOENT, openat, read, close, " + stat + " ENOENT, " + stat + ", openat, read, close",
	} {
		if got := runs(trace(t, line)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

// TestWalkCalls: a directory is opened, listed until nothing comes, and closed; a file costs nothing where the file
// system tells types, and one unlink when it is removed.
func TestWalkCalls(t *testing.T) {
	count := func(calls []string) map[string]int {
		n := map[string]int{}
		for _, c := range calls {
			n[c]++
		}
		return n
	}
	got := count(trace(t, "dev.walk"))
	if got["openat"] != moduleDirs || got["close"] != moduleDirs || got["getdents64"] != 2*moduleDirs ||
		len(got) != 3 && got["newfstatat"] == 0 {
		t.Errorf("a walk of one module takes %v", got)
	}
	got = count(trace(t, "dev.remove"))
	if got["openat"] != moduleDirs || got["close"] != moduleDirs || got["getdents64"] != 2*moduleDirs ||
		got["unlinkat"] != moduleFiles+moduleDirs {
		t.Errorf("the removal of one module takes %v", got)
	}
	writes := 0
	for _, s := range sourceSizes {
		writes += (s + archiveRecord - 1) / archiveRecord
	}
	got = count(trace(t, "dev.unpack"))
	want := map[string]int{"mkdirat": moduleDirs, "openat": moduleFiles, "write": writes,
		"utimensat": moduleFiles + moduleDirs, "fchmod": moduleFiles, "close": moduleFiles}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("unpacking one module takes %d %s, want %d", got[name], name, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("unpacking one module takes %v", got)
	}
}

// TestCompileCalls holds a translation unit to the proportions that were measured on a real build.
func TestCompileCalls(t *testing.T) {
	calls := trace(t, "dev.compile")
	n := map[string]int{}
	for _, c := range calls {
		n[c]++
	}
	for name, want := range map[string]int{"openat ENOENT": 129, "read": 1 + headersPerUnit,
		"pwrite64": len(objectWrites), "pread64": objectReads + archiveReads + linkReads,
		"write": archiveWrites + linkWrites, "renameat2": 1, "newfstatat ENOENT": 3} {
		if n[name] != want {
			t.Errorf("a unit takes %d %s, want %d", n[name], name, want)
		}
	}
	const perRound = 3 * 2 // archive made, archive read, program made: opened and closed
	c := trial(t, "dev.compile", nil).(*compile)
	b := &workload.Bench{Dir: t.TempDir(), Work: 1, Seed: 7}
	if err := c.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	defer c.Cleanup(b)
	if want := c.callsPerUnit() + perRound; len(calls) != want {
		t.Errorf("a unit takes %d calls, and %d are told; %v", len(calls), want, n)
	}
	if i := slices.Index(calls, "renameat2"); i < 0 || !slices.Contains(calls[:i], "pwrite64") {
		t.Error("the object is not written before it is renamed")
	}
}

// TestWorkaroundCalls: on top of a build come, for each file that is copied, the calls of cp, and for each that is
// copied in the removal of the copy before it.
func TestWorkaroundCalls(t *testing.T) {
	count := func(line string) (map[string]int, int) {
		n, calls := map[string]int{}, trace(t, line)
		for _, c := range calls {
			n[c]++
		}
		return n, len(calls)
	}
	plain, before := count("dev.compile")
	got, after := count("dev.compile workaround=yes")
	in := 1 + headerClasses*headerVariants/5 // the source of one of five units, and a fifth of the headers
	copies := in + 3                         // object, archive and program
	for name, more := range map[string]int{"openat": 2 * copies, "close": 2 * copies, "fstat": copies,
		"read": 2 * copies, "write": copies, "unlinkat": in} {
		if got[name]-plain[name] != more {
			t.Errorf("the workaround takes %d %s more, want %d", got[name]-plain[name], name, more)
		}
	}
	if want := 8*copies + in; after-before != want {
		t.Errorf("the workaround takes %d calls more, want %d: %v", after-before, want, got)
	}
	a := &aside{units: 5, headers: make([]copied, headerClasses*headerVariants)}
	if want := after - before - 2*8; a.callsPerUnit() != want { // archive and program are copied once
		t.Errorf("%d calls are told, %d were made", a.callsPerUnit(), want)
	}
}

// TestPortable runs the tests of this package over the standard library, as platforms without bare system calls have
// it.
func TestPortable(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the package once more")
	}
	needProgram(t, "go")
	if out, err := proc.Run(t.Context(), nil, "go", "test", "-tags", "portable", "-count=1", "-run",
		"TestEveryKind/dev.[a-j]|TestSameSeed|TestForeign|TestWalker|TestReadOnly|TestFull", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
