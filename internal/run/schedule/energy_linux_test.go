package schedule

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// meterOf is a meter that says that each reading is so many joules after the one before.
func meterOf(t *testing.T, joules string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "joules")
	if err := os.WriteFile(file, []byte("1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"sh", "-c", `sleep ${3:-0}; read n < "$1"; n=$((n + $2)); echo $n > "$1"; echo $n`, "meter", file, joules}
}

// slowMeterOf is one that takes its time.
func slowMeterOf(t *testing.T, joules string) []string { return append(meterOf(t, joules), "0.02") }

// energyIn has the energy of each trial that counts, in a target.
func energyIn(trials []record.Trial, target string) (joules []float64, states []string) {
	for i := range trials {
		if t := &trials[i]; t.Target == target && !t.Warmup() && t.Error == nil {
			joules, states = append(joules, t.Metrics[record.Energy]), append(states, t.State["energy"])
		}
	}
	return joules, states
}

// long is a cost at which a trial takes some seconds by the clock of the simulation, so that what lies between the
// readings of a real meter is its timed part.
const long = 1e4

// TestEnergyOfAMeter reads a real command around the trials. It is the meter of whatever its user says.
func TestEnergyOfAMeter(t *testing.T) {
	p := simPlan("host", "vm")
	p.Workloads, p.Looks = p.Workloads[:1], []int{10}
	p.Energy = &plan.Energy{From: "meter", Meter: meterOf(t, "30")}
	m, r, err := simulate(t, t.Context(), newWorld(0, map[string]float64{"host": long, "vm": 2 * long}), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"host", "vm"} {
		joules, states := energyIn(m.trials, target)
		for i, v := range joules {
			if work := p.Workloads[0].Work[target]; math.Abs(v*float64(work)-30) > 1e-6 {
				t.Errorf("%s: %v J for each of %d units: %s", target, v, work, states[i])
			}
			if !strings.HasPrefix(states[i], "meter: 30 J in ") {
				t.Errorf("%s: %v J, %q", target, v, states[i])
			}
		}
		if len(joules) < 10 {
			t.Errorf("%d trials in %s", len(joules), target)
		}
	}
	found := false
	for i := range r.Cells {
		c := &r.Cells[i]
		found = found || c.Metric == record.Energy && c.Target == "vm" && c.Ratio.Center > 0 && !c.Primary
	}
	if !found {
		t.Errorf("no cell compares the energy: %+v", r.Cells)
	}
	if f := findingOf(r, "energy-for-work"); f == nil || !strings.Contains(f.Text, "in vm: one ") {
		t.Errorf("%+v", f)
	}
}

func findingOf(r *verdict.Result, code string) *verdict.Finding {
	for i := range r.Findings {
		if r.Findings[i].Code == code {
			return &r.Findings[i]
		}
	}
	return nil
}

// TestEnergyIsNotKnown: what is not known has the reason, once in the report, and no figure.
func TestEnergyIsNotKnown(t *testing.T) {
	cases := map[string]struct {
		energy plan.Energy
		cost   float64
		says   string
	}{
		"no counters":     {plan.Energy{From: "auto"}, long, "no counters of the processor's energy"},
		"no such command": {plan.Energy{From: "meter", Meter: []string{"/no/such/meter"}}, long, "command failed"},
		"still":           {plan.Energy{From: "meter", Meter: meterOf(t, "0")}, long, "moved by 0 J"},
		"short":           {plan.Energy{From: "meter", Meter: slowMeterOf(t, "30")}, 1e-3, "readings were"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := simPlan("host", "vm")
			p.Workloads, p.Looks, p.Energy = p.Workloads[:1], []int{10}, &c.energy
			m, r, err := simulate(t, t.Context(), newWorld(0, map[string]float64{"host": c.cost, "vm": c.cost}), p,
				func(c *Config) { c.Sys = t.TempDir() })
			if err != nil {
				t.Fatal(err)
			}
			joules, states := energyIn(m.trials, "vm")
			for i := range joules {
				if joules[i] != 0 || !strings.HasPrefix(states[i], record.NotMeasured) ||
					!strings.Contains(states[i], c.says) {
					t.Errorf("%v J, %q, want %q", joules[i], states[i], c.says)
				}
			}
			for i := range r.Cells {
				if r.Cells[i].Metric == record.Energy {
					t.Errorf("a cell of what is not known: %+v", r.Cells[i])
				}
			}
			n := 0
			for i := range r.Findings {
				if r.Findings[i].Code == "energy-unmeasurable" {
					n++
				}
			}
			if f := findingOf(r, "energy-unmeasurable"); n != 1 || !strings.Contains(f.Text, "unmeasurable here: ") {
				t.Errorf("%d findings: %+v", n, f)
			}
		})
	}
}

