package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/launch"
	"tare/internal/plan"
	"tare/internal/record"
)

// launchWorld is a world that opens further environments, in a time that is the target's cost in milliseconds.
type launchWorld struct {
	*world
	asked []string
	probe Probe
	cold  bool
	fails map[string]error
}

func (w *launchWorld) Launch(_ context.Context, e *plan.Target, p Probe, cold bool) (LaunchResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked, w.probe, w.cold = append(w.asked, e.Name), p, cold
	ready := time.Duration(w.cost[e.Name] * float64(time.Millisecond) * (1 + w.noise*(2*w.rng.Float64()-1)))
	return LaunchResult{Start: time.Now(), Ready: ready, Metrics: map[string]float64{launch.Ready: ready.Seconds()}},
		w.fails[e.Name]
}

func launchAll(t *testing.T, w *launchWorld, params workload.Params) *memorySink {
	t.Helper()
	p := simPlan("host", "box")
	kind := launch.Kinds()[0]
	for i := range p.Workloads {
		p.Workloads[i].Kind, p.Workloads[i].Params = kind.Name, params
	}
	m, _, err := simulate(t, t.Context(), w.world, p, func(c *Config) {
		c.Launcher = w
		c.Kinds = func(string) (*workload.Kind, bool) { return &kind, true }
	})
	if err != nil && !errors.Is(err, ErrBaseline) {
		t.Fatal(err)
	}
	return m
}

// A launch is a trial like any other, and the agents of the targets do nothing for it.
func TestLaunchesAreTheControllers(t *testing.T) {
	w := &launchWorld{world: newWorld(0.01, map[string]float64{"host": 1, "box": 5})}
	m := launchAll(t, w, workload.Params{launch.ProbeParam: "true", launch.WaitParam: "3s",
		launch.CacheParam: launch.Cold})
	if len(m.trials) == 0 || len(m.trials) != len(w.asked) || len(w.calls) != 0 {
		t.Errorf("%d trials, %d launches, %d trials of agents", len(m.trials), len(w.asked), len(w.calls))
	}
	if w.probe != (Probe{"true", 3 * time.Second}) || !w.cold {
		t.Errorf("the probe is %+v, cold %v", w.probe, w.cold)
	}
	for _, tr := range m.trials {
		if tr.Error != nil || tr.Work != 1 || tr.Metrics[launch.Ready] <= 0 || tr.AgentNS != tr.ControllerNS {
			t.Fatalf("a trial is %+v", tr)
		}
	}
}

func TestALaunchThatFailsIsSaid(t *testing.T) {
	w := &launchWorld{world: newWorld(0.01, map[string]float64{"host": 1, "box": 5}),
		fails: map[string]error{"box": errors.New("no image")}}
	m := launchAll(t, w, workload.Params{})
	i := slices.IndexFunc(m.trials, func(tr record.Trial) bool { return tr.Error != nil })
	if i < 0 || m.trials[i].Target != "box" || m.trials[i].Error.Kind != kindLaunch ||
		!strings.Contains(m.trials[i].Error.Message, "no image") {
		t.Errorf("trials %+v", m.trials)
	}
}
