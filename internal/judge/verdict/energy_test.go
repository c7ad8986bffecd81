package verdict

import (
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// A metric that a command's user has named like that of energy is the user's, and there is one cell of it.
func TestEnergyOfTheUsersOwnName(t *testing.T) {
	w := world{plan: testPlan("command"), cost: map[string]float64{"box": 1, "vm": 2}, noise: 0.005, blocks: 10,
		change: func(t *record.Trial) { t.Metrics[record.Energy] = 5 * float64(1+len(t.Target)) }}
	in := w.input()
	own := unit.Metric{Name: record.Energy, Unit: "mJ", Better: unit.Lower}
	in.Kinds = func(name string) (*workload.Kind, bool) {
		k, ok := testKinds(name)
		if ok {
			k.Metrics = append(k.Metrics, own)
		}
		return k, ok
	}
	r := Evaluate(in)
	n := map[string]int{}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Metric == record.Energy {
			if n[c.Target]++; c.Unit != own.Unit {
				t.Errorf("%s: %s", c.Target, c.Unit)
			}
		}
	}
	if n["vm"] != 1 || n["box"] != 1 {
		t.Errorf("cells of %s: %v", record.Energy, n)
	}
	for _, f := range r.Findings {
		if f.Code == "energy-for-work" {
			t.Error(f.Text)
		}
	}
}

// The remedy for a meter that does not work is about this meter, and not about having one.
func TestRemedyOfAMeter(t *testing.T) {
	for from, want := range map[string]string{"auto": "--energy meter:COMMAND", "rapl": "--energy meter:COMMAND",
		"meter": "call the meter's command by itself"} {
		w := world{plan: testPlan("cpu.prime"), blocks: 10, change: func(t *record.Trial) {
			t.State["energy"] = record.NotMeasured + "it failed"
		}}
		in := w.input()
		in.Plan.Energy = &plan.Energy{From: from}
		n := 0
		for _, f := range Evaluate(in).Findings {
			if f.Code == "energy-unmeasurable" {
				if n++; !strings.Contains(f.Remedy, want) {
					t.Errorf("%s: %q, want %q", from, f.Remedy, want)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: said %d times", from, n)
		}
	}
}
