package verdict

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"tare/internal/record"
)

// counting gives each trial an account with switches: as many for each run as by says, told apart by chance, and those
// of the worker itself, which are none of the command's.
func counting(by map[string]float64, seed uint64) func(*record.Trial) {
	rng := rand.New(rand.NewPCG(seed, 9))
	return func(t *record.Trial) {
		n := by[t.Target] * float64(t.Work)
		own := 3 * t.Work
		t.State["switches_voluntary"] = strconv.FormatInt(own, 10)
		t.Account = &record.Account{Lanes: 1, Counts: map[string]int64{
			record.SwitchesVoluntary:   own + int64(n),
			record.SwitchesInvoluntary: int64(0.1 * n * rng.Float64()),
		}, Unmeasured: map[string]string{record.InstructionsUser: "no PMU", record.InstructionsKernel: "no PMU",
			record.CyclesUser: "no PMU", record.CyclesKernel: "no PMU"}}
	}
}

// countersFor finds what was counted in a target.
func countersFor(t *testing.T, r *Result, target string) *Counters {
	t.Helper()
	for i := range r.Counters {
		if r.Counters[i].Target == target {
			return &r.Counters[i]
		}
	}
	t.Fatalf("nothing was counted in %s: %+v", target, r.Counters)
	return nil
}

func TestCountersOfCommands(t *testing.T) {
	w := world{plan: testPlan("cpu.prime", "command"), noise: 0.005, blocks: 10, seed: 1,
		change: counting(map[string]float64{"host": 10, "box": 10, "vm": 30}, 1)}
	r := w.evaluate()
	if len(r.Counters) != 2 {
		t.Fatalf("%d, want one of each candidate of the command: %+v", len(r.Counters), r.Counters)
	}
	vm := countersFor(t, r, "vm")
	if len(vm.Counts) != 1 || vm.Unmeasured[Instructions] != "no PMU" || vm.Unmeasured[Cycles] != "no PMU" ||
		vm.Unmeasured[ContextSwitches] != "" {
		t.Fatalf("%+v", vm)
	}
	if x := vm.Counts[0]; x.Name != ContextSwitches || math.Abs(x.Base-10.5) > 0.5 || math.Abs(x.Ratio-3) > 0.2 ||
		!x.Shown || !(1 < x.Low && x.Low <= x.Ratio && x.Ratio <= x.High) {
		t.Errorf("%+v", x)
	}
	if x := countersFor(t, r, "box").Counts[0]; x.Shown || !(x.Low <= 1 && x.High >= 1) {
		t.Errorf("of the same as the baseline: %+v", x)
	}
}

// TestCountersOfOneSide: what one side does not tell is not compared, and it is said which side that is.
func TestCountersOfOneSide(t *testing.T) {
	given := counting(map[string]float64{"host": 10, "box": 10, "vm": 30}, 2)
	evaluated := func(change func(*record.Trial)) *Result {
		w := world{plan: testPlan("command"), noise: 0.005, blocks: 10, seed: 2,
			change: func(t *record.Trial) { given(t); change(t) }}
		return w.evaluate()
	}
	slim := func(target string) func(*record.Trial) {
		return func(t *record.Trial) {
			for _, name := range []string{record.InstructionsUser, record.InstructionsKernel} {
				if t.Target != target {
					t.Account.Counts[name] = 1e6 * t.Work
				} else {
					t.Account.Unmeasured[name] = "slim"
				}
			}
		}
	}
	r := evaluated(slim("vm"))
	if k := countersFor(t, r, "vm"); k.Unmeasured[Instructions] != "vm: slim" || k.Counts[1].Base != 2e6 ||
		k.Counts[1].Candidate != 0 || k.Counts[1].Ratio != 0 {
		t.Errorf("%+v", k)
	}
	if k := countersFor(t, r, "box"); k.Unmeasured[Instructions] != "" || k.Counts[1].Candidate != 2e6 ||
		k.Counts[1].Shown {
		t.Errorf("%+v", k)
	}
	if k := countersFor(t, evaluated(slim("host")), "vm"); k.Unmeasured[Instructions] != "host: slim" {
		t.Errorf("%+v", k)
	}
	// Work that differs is not compared, but what each side counted is told.
	r = evaluated(func(t *record.Trial) { t.Checks["result"] = t.Target })
	if x := countersFor(t, r, "vm").Counts[0]; x.Ratio != 0 || x.Shown || x.Base == 0 || x.Candidate == 0 {
		t.Errorf("%+v", x)
	}
	// A variant that never ran has nothing.
	r = evaluated(func(t *record.Trial) {
		if t.Target == "vm" {
			t.Metrics, t.Account, t.Error = nil, nil, &record.Failure{Kind: "measure", Message: "exit code 1"}
		}
	})
	if x := countersFor(t, r, "vm").Counts[0]; x.Ratio != 0 || x.Base == 0 || x.Candidate != 0 {
		t.Errorf("%+v", x)
	}
	// Without accounts, as in older bundles, there is nothing at all.
	if r := evaluated(func(t *record.Trial) { t.Account = nil }); r.Counters != nil {
		t.Errorf("%+v", r.Counters)
	}
	// Nonsense in a bundle gives figures that JSON can hold.
	for name, change := range map[string]func(*record.Trial){
		"nothing":  func(t *record.Trial) { t.Account.Counts, t.Account.Unmeasured = nil, nil },
		"negative": func(t *record.Trial) { t.Account.Counts[record.SwitchesVoluntary] = -5 },
		"huge":     func(t *record.Trial) { t.Account.Counts[record.SwitchesInvoluntary] = math.MaxInt64 },
		"states":   func(t *record.Trial) { t.State["switches_voluntary"] = "many" },
		"no work":  func(t *record.Trial) { t.Work = 0 },
	} {
		if _, err := json.Marshal(evaluated(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCountersOfTheSameAreNotShown: of commands that count the same, with chance, hardly ever one is called another.
func TestCountersOfTheSameAreNotShown(t *testing.T) {
	called, all := 0, 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 31))
		w := world{plan: testPlan("command"), noise: 0.01, blocks: 10, seed: seed, change: func(t *record.Trial) {
			n := int64(float64(20*t.Work) * math.Exp(0.2*rng.NormFloat64()))
			t.Account = &record.Account{Lanes: 1, Counts: map[string]int64{record.SwitchesVoluntary: n,
				record.SwitchesInvoluntary: 0}}
		}}
		r := w.evaluate()
		for _, k := range r.Counters {
			all++
			if k.Counts[0].Shown {
				called++
			}
		}
	}
	t.Logf("%d of %d that are the same are shown to differ", called, all)
	if all != 400 || float64(called) > 0.03*float64(all) {
		t.Errorf("%d of %d that are the same are shown to differ, want at most 3 %%", called, all)
	}
}
