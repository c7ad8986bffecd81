package envtest

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/version"
)

// shortWork and endlessWork are amounts of the null workload: well below a second, and more than any test lasts.
const (
	shortWork   = 100_000
	endlessWork = 1 << 45
)

// null is a trial that only computes, with the parameters resolved as in a plan.
func null(work int64) wire.Run { return job("null", work, nil) }

// served is a trial that computes with a service.
func served(work int64) wire.Run { return job("null", work, map[string]string{"service": "yes"}) }

// files is a trial that writes to the work directory.
func files() wire.Run {
	return job("fs.smallfiles", 5, map[string]string{"files": "5", "dirs": "1", "size": "1KiB"})
}

func job(name string, work int64, given map[string]string) wire.Run {
	kind, ok := all.Lookup(name)
	if !ok {
		panic("envtest: there is no workload kind " + name)
	}
	p, err := kind.Resolve(given)
	if err != nil {
		panic("envtest: " + err.Error())
	}
	return wire.Run{Job: wire.Job{Kind: name, Params: p, Cell: "envtest-" + name, Seed: 1,
		Service: kind.ServiceKey(p)}, Work: work}
}

// work tests the normal life of an environment.
func (s *suite) work(t *testing.T) {
	o := s.options(t, s.Spec)
	e := s.open(t, o)
	agents := 2
	if s.Attached {
		agents = 1
	}
	for n := range agents {
		conn := s.connect(t, e, o.RunID)
		s.checkHello(t, conn.Hello())
		s.checkFacts(t, e, conn)
		for _, r := range []wire.Run{null(s.Work), files(), null(s.Work)} {
			s.trial(t, conn, r)
		}
		s.service(t, conn)
		if n == 0 && !s.Attached {
			ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
			if second, err := e.Agent(ctx); err == nil {
				second.Close()
				t.Error("a second agent was started while the first one ran")
			}
			cancel()
		}
		if err := conn.Close(); err != nil {
			t.Errorf("close connection %d: %v", n+1, err)
		}
	}
	for n := range 2 {
		if err := e.Close(); err != nil {
			t.Errorf("close %d: %v", n+1, err)
		}
	}
	if stream, err := e.Agent(t.Context()); err == nil {
		stream.Close()
		t.Error("a closed environment started an agent")
	}
	s.noLeaks(t, o)
}

func (s *suite) checkHello(t *testing.T, h wire.Hello) {
	t.Helper()
	if h.Build != version.Build || h.OS != s.OS || h.Arch != s.Arch {
		t.Errorf("agent is build %s on %s/%s, want %s on %s/%s", h.Build, h.OS, h.Arch, version.Build, s.OS, s.Arch)
	}
}

func (s *suite) checkFacts(t *testing.T, e env.Env, conn *deploy.Conn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	in, err := conn.Facts(ctx)
	if err != nil {
		t.Fatalf("facts: %v", err)
	}
	if in.OS != s.OS || in.Arch != s.Arch || in.Kernel == "" || in.Threads < 1 || in.MemoryBytes < 16<<20 ||
		in.WorkDir == "" {
		t.Errorf("facts from inside make no sense: %+v", in)
	}
	out := e.Facts()
	if len(out.Command) == 0 {
		t.Error("the facts lack the command line that made the environment")
	}
	for k, v := range s.Spec.Settings {
		if out.Settings[k] != v {
			t.Errorf("setting %s=%s is not among the facts: %v", k, v, out.Settings)
		}
	}
}

// service checks that a service survives from trial to trial. noLeaks checks that it is gone afterwards.
func (s *suite) service(t *testing.T, conn *deploy.Conn) {
	t.Helper()
	pid, before := "", s.ran
	for n := range 3 {
		is := s.trial(t, conn, served(s.Work)).Result.State
		if pid == "" {
			pid = is["service_pid"]
		}
		seen := strconv.Itoa(s.ran - before - 1) // some were repeated, maybe
		if is["service_pid"] != pid || is["service_starts"] != "1" || is["service_trials"] != seen {
			t.Errorf("trial %d, whose service was process %s at first: %v", n, pid, is)
		}
	}
}

