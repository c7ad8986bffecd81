// Package envtest is the contract of an environment, as tests: one suite for all drivers, with real environments.
//
// It is opinionated about endings. Most tests check that nothing is left after an environment was closed, died, was
// cancelled while it opened, or lost its controller by SIGKILL.
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
	// OS and Arch are what the agent must report; empty means this platform's.
	OS, Arch string
	// Impossible are specs that must not open. Each must fail with an *env.OpenError with a remedy or evidence.
	Impossible []env.Spec
	// Mounts are opened together in the environment. Each must provide a directory to work in. Each of Broken must fail
	// without affecting the others.
	Mounts, Broken []env.Spec
	// Attached says that the agent is PID 1 of the environment, so that there is one agent per opening.
	Attached bool
	// Patience bounds an opening with its handshake, and every other wait; it defaults to 3 minutes.
	Patience time.Duration
	// Settle bounds how long things may take to disappear after their end; it defaults to a minute.
	Settle time.Duration
	// CancelAfter are the times after which an opening is cancelled; they default to 0, 10 ms and 100 ms.
	CancelAfter []time.Duration
	// Kill kills the agent or the whole environment. It defaults to SIGKILL for the agent's process, found by its
	// process id inside the environment; Linux only.
	Kill func(t testing.TB, e env.Env, h wire.Hello)
	// Leaks returns leftovers of a run that the suite itself cannot see: containers, files in unusual places. The suite
	// searches for processes, mounts and temporary files with the run's id, and for running agents.
	Leaks func(t testing.TB, runID string) []string
	// Work is the amount of a short trial's work; it defaults to one that takes well below a second unless the
	// processor is interpreted.
	Work int64
	// Log gets the driver's log lines; it defaults to none.
	Log io.Writer
}

// Run runs the suite. The package's TestMain must call Main, which the tests of a killed controller need.
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
	ran    int // trials so far, repeated ones too
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
	if o.Work == 0 {
		o.Work = shortWork
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return &suite{Options: o, driver: d}
}

var runs atomic.Int64 // so that no run's id is a prefix of another's

// options returns a driver's options, with a run id of their own and an empty directory that must be empty again
// afterwards.
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

// open opens the environment; it is closed at the end of the test at the latest.
func (s *suite) open(t *testing.T, o env.Options) env.Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	return open(ctx, t, s.driver, o)
}

// Open opens an environment and attaches to its agent. Both are closed at the end of the test at the latest.
func Open(t *testing.T, d env.Driver, o env.Options) (env.Env, *deploy.Conn) {
	t.Helper()
	e := open(t.Context(), t, d, o)
	conn := attach(t.Context(), t, e, o.RunID)
	t.Cleanup(func() { conn.Close() })
	return e, conn
}

func open(ctx context.Context, t *testing.T, d env.Driver, o env.Options) env.Env {
	t.Helper()
	e, err := d.Open(ctx, o)
	if err != nil {
		if x, ok := errors.AsType[*env.OpenError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence)
		}
		t.Fatalf("open %s: %v", o.Spec, err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// connect starts an agent and does the handshake.
func (s *suite) connect(t *testing.T, e env.Env, runID string) *deploy.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	return attach(ctx, t, e, runID)
}

func attach(ctx context.Context, t *testing.T, e env.Env, runID string) *deploy.Conn {
	t.Helper()
	conn, err := deploy.Attach(ctx, e, runID)
	if err != nil {
		if x, ok := errors.AsType[*deploy.HandshakeError](err); ok {
			t.Logf("evidence:\n%s", x.Evidence())
		}
		t.Fatal(err)
	}
	return conn
}

// noLeaks fails the test for everything of a run that still exists after the time to disappear.
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

// agent returns the path of the agent's executable on this machine.
func (s *suite) agent(t *testing.T) string {
	t.Helper()
	agent, err := s.Agents.Path(s.OS, s.Arch)
	if err != nil {
		t.Fatal(err)
	}
	return agent
}
