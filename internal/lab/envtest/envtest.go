// Package envtest is the contract of an environment, as tests: one suite for all drivers, run against the real thing.
//
// It is opinionated about endings. Most of it is about what is left when an environment closes, dies, is cancelled
// while it opens, or loses its controller to SIGKILL: nothing.
package envtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/deploy/agenttest"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
)

// Options adapt the suite to a driver.
type Options struct {
	// Spec is the environment to open; its name defaults to the driver's.
	Spec env.Spec
	// Agents defaults to an agent built from this source tree.
	Agents env.Agents
	// OS and Arch are what the agent must find inside; empty means this platform's.
	OS, Arch string
	// Impossible are specs that must not open. Each gets the error *env.OpenError with a remedy or evidence.
	Impossible []env.Spec
	// Mounts are opened together in the environment. Each must give a directory to work in; Broken must each fail
	// alone.
	Mounts, Broken []env.Spec
	// Attached says that the agent is PID 1 of the environment, so that there is one agent for each opening.
	Attached bool
	// Patience bounds an opening with its handshake, and whatever else must come at some time; it defaults to 3
	// minutes.
	Patience time.Duration
	// Settle bounds how long things may take to vanish once they have been ended; it defaults to a minute.
	Settle time.Duration
	// CancelAfter are the moments at which an opening is cancelled; they default to 0, 10 ms and 100 ms.
	CancelAfter []time.Duration
	// Kill ends the agent, or the whole environment, the hard way. It defaults to SIGKILL for the agent's process,
	// found by its number inside; Linux only.
	Kill func(t testing.TB, e env.Env, h wire.Hello)
	// Leaks returns what is there of a run that the suite cannot see by itself: containers, files in odd places. The
	// suite looks for processes, mounts and temporary files that carry the run's id, and for running agents.
	Leaks func(t testing.TB, runID string) []string
	// Log gets the driver's log lines; it defaults to none.
	Log io.Writer
}

// Run runs the suite. The package's TestMain must call Main, or the death of the controller cannot be tested.
func Run(t *testing.T, d env.Driver, o Options) {
	t.Helper()
	if !hasMain {
		t.Fatal("the package needs func TestMain(m *testing.M) { envtest.Main(m, Infos()) }")
	}
	s := newSuite(t, d, o)
	t.Run("Work", s.work)
	t.Run("Impossible", s.impossible)
	t.Run("CancelledOpen", s.cancelledOpen)
	t.Run("Mounts", s.mounts)
	t.Run("CloseMidTrial", s.closeMidTrial)
	t.Run("AgentKilled", s.agentKilled)
	t.Run("ControllerKilled", s.controllerKilled)
}

type suite struct {
	Options
	driver env.Driver
}

func newSuite(t *testing.T, d env.Driver, o Options) *suite {
	if o.Spec.Name == "" {
		o.Spec.Name = o.Spec.Driver
	}
	if o.Agents == nil {
		o.Agents = agenttest.Store(t)
	}
	if o.OS == "" {
		o.OS = runtime.GOOS
	}
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	if o.Patience == 0 {
		o.Patience = 3 * time.Minute
	}
	if o.Settle == 0 {
		o.Settle = time.Minute
	}
	if o.CancelAfter == nil {
		o.CancelAfter = []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond}
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return &suite{Options: o, driver: d}
}

var runs atomic.Int64 // no run's id is the beginning of another's

// options returns what a driver is given, with a run id of its own and a directory that must be as empty afterwards as
// it was before.
func (s *suite) options(t *testing.T, spec env.Spec) env.Options {
	spec.Settings = maps.Clone(spec.Settings)
	return env.Options{
		Spec:   spec,
		RunID:  fmt.Sprintf("t%d-%03d", os.Getpid(), runs.Add(1)),
		Dir:    t.TempDir(),
		Agents: s.Agents,
		Log:    slog.New(slog.NewTextHandler(s.Log, nil)),
	}
}

// open opens the environment; it is closed at the test's end at the latest.
func (s *suite) open(t *testing.T, o env.Options) env.Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	e, err := s.driver.Open(ctx, o)
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence)
		}
		t.Fatalf("open %s: %v", o.Spec, err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// connect starts an agent and shakes hands.
func (s *suite) connect(t *testing.T, e env.Env, runID string) *deploy.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	conn, err := deploy.Attach(ctx, e, runID)
	if err != nil {
		if x, ok := errors.AsType[*deploy.HandshakeError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence())
		}
		t.Fatal(err)
	}
	return conn
}

// noLeaks fails the test for everything that is still there of a run once it had time to vanish.
func (s *suite) noLeaks(t *testing.T, o env.Options) {
	t.Helper()
	var left []string
	for end := time.Now().Add(s.Settle); ; time.Sleep(50 * time.Millisecond) {
		left = s.leaks(t, o)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			break
		}
	}
	t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
}

func (s *suite) leaks(t *testing.T, o env.Options) []string {
	t.Helper()
	left := systemLeaks(t, o.RunID, o.Dir, s.agent(t))
	if s.Leaks != nil {
		left = append(left, s.Leaks(t, o.RunID)...)
	}
	return left
}

// agent returns the agent's executable on this side.
func (s *suite) agent(t *testing.T) string {
	t.Helper()
	agent, err := s.Agents.Path(s.OS, s.Arch)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}
