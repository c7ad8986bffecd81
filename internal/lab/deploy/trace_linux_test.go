package deploy_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/trace"
)

// asked makes a request for a trace.
func asked(t *testing.T, s *deploy.Conn, q trace.Request) (a trace.Answer, err error) {
	t.Helper()
	if err = s.Trace(within(t, patience), q, &a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return a, err
}

// traceOne has a trial traced whose calls are known.
func traceOne(t *testing.T, s *deploy.Conn) (*trace.Trace, error) {
	t.Helper()
	if _, err := asked(t, s, trace.Request{Op: trace.OpStart}); err != nil {
		return nil, err
	}
	run(t, s, wire.Run{Job: job("t.synced"), Work: syncCalls})
	a, err := asked(t, s, trace.Request{Op: trace.OpStop})
	return a.Trace, err
}

const syncCalls = 10

func calls(t *trace.Trace, name string) (n int64) {
	for _, c := range t.Work {
		if c.Name == name {
			n += c.Count
		}
	}
	return n
}

// An agent with a tracer traces the trials of its own workers, as in an environment with a kernel of its own, goes on
// when the tracer is killed, and leaves nothing.
func TestTheAgentTraces(t *testing.T) {
	t.Setenv("TARE_TEST_TRACES", "1")
	for _, way := range []string{trace.WayPtrace, trace.WayBPF} {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			s, stream := connect(t, dir)
			if _, err := asked(t, s, trace.Request{Op: trace.OpStart}); err == nil {
				t.Error("a trace began before a way was open")
			}
			// The agent of a test is not the only one that may be refused BPF.
			if _, err := asked(t, s, trace.Request{Op: trace.OpOpen, Way: way}); err != nil && way == trace.WayBPF {
				if os.Getenv("TARE_REQUIRE") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			run(t, s, wire.Run{Job: job("t.synced"), Work: 1}) // the tracer outlives a trial that it does not trace
			for range 2 {
				got, err := traceOne(t, s)
				if err != nil {
					t.Fatal(err)
				}
				if !got.Seen || got.Timed != (way == trace.WayBPF) || calls(got, "fsync") != syncCalls {
					t.Errorf("seen %v, timed %v, %d of %d syncs", got.Seen, got.Timed, calls(got, "fsync"), syncCalls)
				}
			}
			tracers := proc.Family(stream.Pid())[1:]
			if len(tracers) != 1 {
				t.Fatalf("beside the agent there are %v", tracers)
			}
			syscall.Kill(tracers[0], syscall.SIGKILL)
			if _, err := traceOne(t, s); err == nil || !s.Alive() {
				t.Errorf("a tracer that was killed traced: %v, alive %v", err, s.Alive())
			}
			if _, err := asked(t, s, trace.Request{Op: trace.OpOpen, Way: way}); err != nil {
				t.Fatal(err)
			}
			if got, err := traceOne(t, s); err != nil || calls(got, "fsync") != syncCalls {
				t.Errorf("another tracer: %+v, %v", got, err)
			}
			tracers = proc.Family(stream.Pid())[1:]
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if n := left(t, dir); len(n) != 0 {
				t.Errorf("left: %v", n)
			}
			for _, pid := range tracers {
				ended(t, pid)
			}
		})
	}
}

// ended waits until a process has ended.
func ended(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if !running(pid) { // whoever has taken an orphan over may never reap it
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// A tracer that waits for a worker that never comes is given up, and an agent that is killed takes its tracer with it.
func TestATraceIsGivenUp(t *testing.T) {
	t.Setenv("TARE_TEST_TRACES", "1")
	s, stream := connect(t, t.TempDir())
	for _, q := range []trace.Request{{Op: trace.OpOpen, Way: trace.WayPtrace}, {Op: trace.OpStart}} {
		if _, err := asked(t, s, q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Trace(ctx, trace.Request{Op: trace.OpStop}, &trace.Answer{}); err == nil || !s.Alive() {
		t.Errorf("%v, alive %v", err, s.Alive())
	}
	run(t, s, wire.Run{Job: job("t.synced"), Work: 1})
	if _, err := asked(t, s, trace.Request{Op: trace.OpOpen, Way: trace.WayPtrace}); err != nil {
		t.Fatal(err)
	}
	tracers := proc.Family(stream.Pid())[1:]
	if len(tracers) != 1 || slices.Contains(tracers, stream.Pid()) {
		t.Fatalf("beside the agent there are %v", tracers)
	}
	syscall.Kill(stream.Pid(), syscall.SIGKILL)
	ended(t, tracers[0])
}

// An agent without a tracer says that it cannot trace.
func TestAnAgentDoesNotTrace(t *testing.T) {
	s, _ := connect(t, t.TempDir())
	_, err := asked(t, s, trace.Request{Op: trace.OpOpen, Way: trace.WayBPF})
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" || !s.Alive() {
		t.Errorf("%v, alive %v", err, s.Alive())
	}
}
