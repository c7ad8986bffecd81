package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// tareBinary is the real program that the scripts run: TARE_BIN, which `make test` sets to what `make build` made, or one
// built for this test.
var tareBinary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tare-script-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tareBinary = filepath.Join(dir, "tare")
	if built := os.Getenv("TARE_BIN"); built != "" {
		err = os.Symlink(built, tareBinary)
	} else {
		var out []byte
		cmd := exec.Command("go", "build", "-o", tareBinary, "tare/cmd/tare")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestScripts runs testdata/script/*.txtar against the real binary and real environments.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "../../testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(tareBinary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			// Guest kernels are cached outside the tree; the scripts use the cache of whoever runs the tests.
			if cache, err := os.UserCacheDir(); err == nil {
				e.Setenv("XDG_CACHE_HOME", cache)
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch {
			case cond == "root":
				return os.Getuid() == 0, nil
			case cond == "require":
				return os.Getenv("TARE_REQUIRE") != "", nil
			case cond == "full":
				return !testing.Short(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"interrupt": interrupt,
			"flip":      flip,
			"truncate":  truncate,
			"settle":    settle,
		},
	})
}

// exits runs a command and checks its exit code: exits CODE COMMAND... Its streams can be looked at as after exec.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if x, ok := errors.AsType[*exec.ExitError](err); ok {
		got = x.ExitCode()
	} else if err != nil {
		ts.Fatalf("run %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("%v exited with %d, want %d", args[1:], got, want)
	}
}

// interrupt starts a command, waits until a file has a number of lines, sends a signal and waits for the end:
// interrupt INT|KILL FILE LINES COMMAND... Its exit code does not matter; its standard error is in the file stderr.txt.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt INT|KILL FILE LINES COMMAND...")
	}
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[args[0]]
	file, lines := ts.MkAbs(args[1]), 0
	if n, err := strconv.Atoi(args[2]); err == nil {
		lines = n
	}
	program, err := exec.LookPath(filepath.Join(filepath.Dir(tareBinary), args[3]))
	ts.Check(err)
	cmd := exec.Command(program, args[4:]...)
	cmd.Dir = ts.Getenv("WORK")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	cmd.WaitDelay = 10 * time.Second
	ts.Check(cmd.Start())
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if b, err := os.ReadFile(file); err == nil && bytes.Count(b, []byte("\n")) >= lines {
			break
		}
		if time.Now().After(deadline) {
			cmd.Process.Kill()
			cmd.Wait()
			ts.Fatalf("%s never had %d lines:\n%s", args[1], lines, stderr.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Check(cmd.Process.Signal(sig))
	cmd.Wait()
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), stderr.Bytes(), 0o644))
}

// flip changes one digit in the middle of a file, as a person with an editor would: flip FILE.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	name := ts.MkAbs(args[0])
	b, err := os.ReadFile(name)
	ts.Check(err)
	for i := len(b) / 2; i < len(b); i++ {
		if b[i] >= '1' && b[i] <= '8' {
			b[i]++
			ts.Check(os.WriteFile(name, b, 0o644))
			return
		}
	}
	ts.Fatalf("no digit in %s", name)
}

// truncate cuts the last bytes off a file: truncate FILE BYTES.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()-int64(n)))
}

// settle waits until no process on this machine has the word in its command line: settle WORD.
func settle(ts *testscript.TestScript, neg bool, args []string) {
	for range 100 {
		if len(processesWith(args[0])) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("still running: %v", processesWith(args[0]))
}

func processesWith(word string) []string {
	var found []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/cmdline")
		line := strings.ReplaceAll(string(b), "\x00", " ")
		if err == nil && strings.Contains(line, word) && d != fmt.Sprintf("/proc/%d", os.Getpid()) {
			found = append(found, filepath.Base(d)+" "+line)
		}
	}
	return found
}
