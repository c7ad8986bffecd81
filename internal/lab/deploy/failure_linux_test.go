package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// fails runs a trial that must fail, and returns the failure.
func fails(t *testing.T, s *deploy.Conn, r wire.Run) *record.Failure {
	t.Helper()
	o, err := s.Run(within(t, patience), r)
	f, ok := errors.AsType[*record.Failure](err)
	if !ok {
		t.Fatalf("%s: got %v, want a failure", r.Kind, err)
	}
	if len(o.Result.Metrics) > 0 {
		t.Errorf("%s failed and still gave the figures %v", r.Kind, o.Result.Metrics)
	}
	return f
}

func TestFailedTrialsTellWhyAndTheAgentLivesOn(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	for _, c := range []struct {
		run                     wire.Run
		kind, message, evidence string
	}{
		{wire.Run{Job: job("t.panic"), Work: 1}, "panic", "t.panic panicked in measure: on purpose", "main_test.go"},
		{wire.Run{Job: job("t.gopanic"), Work: 1}, "panic", "in another goroutine", "main_test.go"},
		{wire.Run{Job: job("t.exit"), Work: 1}, "worker-died", "exit status 7", `\x1b[2Jlast words`},
		{wire.Run{Job: job("t.setup"), Work: 1}, "setup", "t.setup: setup: no such thing", ""},
		{wire.Run{Job: job("t.nan"), Work: 1}, "report", "rate = NaN", ""},
		{wire.Run{Job: job("t.silent"), Work: 1}, "report", "did not report rate", ""},
		{wire.Run{Job: job("t.extra"), Work: 1}, "report", "odd, which the kind does not declare", ""},
		{wire.Run{Job: job("t.spinn"), Work: 1}, "refused", `did you mean "t.spin"?`, ""},
		{wire.Run{Job: job("t.spin"), Work: 0}, "refused", "must be at least 1, not 0", ""},
		{wire.Run{Job: job("t.elsewhere"), Work: 1}, "refused", "runs on plan9 only", ""},
		{wire.Run{Job: job("t.huge"), Work: 1}, "no-space", "free some space", ""},
		{wire.Run{Job: wire.Job{Kind: "t.spin", Cell: "c", Params: map[string]string{"pth": "x"}}, Work: 1}, "refused",
			`did you mean "path"?`, ""},
	} {
		f := fails(t, s, c.run)
		if f.Kind != c.kind || !strings.Contains(f.Message, c.message) || !strings.Contains(f.Evidence, c.evidence) {
			t.Errorf("%s: got %s: %s\nevidence: %s", c.run.Kind, f.Kind, f.Message, f.Evidence)
		}
		if !s.Alive() {
			t.Fatalf("%s ended the session", c.run.Kind)
		}
	}
	if n := left(t, filepath.Dir(run(t, s, wire.Run{Job: job("t.files"), Work: 1}).Result.State["dir"])); !contains(n,
		"t_setup") {
		t.Errorf("the failed set-up's directory is missing among %q", n)
	} else if dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(run(t, s,
		wire.Run{Job: job("t.files"), Work: 1}).Result.State["dir"]), "t_setup-*", "cleaned")); len(dirs) != 1 {
		t.Error("Cleanup was not called after a Setup that failed")
	}
}

func contains(names []string, prefix string) bool {
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			return true
		}
	}
	return false
}

func TestDoubtsTravelWithTheResult(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	o := run(t, s, wire.Run{Job: job("t.cleanup"), Work: 1})
	if w := o.Result.Warnings; len(w) != 1 || w[0].Code != "cleanup" || !strings.Contains(w[0].Text, "it is stuck") {
		t.Errorf("a Cleanup that failed gave the warnings %v", w)
	}
	// A stray print must not reach the protocol.
	run(t, s, wire.Run{Job: job("t.print"), Work: 1})
}

func TestInjectedWorkIsDoneAndNotReported(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	o := run(t, s, wire.Run{Job: job("t.work"), Work: 1000, Inject: 0.05})
	st := o.Result.State
	if st["prepared"] != "1050" || st["measured"] != "1050" || st["reported"] != "1000" {
		t.Errorf("prepared %s, measured %s, reported %s units", st["prepared"], st["measured"], st["reported"])
	}
	if len(o.Result.Warnings) != 0 {
		t.Errorf("warnings %v", o.Result.Warnings)
	}
	o = run(t, s, wire.Run{Job: job("t.work"), Work: 3, Inject: 0.05})
	if w := o.Result.Warnings; len(w) != 1 || w[0].Code != "inject-coarse" {
		t.Errorf("5 %% of 3 units gave the warnings %v", w)
	}
}

func TestSamplesArrive(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	o := run(t, s, wire.Run{Job: job("t.samples"), Work: 1})
	if n := len(o.Result.Samples["rate"]); n != workload.MaxSamples || o.Result.Samples["rate"][n-1] < 2*float64(n) {
		t.Errorf("%d samples, the last %v", n, o.Result.Samples["rate"][n-1])
	}
	if few := o.Result.Samples["few"]; len(few) != 3 || few[0] != 1.5 || few[1] == 0 {
		t.Errorf("got %v", few)
	}
}

