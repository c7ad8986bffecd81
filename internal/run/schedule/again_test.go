package schedule

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/run/perf"
	"tare/internal/run/tracing"
)

// TestAgainWithoutAProcessHere repeats trials in targets whose processes are nowhere on this machine: they are done in
// turn and not traced, which is said, and nothing stays open.
func TestAgainWithoutAProcessHere(t *testing.T) {
	w := newWorld(0, map[string]float64{"host": 1000, "vm": 2000})
	p := simPlan("host", "vm")
	p.Workloads = p.Workloads[:1]
	kinds := func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" }
	const rounds = 3
	var begun []int
	res, err := Repeat(t.Context(), Config{Plan: p, Kinds: kinds, Opener: w,
		Header: verdict.Run{ID: "no-such-run"}}, RepeatOptions{Workload: p.Workloads[0].Label, Target: "vm",
		Baseline: "host",
		Rounds:   rounds, Tracer: &tracing.Tracer{Way: tracing.Ptrace},
		Begins: func(n int) { begun = append(begun, n) }})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, x := range res.Trials {
		count[x.Target]++
		if x.Trace != nil || x.Record.Work < 1 || x.Record.AgentNS <= 0 {
			t.Errorf("%+v", x)
		}
	}
	if count["host"] != rounds || count["vm"] != rounds || !slices.Equal(begun, []int{1, 2, 3}) {
		t.Errorf("trials %v in rounds %v", count, begun)
	}
	for _, name := range []string{"host", "vm"} {
		if res.Inside[name] || res.Lost[name] == "" {
			t.Errorf("%s: inside %v, lost %q", name, res.Inside[name], res.Lost[name])
		}
		if w.opens[name] != 1 || w.closed[name] != 1 {
			t.Errorf("%s was opened %d times and closed %d times", name, w.opens[name], w.closed[name])
		}
	}
	if len(res.Unsampled) > 0 {
		t.Errorf("nobody asked for samples: %v", res.Unsampled)
	}
	res, err = Repeat(t.Context(), Config{Plan: p, Kinds: kinds, Opener: w}, RepeatOptions{
		Workload: p.Workloads[0].Label,
		Target:   "vm", Baseline: "host", Rounds: 1, Tracer: &tracing.Tracer{Way: tracing.Ptrace},
		Profiler: unusedProfiler{}})
	if err != nil || res.Unsampled["vm"] == "" || len(res.Trials) != 2 {
		t.Errorf("%+v, %v", res, err)
	}
	w.fails["vm"] = true
	if _, err := Repeat(t.Context(), Config{Plan: p, Kinds: kinds, Opener: w}, RepeatOptions{
		Workload: p.Workloads[0].Label, Target: "vm", Baseline: "host", Rounds: 1}); err == nil {
		t.Error("a target whose trials fail was explained")
	}
	if _, err := Repeat(t.Context(), Config{Plan: p, Kinds: kinds, Opener: w},
		RepeatOptions{Workload: "nosuch"}); err == nil {
		t.Error("a workload that the plan has not was explained")
	}
}

// localWorld is a world whose agents are processes of this machine, which the trials are too short to show.
type localWorld struct {
	*world
	t *testing.T
}

func (w localWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	target, err := w.world.Open(ctx, e, mounts, session)
	target.Agent, target.HostAgent = untracedAgent{target.Agent, w.t}, os.Getpid
	return target, err
}

// untracedAgent is an agent that is not to trace: this machine can.
type untracedAgent struct {
	Agent
	t *testing.T
}

func (a untracedAgent) Trace(context.Context, any, any) error {
	a.t.Error("an agent on this machine was asked to trace")
	return nil
}

func TestAgainOfTrialsThatAreTooShort(t *testing.T) {
	w := localWorld{newWorld(0, map[string]float64{"host": 1000, "vm": 2000}), t}
	p := simPlan("host", "vm")
	p.Workloads = p.Workloads[:1]
	res, err := Repeat(t.Context(), Config{Plan: p, Opener: w, Header: verdict.Run{ID: "no-such-run"},
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" }},
		RepeatOptions{Workload: p.Workloads[0].Label, Target: "vm", Baseline: "host", Rounds: 1,
			Tracer: &tracing.Tracer{Way: tracing.Ptrace}})
	if err != nil || len(res.Trials) != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, name := range []string{"host", "vm"} {
		if !strings.Contains(res.Lost[name], "too short") || res.Hidden[name] != "" {
			t.Errorf("%s: lost %q, hidden %q", name, res.Lost[name], res.Hidden[name])
		}
	}
}

// unusedProfiler is a profiler that is never asked.
type unusedProfiler struct{}

func (unusedProfiler) Start([]int) error                        { panic("it was asked") }
func (unusedProfiler) Stop(int64, int64) (*perf.Profile, error) { panic("it was asked") }
