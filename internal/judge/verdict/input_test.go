package verdict

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// testKinds is a table of kinds with the shapes that matter: a rate and a duration, a foreign figure, a tail, one bound
// by the CPU, one that writes, one that measures memory.
func testKinds(name string) (*workload.Kind, bool) {
	rate := unit.Metric{Name: "events_per_second", Unit: "events/s", Better: unit.Higher, Timed: true, Primary: true}
	kinds := []workload.Kind{
		{Name: "cpu.prime", Family: "cpu", Needs: workload.Needs{CPUBound: true}, Metrics: []unit.Metric{rate}},
		{Name: "fs.seqwrite", Family: "file system",
			Metrics: []unit.Metric{{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true,
				Primary: true}}},
		{Name: "memory.latency", Family: "memory",
			Metrics: []unit.Metric{{Name: "latency_ns", Unit: "ns", Better: unit.Lower, Timed: true, Primary: true}}},
		{Name: "command", Family: "command", Metrics: []unit.Metric{
			{Name: "seconds", Unit: "s", Better: unit.Lower, Timed: true, Primary: true},
			{Name: "score", Unit: "1/s", Better: unit.Higher},
			{Name: "p99_seconds", Unit: "s", Better: unit.Lower, Timed: true, Tail: true},
		}},
	}
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i], true
		}
	}
	return nil, false
}

// testPlan is a quick plan of workloads, each given as its kind and labelled with it, on host, box and vm.
func testPlan(kinds ...string) *plan.Plan {
	p := &plan.Plan{
		Baseline: "host", Seed: 1, Mode: plan.Quick, Sessions: 1, Looks: []int{10, 15, 20, 30},
		Alpha: 0.05, LookAlpha: stats.LookAlpha([]int{10, 15, 20, 30}, 0.05), Margin: 0.02, TailMargin: 0.05,
		Precision: 0.01,
		Targets: []plan.Target{{Name: "host", Text: "host=local"}, {Name: "box", Text: "box=namespace"},
			{Name: "vm", Text: "vm=qemu"}},
	}
	for _, k := range kinds {
		p.Workloads = append(p.Workloads, plan.Workload{Label: k, Kind: k})
	}
	return p
}

// world makes the trials of a plan: what the environments really cost and how their clocks run.
type world struct {
	plan     *plan.Plan
	cost     map[string]float64 // true cost by target; 1 where nothing is said
	clock    map[string]float64 // agent time / true time; 1 where nothing is said
	noise    float64            // standard deviation of a trial, log scale
	rttNS    int64              // spread of the round trip
	sessions int
	blocks   int
	seed     uint64
	change   func(*record.Trial) // last word on each trial
}

func (w world) trials() []record.Trial {
	rng := rand.New(rand.NewPCG(w.seed, 77))
	var out []record.Trial
	for session := 1; session <= max(w.sessions, 1); session++ {
		for i := range w.plan.Workloads {
			label := w.plan.Workloads[i].Label
			kind, _ := testKinds(w.plan.Workloads[i].Kind)
			for block := 0; block <= w.blocks; block++ {
				for _, e := range w.plan.Targets {
					out = append(out, w.trial(rng, session, block, label, e.Name, "", kind))
				}
				if block > 0 {
					out = append(out, w.trial(rng, session, block, label, w.plan.Baseline, record.NullSlot, kind))
				}
			}
		}
	}
	for i := range out {
		out[i].Seq = i + 1
	}
	return out
}

func factor(m map[string]float64, key string) float64 {
	if v, ok := m[key]; ok {
		return v
	}
	return 1
}

func (w world) trial(rng *rand.Rand, session, block int, label, target, slot string, kind *workload.Kind) record.Trial {
	const second = 300e6 // a trial of 0.3 s
	cost := factor(w.cost, target) * math.Exp(w.noise*rng.NormFloat64())
	if block == 0 {
		cost *= 3 // a cold start, which must not count
	}
	seen := factor(w.clock, target) // how long a second looks from inside
	t := record.Trial{
		Session: session, Block: block, Workload: label, Target: target, Slot: slot, Work: 1000,
		Start:   time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		AgentNS: int64(second * cost * seen), RTTNS: w.rttNS, RTTSpreadNS: w.rttNS,
		Figures: record.Figures{Metrics: map[string]float64{}, Checks: map[string]string{"result": "1228"},
			State: map[string]string{}},
	}
	t.ControllerNS = int64(second*cost) + int64((rng.Float64()-0.5)*float64(w.rttNS))
	if kind != nil {
		for _, m := range kind.Metrics {
			v := cost * seen / 100
			if m.Better == unit.Higher {
				v = 1 / v
			}
			t.Metrics[m.Name] = v
		}
	}
	if w.change != nil {
		w.change(&t)
	}
	return t
}

func (w world) environments() []record.Environment {
	var out []record.Environment
	for _, e := range w.plan.Targets {
		out = append(out, record.Environment{Target: record.Target{Name: e.Name, Spec: e.Text}, Session: 1,
			OpenNS: 250e6})
	}
	return out
}

func (w world) input() Input {
	return Input{Run: Run{ID: "r1", Finished: true}, Plan: w.plan, Kinds: testKinds, Environments: w.environments(),
		Trials: w.trials()}
}

func (w world) evaluate() *Result { return Evaluate(w.input()) }

func cell(t *testing.T, r *Result, workload, metric, target string) *Cell {
	t.Helper()
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Workload == workload && c.Target == target &&
			(c.Metric == metric || metric == "" && c.Primary) {
			return c
		}
	}
	t.Fatalf("no cell %s %s %s", workload, metric, target)
	return nil
}

func warning(c *Cell, code string) *record.Warning {
	for i := range c.Warnings {
		if c.Warnings[i].Code == code {
			return &c.Warnings[i]
		}
	}
	return nil
}

func finding(r *Result, code string) *Finding {
	for i := range r.Findings {
		if r.Findings[i].Code == code {
			return &r.Findings[i]
		}
	}
	return nil
}
