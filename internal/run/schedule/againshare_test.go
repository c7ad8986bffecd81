package schedule

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/run/tracing"
	"tare/internal/sys/trace"
)

// A trial that is stopped at each call gets as much work as two seconds hold, and one unit at least.
func TestShareOfStoppedWork(t *testing.T) {
	for _, x := range []struct {
		all    int64
		unit   time.Duration
		share  float64
		trials int
	}{
		{1, time.Hour, 1, 0},
		{2_500_000, 20 * time.Microsecond, 0.04, 2},   // 2,441 units are too short
		{4096, 100 * time.Millisecond, 20. / 4096, 1}, // 4 units
		{100, time.Minute, 0.01, 1},                   // one unit
		{1000, time.Microsecond, 1, 5},                // all of it is short
		{1_000_000_000, 20 * time.Nanosecond, 0.1, 2}, // 20 s
		{64, 30 * time.Millisecond, 1, 3},             // 1.92 s
	} {
		trials := 0
		share, err := stoppedShare(x.all, func(share float64) (work, ns int64, err error) {
			trials++
			work = max(1, int64(float64(x.all)*share))
			return work, work * int64(x.unit), nil
		})
		if err != nil || share != x.share || trials != x.trials {
			t.Errorf("%d units of %v: share %v after %d trials, %v; want %v after %d", x.all, x.unit, share, trials,
				err, x.share, x.trials)
		}
	}
	broken := errors.New("broken")
	if _, err := stoppedShare(9, func(float64) (int64, int64, error) { return 0, 0, broken }); err != broken {
		t.Error(err)
	}
}

// slowTraceWorld is a world whose agents trace by stopping the work at each call, which makes it ten times as long.
type slowTraceWorld struct{ *world }

func (w slowTraceWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	target, err := w.world.Open(ctx, e, mounts, session)
	target.Agent = &slowTraceAgent{Agent: target.Agent}
	return target, err
}

type slowTraceAgent struct {
	Agent
	on bool
}

func (a *slowTraceAgent) Trace(_ context.Context, request, answer any) error {
	a.on = request.(trace.Request).Op == trace.OpStart
	answer.(*trace.Answer).Trace = &trace.Trace{Seen: true}
	return nil
}

func (a *slowTraceAgent) Run(ctx context.Context, r wire.Run) (deploy.Outcome, error) {
	out, err := a.Agent.Run(ctx, r)
	if a.on {
		out.Result.ElapsedNS *= 10
	}
	return out, err
}

// Trials that are stopped at each call do a share of their work, the same on both sides, and the others all of it.
func TestStoppedTrialsDoLess(t *testing.T) {
	w := slowTraceWorld{newWorld(0, map[string]float64{"host": 1000, "vm": 2000})}
	p := simPlan("host", "vm")
	p.Workloads = p.Workloads[:1]
	res, err := Repeat(t.Context(), Config{Plan: p, Opener: w,
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" }},
		RepeatOptions{Workload: p.Workloads[0].Label, Target: "vm", Baseline: "host", Rounds: 2,
			Tracer: &tracing.Tracer{Way: tracing.Ptrace}})
	if err != nil || len(res.Trials) != 8 {
		t.Fatalf("%+v, %v", res, err)
	}
	if res.Share <= 0 || res.Share >= 1 {
		t.Errorf("a share of %v", res.Share)
	}
	full := map[string]int64{}
	for _, x := range res.Trials {
		if x.Trace == nil {
			full[x.Target] = x.Record.Work
		}
	}
	for _, x := range res.Trials {
		part := float64(x.Record.Work) / float64(full[x.Target])
		if x.Trace != nil && (time.Duration(x.Record.AgentNS) > mostStopped || math.Abs(part-res.Share) > 0.01) {
			t.Errorf("%s: %v of its work in %v, of a share of %v", x.Target, part, time.Duration(x.Record.AgentNS),
				res.Share)
		}
		if x.Trace == nil && x.Record.Work != full[x.Target] {
			t.Errorf("%s: a trial that is not traced did %d units of %d", x.Target, x.Record.Work, full[x.Target])
		}
	}
}
