package matrix

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// need skips a test for want of a program, and fails it where everything must be there.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := proc.LookPath(program)
	if err == nil {
		return path
	}
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%s is not installed, and TARE_REQUIRE is set", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// traced runs a program under strace and returns its calls on the file of the name given, one each line: the call with
// its sizes and offsets, and each opening with its flags but O_CLOEXEC. The descriptors are followed; calls on others
// are left out.
func traced(t *testing.T, name string, argv ...string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "strace")
	args := append([]string{need(t, "strace"), "-f", "-s", "0", "-o", out, "-e",
		"trace=sync,creat,open,openat,close,read,write,lseek,fsync,ftruncate,unlink,unlinkat"}, argv...)
	if text, err := proc.Run(context.Background(), nil, args...); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return calls(t, string(text), name)
}

var (
	callLine = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (-?\d+)`)
	flagList = regexp.MustCompile(`O_[A-Z_|]+`)
)

// calls reads strace's output.
func calls(t *testing.T, text, name string) []string {
	t.Helper()
	var seen []string
	open := map[string]bool{}
	for _, line := range strings.Split(joinUnfinished(text), "\n") {
		m := callLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		call, args, result := m[1], m[2], m[3]
		fd, rest, _ := strings.Cut(args, ",")
		switch call {
		case "sync":
			seen = append(seen, "sync")
		case "creat", "open", "openat":
			if !strings.Contains(args, "/"+name+"\"") && !strings.Contains(args, "\""+name+"\"") || result[0] == '-' {
				continue
			}
			open[result] = true
			seen = append(seen, "open "+opening(call, args))
		case "unlink", "unlinkat":
			if strings.Contains(args, "/"+name+"\"") && result == "0" {
				seen = append(seen, "unlink")
			}
		default:
			if !open[fd] {
				continue
			}
			if call == "close" {
				delete(open, fd)
			}
			fields := strings.Split(strings.TrimSpace(rest), ", ")
			seen = append(seen, strings.TrimSpace(call+" "+sizes(call, fields)))
		}
	}
	return seen
}

// joinUnfinished puts together calls that strace shows in two parts because another thread came between.
func joinUnfinished(text string) string {
	var lines []string
	waiting := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		pid, _, _ := strings.Cut(line, " ")
		if head, ok := strings.CutSuffix(line, " <unfinished ...>"); ok {
			waiting[pid] = head
			continue
		}
		if _, tail, ok := strings.Cut(line, " resumed>"); ok {
			line = waiting[pid] + tail
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// opening returns the flags that a file is opened with, in order, without O_CLOEXEC, which no file system is told.
func opening(call, args string) string {
	if call == "creat" { // which is open(2) with these
		return "O_CREAT|O_TRUNC|O_WRONLY"
	}
	flags := strings.Split(flagList.FindString(args), "|")
	slices.Sort(flags)
	return strings.Join(slices.DeleteFunc(flags, func(f string) bool { return f == "O_CLOEXEC" }), "|")
}

func sizes(call string, fields []string) string {
	switch call {
	case "read", "write":
		return fields[len(fields)-1]
	case "lseek":
		return strings.Join(fields, " ")
	}
	return ""
}

// named runs a program under strace with the names of descriptors shown, and returns its openings, with their flags,
// and its reads and writes of the file, /dev/zero and /dev/null in order.
func named(t *testing.T, file string, argv ...string) []string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "strace")
	args := append([]string{need(t, "strace"), "-f", "-y", "-s", "0", "-o", out, "-e", "trace=openat,read,write"},
		argv...)
	if text, err := proc.Run(context.Background(), nil, args...); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	short := map[string]string{file: "file", "/dev/zero": "zero", "/dev/null": "null"}
	for _, m := range namedCall.FindAllStringSubmatch(joinUnfinished(string(text)), -1) {
		switch {
		case m[1] == "openat" && short[m[5]] != "":
			seen = append(seen, "openat "+short[m[5]]+" "+opening(m[1], m[3]))
		case m[1] != "openat" && short[m[2]] != "":
			seen = append(seen, m[1]+" "+short[m[2]]+" "+m[4])
		}
	}
	return seen
}

// namedCall is the call, the file of its first argument, the others, the result and the file of that.
var namedCall = regexp.MustCompile(`(?m)^\d+ +(read|write|openat)\([^<]*<([^>]*)>(.*)\) += (\d+)(?:<([^>]*)>)?$`)

// diskDir is a directory on a file system with direct I/O.
func diskDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "tare-matrix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