func TestCancelEndsTheWorkerAndNothingElse(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	whenWorking(stream, func(int) { cancel() })
	_, err := s.Run(ctx, wire.Run{Job: job("t.block"), Work: 1})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "cancelled" {
		t.Errorf("got %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, err = s.Run(short, wire.Run{Job: job("t.block"), Work: 1})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "timeout" {
		t.Errorf("got %v", err)
	}
	if !s.Alive() || len(children(stream.Pid())) != 0 {
		t.Fatalf("alive %v, workers %v", s.Alive(), children(stream.Pid()))
	}
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
}

func TestWorkerKilledInTheMiddle(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	whenWorking(stream, func(worker int) { syscall.Kill(worker, syscall.SIGKILL) })
	f := fails(t, s, wire.Run{Job: job("t.block"), Work: 1})
	if f.Kind != "worker-died" || !strings.Contains(f.Message, "signal: killed") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
}

func TestAgentKilledInTheMiddle(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	found := whenWorking(stream, func(int) { syscall.Kill(stream.Pid(), syscall.SIGKILL) })
	f := fails(t, s, wire.Run{Job: job("t.block"), Work: 1})
	if f.Kind != deploy.Died || !strings.Contains(f.Evidence, "signal: killed") {
		t.Errorf("got %s: %s\nevidence: %s", f.Kind, f.Message, f.Evidence)
	}
	if s.Alive() {
		t.Error("the session thinks it is alive")
	}
	if again := fails(t, s, wire.Run{Job: job("t.idle"), Work: 1}); again.Kind != deploy.Died {
		t.Errorf("asked again: %s: %s", again.Kind, again.Message)
	}
	worker := <-found
	eventually(t, "the worker of a killed agent is gone", func() bool { return !running(worker) })
}

func TestWhatAWorkerLeavesRunningIsEnded(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	o := run(t, s, wire.Run{Job: job("t.stray"), Work: 1})
	pid, err := strconv.Atoi(o.Result.Checks["stray"])
	if err != nil {
		t.Fatal(err)
	}
	if running(pid) {
		t.Errorf("process %d still runs after the trial", pid)
	}
	if c := children(stream.Pid()); len(c) != 0 {
		t.Errorf("the agent has the children %v", c)
	}
}

// The end of the input during a trial, and SIGTERM, both end the agent, its worker and its directory.
func TestAgentTidiesUpWhenItsInputEndsOrItIsTold(t *testing.T) {
	for name, leave := range map[string]func(*proc.Stream){
		"end of input": func(s *proc.Stream) { s.CloseWrite() },
		"SIGTERM":      func(s *proc.Stream) { syscall.Kill(s.Pid(), syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, stream := connect(t, dir)
			found := whenWorking(stream, func(int) { leave(stream) })
			if f := fails(t, s, wire.Run{Job: job("t.block"), Work: 1}); f.Kind != deploy.Died {
				t.Errorf("got %s: %s", f.Kind, f.Message)
			}
			worker := <-found
			eventually(t, "agent and worker are gone",
				func() bool { return !running(stream.Pid()) && !running(worker) })
			if n := left(t, dir); len(n) != 0 {
				t.Errorf("left behind: %q", n)
			}
		})
	}
}

func TestAgentWithoutADirectoryServesWhatNeedsNone(t *testing.T) {
	s, _ := connect(t, filepath.Join(t.TempDir(), "missing"))
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
	if f := fails(t, s, wire.Run{Job: job("t.files"), Work: 1}); f.Kind != "no-dir" ||
		!strings.Contains(f.Message, "missing") || !strings.Contains(f.Message, "dir=") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
	facts, err := s.Facts(within(t, patience))
	if err != nil || facts.Extra["work_dir.error"] == "" {
		t.Errorf("facts say %q, %v", facts.Extra["work_dir.error"], err)
	}
}

func TestRemovalStaysInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	precious := filepath.Join(outside, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := connect(t, dir)
	mine := run(t, s, wire.Run{Job: job("t.files"), Work: 1}).Result.State["dir"]
	deep := filepath.Join(mine, "a", "b")
	for _, err := range []error{
		os.MkdirAll(deep, 0o700), os.Symlink(outside, filepath.Join(deep, "link")),
		os.Symlink("/", filepath.Join(mine, "root")),
		os.WriteFile(filepath.Join(deep, "f"), nil, 0), os.Chmod(deep, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if n := left(t, dir); len(n) != 0 {
		t.Errorf("left behind: %q", n)
	}
}

// whenWorking calls do with the process id of the agent's next worker, and then sends it to the channel.
func whenWorking(agent *proc.Stream, do func(worker int)) <-chan int {
	found := make(chan int, 1)
	go func() {
		workers := children(agent.Pid())
		for ; len(workers) == 0; workers = children(agent.Pid()) {
			time.Sleep(time.Millisecond)
		}
		do(workers[0])
		found <- workers[0]
	}()
	return found
}

// children lists the workers whose parent is pid. Other children are left out: Go forks a process before the first real
// one, to check whether the kernel supports pidfds.
func children(pid int) (pids []int) { return childrenAs(pid, "worker") }

// childrenAs is children for another role.
func childrenAs(pid int, role string) (pids []int) {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // the pattern is well-formed
	for _, f := range tasks {
		list, _ := os.ReadFile(f)
		for _, s := range strings.Fields(string(list)) {
			n, err := strconv.Atoi(s)
			cmdline, _ := os.ReadFile("/proc/" + s + "/cmdline")
			if err == nil && bytes.Contains(cmdline, []byte("\x00"+role+"\x00")) {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// running tells whether a process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