func (s *suite) trial(t *testing.T, conn *deploy.Conn, r wire.Run) deploy.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	defer cancel()
	var got deploy.Outcome
	for again := 0; ; again++ {
		var err error
		s.ran++
		if got, err = conn.Run(ctx, r); err != nil {
			if f, ok := errors.AsType[*record.Failure](err); ok {
				t.Logf("evidence:\n%s", f.Evidence)
			}
			t.Fatalf("trial of %s: %v", r.Kind, err)
		}
		if got.Result.ElapsedNS <= 0 || got.RTTNS <= 0 {
			t.Errorf("times %d and %d ns", got.Result.ElapsedNS, got.RTTNS)
		}
		// The controller's time is exact only to the spread of the round trips, so a much shorter trial may measure as
		// nothing. The same happens if the controller does not get the processor when a trial begins, but that does not
		// happen each time.
		if got.Result.ElapsedNS <= 20*got.RTTSpreadNS || got.Result.ElapsedNS <= int64(10*time.Millisecond) ||
			got.ControllerNS > 0 {
			break
		}
		if again == 10 {
			t.Errorf("%d ns inside are %d ns outside, with a spread of %d ns", got.Result.ElapsedNS, got.ControllerNS,
				got.RTTSpreadNS)
			break
		}
	}
	if len(got.Result.Metrics) == 0 {
		t.Error("the trial gave no figures")
	}
	for name, v := range got.Result.Metrics {
		if math.IsNaN(v) || v <= 0 {
			t.Errorf("%s is %v", name, v)
		}
	}
	return got
}

func (s *suite) impossible(t *testing.T) {
	if len(s.Impossible) == 0 {
		t.Fatal("the driver's tests have no impossible spec")
	}
	for _, spec := range s.Impossible {
		t.Run(strings.ReplaceAll(spec.String(), "/", "_"), func(t *testing.T) {
			if spec.Name == "" {
				spec.Name = "impossible"
			}
			o := s.options(t, spec)
			ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
			defer cancel()
			e, err := s.driver.Open(ctx, o)
			if err == nil {
				e.Close()
				t.Fatal("an impossible environment opened")
			}
			x, ok := errors.AsType[*env.OpenError](err)
			if !ok {
				t.Fatalf("the error is a %T: %v", err, err)
			}
			t.Logf("%v", err)
			if x.Env != spec.Name || x.Op == "" || x.Remedy == "" && len(x.Evidence) == 0 {
				t.Errorf("the error lacks the environment's name, the operation, or both remedy and evidence: %+v", x)
			}
			s.noLeaks(t, o)
		})
	}
}

func (s *suite) cancelledOpen(t *testing.T) {
	for _, after := range s.CancelAfter {
		t.Run(after.String(), func(t *testing.T) {
			o := s.options(t, s.Spec)
			ctx, cancel := context.WithCancel(t.Context())
			timer := time.AfterFunc(after, cancel)
			defer timer.Stop()
			if after == 0 {
				cancel()
			}
			start := time.Now()
			e, err := s.driver.Open(ctx, o)
			if late := time.Since(start) - after; err != nil && late > s.Patience {
				t.Errorf("the cancelled opening took %v to end", late)
			}
			if err == nil {
				// It was faster than the cancellation. That is correct, because ctx bounds the opening only.
				cancel()
				if after == 0 {
					t.Error("the environment opened although it was cancelled before")
				}
				s.connect(t, e, o.RunID).Close()
				if err := e.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			} else if _, ok := errors.AsType[*env.OpenError](err); !ok || !errors.Is(err, context.Canceled) {
				t.Errorf("the error must be an *env.OpenError that wraps context.Canceled: %T %v", err, err)
			}
			s.noLeaks(t, o)
		})
	}
}

// start starts a trial that does not end by itself, and returns when it is probably being measured.
func (s *suite) start(t *testing.T, conn *deploy.Conn) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := conn.Run(context.WithoutCancel(t.Context()), served(endlessWork))
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the endless trial ended: %v", err)
	case <-time.After(time.Second):
	}
	return done
}

// ended waits for the failure of a trial whose environment died.
func (s *suite) ended(t *testing.T, done <-chan error) *record.Failure {
	t.Helper()
	select {
	case err := <-done:
		f, ok := errors.AsType[*record.Failure](err)
		if !ok {
			t.Fatalf("the trial ended with %T: %v", err, err)
		}
		return f
	case <-time.After(s.Patience):
		t.Fatal("the trial did not end with its environment")
		return nil
	}
}

func (s *suite) closeMidTrial(t *testing.T) {
	o := s.options(t, s.Spec)
	e := s.open(t, o)
	conn := s.connect(t, e, o.RunID)
	done := s.start(t, conn)
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	f := s.ended(t, done)
	if f.Kind != deploy.Died {
		t.Errorf("the trial's failure is %+v", f)
	}
	conn.Close()
	s.noLeaks(t, o)
}

func (s *suite) agentKilled(t *testing.T) {
	o := s.options(t, s.Spec)
	e := s.open(t, o)
	conn := s.connect(t, e, o.RunID)
	done := s.start(t, conn)
	if s.Kill != nil {
		s.Kill(t, e, conn.Hello())
	} else {
		killAgent(t, o.RunID, s.agent(t), conn.Hello())
	}
	f := s.ended(t, done)
	if f.Kind != deploy.Died || f.Evidence == "" {
		t.Errorf("the trial's failure must be %s with evidence: %+v", deploy.Died, f)
	}
	if conn.Alive() {
		t.Error("the connection reports that it is alive")
	}
	conn.Close()
	if err := e.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	s.noLeaks(t, o)
}