// TestEnergyOfThisMachine: its counters say nothing of work that may run elsewhere.
func TestEnergyOfThisMachine(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "class", "powercap", "intel-rapl:0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"name": "package-0", "energy_uj": "5", "max_energy_range_uj": "1000000"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := simPlan("host", "lab")
	p.Workloads, p.Looks, p.Energy = p.Workloads[:1], []int{10}, &plan.Energy{From: "rapl"}
	m, _, err := simulate(t, t.Context(), newWorld(0, map[string]float64{"host": long, "lab": long}), p,
		func(c *Config) { c.Sys = sys })
	if err != nil {
		t.Fatal(err)
	}
	_, states := energyIn(m.trials, "lab")
	if len(states) == 0 || !strings.Contains(states[0], "not known on this machine") {
		t.Errorf("%q", states)
	}
}

// TestEnergyLeavesTheWorkloadsOwn: a command's metric may have the name of the controller's.
func TestEnergyLeavesTheWorkloadsOwn(t *testing.T) {
	done := record.Trial{Work: 10, ControllerNS: 1e12,
		Figures: record.Figures{Metrics: map[string]float64{record.Energy: 7}}}
	(&trialEnergy{}).record(&done)
	if s := done.State["energy"]; done.Metrics[record.Energy] != 7 || !strings.HasPrefix(s, record.NotMeasured) ||
		!strings.Contains(s, record.Energy) {
		t.Errorf("%v, %q", done.Metrics, s)
	}
}

// TestEnergyOfCopies: they begin together, the end is that of the last one, and each of them did the work.
func TestEnergyOfCopies(t *testing.T) {
	w := &twoCPUWorld{world: newWorld(0, map[string]float64{"box": 1e6})}
	agent := func() *Target {
		return &Target{Agent: &twoCPUAgent{&simAgent{w: w.world, name: "box", alive: true}, w}}
	}
	c := &copyAgents{&copySet{of: "box", open: []*Target{agent(), agent()}}, 2}
	x := &trialRunner{energy: openEnergy(t.Context(), &plan.Energy{From: "meter", Meter: meterOf(t, "40")}, "")}
	s := x.energyOf("box@2", &target{}, c)
	if !s.wanted() {
		t.Fatal(s.why)
	}
	held := s.held(t.Context())
	read, ready := int64(0), held.Ready
	held.Ready = func(ctx context.Context, offer string, rtt int64) (at int64, err error) {
		at, err = ready(ctx, offer, rtt)
		read = wire.Now()
		return at, err
	}
	out, err := c.RunHeld(t.Context(), wire.Run{Work: 10}, held)
	if err != nil {
		t.Fatal(err)
	}
	if len(w.begun) != 2 || w.begun[0] != w.begun[1] || w.begun[0] <= read {
		t.Errorf("the counters were read at %d, and the copies began at %d", read, w.begun)
	}
	done := record.Trial{Work: 10, ControllerNS: 1e12, Copies: out.Copies}
	if s.record(&done); done.Metrics[record.Energy] != 2 {
		t.Errorf("40 J for 10 units in two copies each are %v J: %s", done.Metrics[record.Energy],
			done.State["energy"])
	}
}
