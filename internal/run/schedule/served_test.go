package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// mountWorld is a world in which a machine has two mounts. The server of the first ends during its fifth trial, and its
// client waits for an answer as long as it may.
type mountWorld struct {
	*world
	ended chan struct{}
}

func (s *mountWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	t, err := s.world.Open(ctx, e, mounts, session)
	for _, m := range mounts {
		told := &env.Mounted{Name: m.Name, Mount: record.Mount{Server: "served 1.0"},
			Diagnose: func() []byte { return []byte("the log of " + m.Name) }}
		if m.Name == "vm:n" {
			told.Ended, told.Why = s.ended, func() error { return errors.New("signal: killed") }
		}
		t.Mounts = append(t.Mounts, MountTarget{Root: m.Name,
			Record: record.Environment{Target: record.Target{Name: m.Name, Of: m.Of}, Session: session}, Served: told})
	}
	if len(mounts) > 0 {
		t.Agent = &mountAgent{simAgent: t.Agent.(*simAgent), ended: s.ended}
	}
	return t, err
}

type mountAgent struct {
	*simAgent
	ended chan struct{}
	n     int
}

func (w *mountAgent) Run(ctx context.Context, r wire.Run) (deploy.Outcome, error) {
	switch r.Root {
	case "vm:n":
		if w.n++; w.n == 5 {
			close(w.ended)
			<-ctx.Done()
			return deploy.Outcome{}, &record.Failure{Kind: "cancelled", Message: "run was cancelled"}
		} else if w.n > 5 {
			return deploy.Outcome{}, errors.New("work was begun without a server")
		}
	case "vm:bad":
		return deploy.Outcome{Result: wire.Result{Error: &record.Failure{Kind: "measure",
			Message: "input/output error"}}}, &record.Failure{Kind: "measure", Message: "input/output error"}
	}
	return w.simAgent.Run(ctx, r)
}

func TestAServerThatEndsIsTheCauseAndCostsItsMountOnly(t *testing.T) {
	w := &mountWorld{world: newWorld(0.005, map[string]float64{"host": 1, "vm": 2}), ended: make(chan struct{})}
	p := simPlan("host", "vm")
	for _, name := range []string{"vm:n", "vm:bad"} {
		p.Targets = append(p.Targets, plan.Target{Name: name, Of: "vm", Text: "nfs"})
	}
	m, r, err := simulate(t, t.Context(), w.world, p, func(c *Config) { c.Opener = w })
	if err != nil {
		t.Fatal(err)
	}
	var failed []*record.Failure
	for _, tr := range m.trials {
		if tr.Target == "vm:n" && tr.Error != nil {
			failed = append(failed, tr.Error)
		}
		if tr.Target == "vm:bad" && tr.Error != nil && !strings.Contains(tr.Error.Evidence, "the log of vm:bad") {
			t.Errorf("a trial that failed in a mount has no evidence of its server: %+v", tr.Error)
		}
	}
	if len(failed) != 1 || failed[0].Kind != kindServerDied ||
		!strings.Contains(failed[0].Message, "served 1.0, has ended: signal: killed") ||
		!strings.Contains(failed[0].Evidence, "the log of vm:n") {
		t.Errorf("failures of the mount without a server: %+v", failed)
	}
	if said := m.files["vm-n-1-lost.txt"]; !strings.Contains(said, "the log of vm:n") {
		t.Errorf("evidence %q", m.files)
	}
	if c := cellOf(r, "one", "vm"); c == nil || !slices.Contains([]record.Verdict{record.Different, record.Equivalent},
		c.Verdict) {
		t.Errorf("the machine's own cell: %+v", c)
	}
	withheld := 0
	for _, name := range []string{"one", "two"} {
		if c := cellOf(r, name, "vm:n"); c != nil &&
			(c.Verdict == record.Withheld || c.Verdict == record.Failed || c.Verdict == record.Inconclusive) {
			withheld++
		}
	}
	if withheld != 2 {
		t.Errorf("of the mount's cells %d have no verdict", withheld)
	}
}
