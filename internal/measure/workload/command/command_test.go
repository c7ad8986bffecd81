//go:build unix

package command

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/record"
)

// try takes one trial through its life as a worker does.
func try(t testing.TB, dir string, work int64, given map[string]string) (b *workload.Bench, err error) {
	t.Helper()
	k := Kinds()[0]
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.New(p)
	if err != nil {
		return nil, err
	}
	ctx := t.Context()
	b = &workload.Bench{Dir: dir, Work: work, Seed: 7}
	defer func() { err = errors.Join(err, w.Cleanup(b)) }()
	if err := w.Setup(ctx, b); err != nil {
		return b, err
	}
	start := time.Now()
	if err := w.Measure(ctx, b); err != nil {
		return b, err
	}
	b.Elapsed = time.Since(start)
	return b, w.(workload.Reporter).Report(b)
}

func must(t testing.TB, dir string, work int64, given map[string]string) *workload.Bench {
	t.Helper()
	b, err := try(t, dir, work, given)
	if err != nil {
		t.Fatalf("%v: %v", given, err)
	}
	return b
}

// failed returns the failure that a trial must end in.
func failed(t testing.TB, given map[string]string) *record.Failure {
	t.Helper()
	_, err := try(t, t.TempDir(), 2, given)
	var f *record.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%v gave %v, want a failure", given, err)
	}
	return f
}

func TestTimeOfASleep(t *testing.T) {
	b := must(t, t.TempDir(), 3, map[string]string{"command": "sleep 0.05", "shell": "none"})
	if s := b.Metrics["seconds"]; s < 0.05 || s > 5 {
		t.Errorf("sleep 0.05 takes %v s", s)
	}
	if n := len(b.Samples["seconds"]); n != 3 {
		t.Errorf("%d samples of 3 runs", n)
	}
	if b.Metrics["max_rss_bytes"] < 100<<10 {
		t.Errorf("max_rss_bytes is %v", b.Metrics["max_rss_bytes"])
	}
	if b.State["shell_ns"] != "" {
		t.Error("a shell was measured though none is used")
	}
}

// TestShellStartIsSubtracted compares the same sleep with and without a shell: the samples hold the shell, the mean
// does not.
func TestShellStartIsSubtracted(t *testing.T) {
	b := must(t, t.TempDir(), 3, map[string]string{"command": "sleep 0.05; true"})
	shell, err := strconv.ParseFloat(b.State["shell_ns"], 64)
	if err != nil || shell <= 0 {
		t.Fatalf("shell_ns is %q", b.State["shell_ns"])
	}
	sum := 0.0
	for _, s := range b.Samples["seconds"] {
		sum += s
	}
	if got, want := b.Metrics["seconds"], sum/3-shell/1e9; got < want-1e-6 || got > want+1e-6 {
		t.Errorf("seconds is %v, the samples less the shell are %v", got, want)
	}
}

func TestCPUTimeIsCounted(t *testing.T) {
	b := must(t, t.TempDir(), 1, map[string]string{"command": "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"})
	// It takes a tenth of a second of a processor, and on a busy machine any time to get it.
	if u, s := b.Metrics["user_seconds"], b.Metrics["seconds"]; u < 0.01 || u > 2*s {
		t.Errorf("a busy loop of %v s used %v s", s, u)
	}
}

// TestStagesInOrder lets every stage write its name.
func TestStagesInOrder(t *testing.T) {
	for work, want := range map[int64]string{1: "P C E X", 3: "P C E P C E P C E X"} {
		dir := t.TempDir()
		b := must(t, dir, work, map[string]string{
			"command": "sleep 0.01; echo C >> log", "prepare": "echo P >> log", "conclude": "echo E >> log",
			"cleanup": "echo X >> log"})
		got, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
			t.Errorf("%d runs: %q, %v; want %q", work, got, err, want)
		}
		if (b.State["outer_comparable"] == "false") != (work > 1) {
			t.Errorf("%d runs: outer_comparable is %q", work, b.State["outer_comparable"])
		}
	}
	k := Kinds()[0]
	p, _ := k.Resolve(map[string]string{"command": "true", "prepare": "true"})
	if n := k.WorkLimit(p); n != 1 {
		t.Errorf("a prepared trial may be %d runs", n)
	}
}

