package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// running tells whether a process exists and is more than a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}

// ignores tells whether a process ignores a signal.
func ignores(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nSigIgn:")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<(s-1)) != 0
}

// patience bounds what must come at some time, however busy the machine is.
const patience = 2 * time.Minute

func waitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			syscall.Kill(pid, syscall.SIGKILL)
			t.Fatalf("process %d still runs after %v", pid, patience)
		}
	}
}

// firstPid reads a process number from the first line of a stream.
func firstPid(t *testing.T, r io.Reader) int {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("read process number: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestRunReportsFailure(t *testing.T) {
	out, err := Run(t.Context(), strings.NewReader("in"), "sh", "-c", `cat; printf 'bad \033[31mthing' >&2; exit 7`)
	x, ok := errors.AsType[*ExitError](err)
	if !ok || x.Code != 7 || string(out) != "in" {
		t.Fatalf("out %q, error %v", out, err)
	}
	if x.Stderr != `bad \x1b[31mthing` {
		t.Errorf("standard error %q", x.Stderr)
	}
}

func TestRunBoundsOutput(t *testing.T) {
	out, err := Run(t.Context(), nil, "head", "-c", strconv.Itoa(MaxOutput+1<<20), "/dev/zero")
	if err != nil || len(out) != MaxOutput {
		t.Errorf("%d bytes kept, error %v", len(out), err)
	}
}

func TestCancelSweepsGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		// The grandchild writes its number when its trap is set: a signal before would end it, and show nothing.
		"leader obeys":  `sh -c 'trap "" TERM; echo $$ >"$0"; exec sleep 600' "$0" & wait`,
		"leader defies": `trap '' TERM; sh -c 'echo $$ >"$0"; exec sleep 600' "$0" & wait; sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := t.TempDir() + "/pid"
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := Run(ctx, nil, "sh", "-c", script, file)
				done <- err
			}()
			var pid int
			for end := time.Now().Add(patience); pid == 0; {
				if time.Now().After(end) {
					t.Fatal("the grandchild did not start")
				}
				time.Sleep(10 * time.Millisecond)
				b, _ := os.ReadFile(file)
				if bytes.HasSuffix(b, []byte("\n")) {
					pid = firstPid(t, bytes.NewReader(b))
				}
			}
			if !running(pid) || !ignores(t, pid, syscall.SIGTERM) {
				t.Fatal("the grandchild must run, and ignore the polite signal, before it is stopped")
			}
			cancel()
			select {
			case err := <-done:
				if err == nil {
					t.Error("a stopped command must report an error")
				}
			case <-time.After(patience):
				t.Fatal("Run did not return")
			}
			waitGone(t, pid)
		})
	}
}

// A grandchild in a session of its own keeps the pipes and is out of reach of the group's signals.
func TestEscapedGrandchildDoesNotHoldUs(t *testing.T) {
	t.Parallel()
	s, err := Start(Command(context.Background(), "sh", "-c", `setsid sh -c 'echo $$; exec sleep 600' & read end`))
	if err != nil {
		t.Fatal(err)
	}
	pid := firstPid(t, s)
	defer syscall.Kill(pid, syscall.SIGKILL)
	s.CloseWrite() // its parent ends
	start := time.Now()
	if _, err := io.ReadAll(s); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read ends with %v", err)
	}
	if d := time.Since(start); d > patience {
		t.Errorf("the reader was held for %v", d)
	}
	if !running(pid) {
		t.Error("the grandchild was to outlive its parent, or this test shows nothing")
	}
	s.Close()
}

func TestStreamCloseLadder(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"input end": `echo $$; cat >/dev/null`,
		"terminate": `echo $$; exec sleep 600`,
		"kill":      `trap '' TERM; echo $$; while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Start(Command(context.Background(), "sh", "-c", script))
			if err != nil {
				t.Fatal(err)
			}
			pid := firstPid(t, s)
			if pid != s.Pid() {
				t.Errorf("pid %d, want %d", s.Pid(), pid)
			}
			s.Close()
			s.Close()
			waitGone(t, pid)
			if _, err := s.Read(make([]byte, 1)); err == nil {
				t.Error("a closed stream must not read")
			}
		})
	}
}

func TestStreamEndSweepsGroupAndDiagnoses(t *testing.T) {
	s, err := Start(Command(context.Background(), "sh", "-c",
		`sleep 600 & echo $!; echo 'cannot go on' >&2; kill -9 $$`))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pid := firstPid(t, s)
	if _, err := io.ReadAll(s); err != nil {
		t.Errorf("read to the end: %v", err)
	}
	waitGone(t, pid)
	<-s.Done()
	if d := string(s.Diagnose()); !strings.Contains(d, "cannot go on\n[sh: signal: killed]") {
		t.Errorf("diagnosis %q", d)
	}
	if s.Signal(os.Interrupt) != os.ErrProcessDone || s.Kill() != os.ErrProcessDone {
		t.Error("a child that has ended is sent signals")
	}
}

// TestParentDeath starts this test binary as a controller that is then killed.
func TestParentDeath(t *testing.T) {
	const role = "TARE_PROC_TEST_ROLE"
	if r := os.Getenv(role); r != "" {
		cmd := Command(context.Background(), "sh", "-c",
			`trap 'echo asked >"$0"; exit' TERM; echo $$ >&3; while :; do sleep 0.1; done`,
			os.Getenv("TARE_PROC_TEST_FILE"))
		cmd.ExtraFiles = []*os.File{os.Stdout}
		if r == "gentle" {
			GentleDeath(cmd)
		}
		if _, err := Start(cmd); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
	}
	for _, r := range []string{"hard", "gentle"} {
		file := t.TempDir() + "/asked"
		parent := exec.Command(os.Args[0], "-test.run=^TestParentDeath$")
		parent.Env = append(os.Environ(), role+"="+r, "TARE_PROC_TEST_FILE="+file)
		out, err := parent.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		pid := firstPid(t, out)
		parent.Process.Kill()
		parent.Wait()
		waitGone(t, pid)
		if _, err := os.Stat(file); (err == nil) != (r == "gentle") {
			t.Errorf("%s: the child was asked to stop: %v", r, err == nil)
		}
	}
}
