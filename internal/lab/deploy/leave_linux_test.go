package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// stop stops a process and waits until it has stopped: on a busy machine it may still answer for a moment.
func stop(pid int) {
	syscall.Kill(pid, syscall.SIGSTOP)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(stat), ") T ") {
			return
		}
	}
}

// An agent that does not answer at all does not hold up a user who wants to leave.
func TestAStoppedAgentIsGivenUpSoonWhenTheUserLeaves(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	whenWorking(stream, func(int) {
		stop(stream.Pid())
		cancel()
	})
	t.Cleanup(func() { syscall.Kill(stream.Pid(), syscall.SIGCONT) })
	_, err := s.Run(ctx, wire.Run{Job: job("t.block"), Work: 1})
	f, ok := errors.AsType[*record.Failure](err)
	if !ok || f.Kind != "cancelled" || !strings.Contains(f.Message, "no longer answers") || s.Alive() {
		t.Fatalf("got %v, alive %v", err, s.Alive())
	}
	if _, err := s.Ping(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "within 10s") {
		t.Errorf("it was waited for longer than an agent has to answer: %v", err)
	}
}

// pipes is a connection to an agent that a test simulates.
type pipes struct {
	io.Reader
	io.WriteCloser
	close func()
}

func (p pipes) CloseWrite() error { return p.WriteCloser.Close() }
func (p pipes) Close() error      { p.close(); return nil }

// play connects to an agent that the test simulates: it greets, answers pings, and passes every frame to on, pings
// after the answer. Everything that it starts ends with the test, which runs in a synctest bubble.
func play(t *testing.T, on func(f wire.Frame, out *wire.Writer)) *deploy.Conn {
	t.Helper()
	toAgent, fromController := io.Pipe()
	toController, fromAgent := io.Pipe()
	go func() {
		in, out := wire.NewReader(toAgent), wire.NewWriter(fromAgent)
		out.Announce()
		out.JSON(wire.TypeHello, 0, wire.NewHello())
		for {
			f, err := in.Read()
			if err != nil {
				return
			}
			if f.Type == wire.TypePing {
				out.JSON(wire.TypePong, f.Trial, wire.Pong{})
			}
			on(f, out)
		}
	}()
	hangUp := func() { toController.Close(); fromController.Close() }
	s, err := deploy.Connect(t.Context(), pipes{toController, fromController, hangUp}, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		hangUp()
		s.Close()
	})
	return s
}

// An agent that answers gets the time that cleaning up takes on a slow system.
func TestAnAgentThatAnswersIsWaitedForWhenTheUserLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := play(t, func(f wire.Frame, out *wire.Writer) {
			switch f.Type {
			case wire.TypeRun:
				time.AfterFunc(time.Second, cancel)
			case wire.TypeCancel:
				time.AfterFunc(25*time.Second, func() {
					out.JSON(wire.TypeResult, f.Trial,
						wire.Result{Error: &record.Failure{Kind: "cancelled", Evidence: "its worker was slow to end"}})
				})
			}
		})
		_, err := s.Run(ctx, wire.Run{Job: job("t"), Work: 1})
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "cancelled" || f.Evidence == "" ||
			!s.Alive() {
			t.Errorf("got %+v, alive %v", err, s.Alive())
		}
	})
}

// Close asks a stopped agent once, and does not also wait for the answer to a Cancel.
func TestClosingDoesNotWaitTwiceForAStoppedAgent(t *testing.T) {
	s, stream := connect(t, t.TempDir())
	run(t, s, wire.Run{Job: job("t.idle"), Work: 1})
	stop(stream.Pid())
	t.Cleanup(func() { syscall.Kill(stream.Pid(), syscall.SIGCONT) })
	began := time.Now()
	if err := s.Close(); err == nil {
		t.Error("nothing was said of an agent that could not tidy up")
	}
	// Ten seconds for an answer, and some for ending the process. It would be forty with a Cancel.
	if took := time.Since(began); took > 35*time.Second {
		t.Errorf("it took %v", took)
	}
}

// If a user leaves while a request is being sent, the agent is not lost: a moment later it reads the request and its
// cancellation.
func TestWhatIsBeingSentWhenTheUserLeavesIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pings := 0
		s := play(t, func(f wire.Frame, out *wire.Writer) {
			switch f.Type {
			case wire.TypePing:
				if pings++; pings == 3 { // the trial is next; it is written while nobody reads
					time.AfterFunc(time.Second, cancel)
					time.Sleep(2 * time.Second)
				}
			case wire.TypeCancel:
				out.JSON(wire.TypeResult, f.Trial, wire.Result{Error: &record.Failure{Kind: "cancelled"}})
			}
		})
		_, err := s.Run(ctx, wire.Run{Job: job("t"), Work: 1})
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "cancelled" || !s.Alive() {
			t.Errorf("got %+v, alive %v", err, s.Alive())
		}
	})
}
