package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/workload/matrix"
)

// iozoneRun runs the command as a user would and returns what it printed and its exit code.
func iozoneRun(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	code, out, errOut = typed("", append([]string{"iozone"}, args...)...)
	return out, errOut, code
}

func TestIozone(t *testing.T) {
	for _, c := range []struct {
		args string
		rows int
		want []string
		not  []string
	}{
		{"-a -g 128k", 11, []string{matrix.Header, "Median of at least 5 samples, data random, verified",
			"*s  no figure in 10 cells: with fewer than 26 records"}, []string{"Excel output", "Spread"}},
		{"-Rac -g 64k -i 0 -i 1", 5, []string{"Include close in write timing",
			"Excel output is below:\n\n\"Writer report\"\n        \"4\"  \"8\"", "\"Re-Reader report\""},
			[]string{"Random read report", "*s"}},
		{"--preset direct4k -s 1m -f /var/tmp", 1,
			[]string{"O_DIRECT feature enabled", "Include fsync in write timing", "            1024       4 "},
			[]string{"*d"}},
		{"--compat -s 256k -r 16k", 1, []string{"one sample, data iozone"}, []string{"*s"}},
		{"-s 1m -r 64k -i 2 --spread", 1, []string{"Spread of the samples"}, nil},
		{"-a -g 256k -i 5", 18, []string{"*s  no figure in 15 cells"}, nil},
		{"-s 64k -s 128k -r 4k -r 8k -i 0", 4, nil, nil},
		{"-s 64k,128k -r 4k,8k -i 0", 4, nil, nil},
		{"-I -s 1m -r 4k -i 0 -i 6 -f /var/tmp", 1, []string{"*b", "stdio cannot use direct I/O"}, nil},
	} {
		t.Run(c.args, func(t *testing.T) {
			args := strings.Fields(c.args)
			dir := t.TempDir()
			if !strings.Contains(c.args, "-f ") {
				args = append(args, "-f", dir)
			}
			out, errOut, code := iozoneRun(t, args...)
			if code != exitOK || errOut != "" {
				t.Fatalf("exit code %d: %s", code, errOut)
			}
			_, table, _ := strings.Cut(out, matrix.Header)
			table, _, _ = strings.Cut(table, "\n\niozone test complete.\n")
			if n := len(strings.Split(table, "\n")); n != c.rows {
				t.Errorf("%d rows, want %d:\n%s", n, c.rows, out)
			}
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("the output lacks %q:\n%s", w, out)
				}
			}
			for _, w := range c.not {
				if strings.Contains(out, w) {
					t.Errorf("the output has %q:\n%s", w, out)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestIozoneLeavesFilesAlone gives -f the name of a file that exists, as people do with iozone, which overwrites it.
func TestIozoneLeavesFilesAlone(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "precious")
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut, code := iozoneRun(t, "-s", "64k", "-r", "4k", "-i", "0", "-f", name); code != exitOK {
		t.Fatal(errOut)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "mine" {
		t.Errorf("the file now holds %q, %v", text, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("the directory holds %v", left)
	}
}

func TestIozoneUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-s 64k -t 4": "-t (in iozone: throughput with several processes) is not supported " +
			"here; use tare run -w fs.seqwrite:threads=N",
		"-t 2 -F a b":                       "threads=N",
		"-U /mnt -s 64k":                    "use --cold",
		"-s 64k -B":                         "engine=mmap",
		"-s 64k -+u":                        "-+u (in iozone: iozone's extended options)",
		"-s 64k -O":                         "operations per second",
		"-i 9":                              "test 9 is not in the matrix",
		"-s 0":                              "is not a size",
		"-s 4k -r 64k":                      "nothing to measure",
		"-b out.xls":                        "writes no worksheet",
		"-f /nowhere/at/all":                "give a directory that exists",
		"--preset fast":                     "Racb, direct4k",
		"--compat --samples 9":              "takes one sample",
		"--compat --cold":                   "leave out cache=cold",
		"-I --cold":                         "leave out cache=cold",
		"--data noise":                      "random, zero or iozone",
		"--samples 0":                       "samples=0",
		"-s 64k -r 4k -i 5":                 "is mostly sequential",
		"-a -n 99999999999999999999g":       "is not a size",
		"-a -n 1g -g 64k":                   "nothing to measure",
		"-g 64M -a --data iozone extra-arg": "takes no arguments, but got extra-arg",
	} {
		_, errOut, code := iozoneRun(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q; want %d and %q", args, code, errOut, exitUsage, want)
		}
	}
}

func FuzzIozoneSize(f *testing.F) {
	for _, s := range []string{"64", "64k", "64M", "1g", "", "k", "-1", "9223372036854775807g", "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := iozoneSize(s); err == nil && (n < 1024 || n%1024 != 0) {
			t.Errorf("%q is %d bytes", s, n)
		}
	})
}

// What is one word of iozone is one of a plan: the rows of its matrix, each told by its size and record.
func TestPresetOfAPlan(t *testing.T) {
	for preset, want := range map[string]struct {
		rows int
		one  string
	}{"Racb": {126, "fs.matrix size=512MiB bs=16MiB preset=Racb"},
		"direct4k": {1, "fs.matrix bs=4KiB preset=direct4k"}} {
		file := filepath.Join(t.TempDir(), "plan.yaml")
		if err := os.WriteFile(file, []byte("environments: [host]\nworkloads:\n  - fs.matrix: {preset: "+preset+"}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"-e", "host", "-w", "fs.matrix:preset=" + preset}, {file}} {
			code, out, errOut := typed("", append([]string{"run", "--dry-run"}, args...)...)
			text := strings.Join(strings.Fields(out+errOut), " ")
			if n := strings.Count(text, "preset="+preset); code != exitOK || n != want.rows ||
				!strings.Contains(text, want.one) {
				t.Errorf("%v: exit code %d, %d workloads, want %d with %s:\n%s", args, code, n, want.rows, want.one,
					text)
			}
		}
	}
}