// TestSetupRunsOnce takes two trials through their lives in one environment, and one in another.
func TestSetupRunsOnce(t *testing.T) {
	given := map[string]string{"setup": "echo S >>log; echo sleep 0.01 >made", "prepare": "echo P >>log",
		"command": ". ./made"}
	dir := t.TempDir()
	for range 2 {
		must(t, dir, 1, given)
	}
	other := t.TempDir()
	must(t, other, 1, given)
	for dir, want := range map[string]string{dir: "S P P", other: "S P"} {
		got, err := os.ReadFile(filepath.Join(dir, "log"))
		if err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	// It may make the program itself, and what failed is tried again.
	dir = t.TempDir()
	given = map[string]string{"setup": "echo x >>tries; printf '#!/bin/sh\nsleep 0.01\n' >own; chmod +x own; " +
		"test $(grep -c x tries) = 2", "command": "./own"}
	if _, err := try(t, dir, 1, given); err == nil || !strings.Contains(err.Error(), "setup ended with exit code 1") {
		t.Errorf("a setup that fails: %v", err)
	}
	must(t, dir, 1, given)
	k := Kinds()[0]
	p, _ := k.Resolve(map[string]string{"command": "true", "setup": "make", "timeout": "1m"})
	if k.UnitTime(p) != 2*time.Minute || k.WorkLimit(p) != maxRuns {
		t.Errorf("with a setup, a run may take %v, and a trial be %d runs", k.UnitTime(p), k.WorkLimit(p))
	}
}

func TestConcludeAndCleanupFollowAFailure(t *testing.T) {
	dir := t.TempDir()
	_, err := try(t, dir, 1, map[string]string{"command": "exit 3", "conclude": "echo E >> log",
		"cleanup": "echo X >> log"})
	if err == nil {
		t.Fatal("exit 3 is no failure")
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "log")); string(got) != "E\nX\n" {
		t.Errorf("after a failure the stages were %q", got)
	}
}

func TestFailuresCarryEvidence(t *testing.T) {
	for _, c := range []struct {
		given         map[string]string
		message, said string
		kind          string
	}{
		{map[string]string{"command": "echo the disk is gone >&2; exit 3"}, "exit code 3, expected 0",
			"the disk is gone", "measure"},
		{map[string]string{"command": "nothing-of-that-name,a=b,shell=none"}, "; shell= was taken as part of the " +
			"command",
			"not found", "measure"},
		{map[string]string{"command": "kill -SEGV $$"}, "killed by a signal: segmentation fault", "", "measure"},
		{map[string]string{"command": "true", "prepare": "echo no >&2; false"}, "prepare ended with exit code 1", "no",
			"setup"},
		{map[string]string{"command": "true", "setup": "echo no compiler >&2; exit 2"}, "setup ended with exit code " +
			"2, expected 0; setup must succeed before anything is timed", "no compiler", "setup"},
		{map[string]string{"command": "sleep 600", "timeout": "100ms"}, "did not end within 100ms", "", "measure"},
		{map[string]string{"command": "echo nothing here", "metric": "x:s:lower:re:took=(\\d+)"}, "no match",
			"nothing here", "measure"},
		{map[string]string{"command": "echo on stdout; exit 1", "metric": "x:s:lower:re:took=(\\d+)"}, "exit code 1",
			"on stdout", "measure"},
	} {
		begin := time.Now()
		f := failed(t, c.given)
		if !strings.Contains(f.Message, c.message) || !strings.Contains(f.Evidence, c.said) || f.Kind != c.kind {
			t.Errorf("%v: %+v; want %q and %q", c.given, f, c.message, c.said)
		}
		if time.Since(begin) > time.Minute {
			t.Errorf("%v: took %v", c.given, time.Since(begin))
		}
	}
}

func TestExpectedExitCode(t *testing.T) {
	b := must(t, t.TempDir(), 2, map[string]string{"command": "sleep 0.01; exit 7", "exit": "7"})
	if b.Checks["exit"] != "7" {
		t.Errorf("checks: %v", b.Checks)
	}
}

func TestWhatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		given map[string]string
		want  string
	}{
		{map[string]string{"command": "no-such-program-here", "shell": "none"}, `no program "no-such-program-here"`},
		{map[string]string{"command": "true", "shell": "no-such-shell"}, "use shell=none"},
		{map[string]string{"command": "./nothing", "shell": "none"}, "no such file"},
		{map[string]string{"command": "true", "dir": "/no/such/dir"}, "dir=/no/such/dir"},
		{map[string]string{"command": "cat", "input": "/no/such/file"}, "open the command's input"},
		{map[string]string{"command": "'open", "shell": "none"}, "not closed"},
		{map[string]string{"command": "true", "timeout": "0s"}, "above 0"},
	} {
		if _, err := try(t, t.TempDir(), 1, c.given); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gave %v; want %q", c.given, err, c.want)
		}
	}
}

func TestInputIsReadByEveryRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte("42\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := must(t, dir, 3, map[string]string{"command": "cat", "shell": "none", "input": filepath.Join(dir, "in"),
		"metric": "answer:n:higher:re:(\\d+)"})
	if b.Metrics["answer"] != 42 || len(b.Samples["answer"]) != 3 {
		t.Errorf("%v, %v", b.Metrics, b.Samples)
	}
	if ms := metricsFor(workload.Params{"preset": presetNone, "metric": "answer:n:higher:re:(\\d+)"}); !ms[0].Primary ||
		ms[0].Name != "answer" || ms[1].Primary {
		t.Errorf("the extracted figure is not the headline: %v", ms)
	}
}

// TestLongOutput writes more than a pipe holds, more than is kept, and to a pipe that nobody may make non-blocking.
func TestLongOutput(t *testing.T) {
	b := must(t, t.TempDir(), 1,
		map[string]string{"command": "head -c 4000000 /dev/zero | tr '\\0' x; echo; echo end=5",
			"metric": "x:n:higher:re:end=(\\d)"})
	if b.Metrics["x"] != 5 {
		t.Errorf("%v", b.Metrics)
	}
	_, err := try(t, t.TempDir(), 1, map[string]string{"command": "head -c 9000000 /dev/zero",
		"metric": "x:n:higher:re:end=(\\d)"})
	if err == nil || !strings.Contains(err.Error(), "longer than 8 MiB") {
		t.Errorf("9 MB of output gave %v", err)
	}
	f := failed(t,
		map[string]string{"command": "head -c 3000000 /dev/zero | tr '\\0' y >&2; echo last words >&2; exit 1"})
	if len(f.Evidence) > maxTail || !strings.HasSuffix(f.Evidence, "last words") {
		t.Errorf("evidence of %d bytes ends with %q", len(f.Evidence), f.Evidence[max(0, len(f.Evidence)-20):])
	}
}

// gone waits for a process to be no more (or a zombie that somebody else has to reap).
func gone(pid int) bool {
	for range 3000 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		if stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil &&
			strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

func pidFrom(t *testing.T, path string) int {
	t.Helper()
	for range 3000 {
		text, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			return pid
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("no pid in %s", path)
	return 0
}

func TestNothingIsLeftRunning(t *testing.T) {
	for name, given := range map[string]map[string]string{
		"background": {"command": "sleep 600 & echo $! > pid"},
		"pipe held":  {"command": "sleep 600 & echo $! > pid; echo n=1", "metric": "n:n:lower:re:n=(\\d)"},
		"timeout":    {"command": "sleep 600 & echo $! > pid; wait", "timeout": "2s"},
		"stubborn":   {"command": "trap '' TERM; sleep 600 & echo $! > pid; wait; wait", "timeout": "2s"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := try(t, dir, 1, given)
			if (err != nil) != (given["timeout"] != "") {
				t.Errorf("error is %v", err)
			}
			if pid := pidFrom(t, filepath.Join(dir, "pid")); !gone(pid) {
				t.Errorf("process %d is left running", pid)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

func TestCancelEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	k := Kinds()[0]
	p, err := k.Resolve(map[string]string{"command": "sleep 600 & echo $! > pid; wait"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Dir: dir, Work: 5}
	defer w.Cleanup(b)
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for range 3000 {
			if st, err := os.Stat(filepath.Join(dir, "pid")); err == nil && st.Size() > 0 {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	begin := time.Now()
	if err := w.Measure(ctx, b); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled trial gave %v", err)
	}
	if time.Since(begin) > time.Minute {
		t.Errorf("it took %v", time.Since(begin))
	}
	if pid := pidFrom(t, filepath.Join(dir, "pid")); !gone(pid) {
		t.Errorf("process %d is left running", pid)
	}
}

func TestManyRuns(t *testing.T) {
	b := must(t, t.TempDir(), 300, map[string]string{"command": "true", "shell": "none"})
	if len(b.Samples["seconds"]) != 300 || b.State["runs"] != "300" {
		t.Errorf("%d samples, %s runs", len(b.Samples["seconds"]), b.State["runs"])
	}
}

// TestInjectedRunsCost does a run more than is reported, as the positive control of tare does: it must show.
func TestInjectedRunsCost(t *testing.T) {
	k := Kinds()[0]
	p, err := k.Resolve(map[string]string{"command": "sleep 0.05", "shell": "none"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Dir: t.TempDir(), Work: 2}
	defer w.Cleanup(b)
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Work = 4
	if err := w.Measure(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	b.Work = 2
	if err := w.(workload.Reporter).Report(b); err != nil {
		t.Fatal(err)
	}
	if s := b.Metrics["seconds"]; s < 0.1 {
		t.Errorf("twice the runs for the same work cost %v s each, want 0.1 at least", s)
	}
}
