package verdict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/internal/record"
)

// processor gives trials accounts with what their processors counted: factors by target of instructions for each unit
// of work, cycles for each of them, time for each cycle, and the time for all that. Each is told apart with noise.
func processor(by map[string][4]float64, noise float64, seed uint64) func(*record.Trial) {
	rng := rand.New(rand.NewPCG(seed, 9))
	return func(t *record.Trial) {
		f, ok := by[t.Target]
		if !ok {
			f = [4]float64{1, 1, 1, 1}
		}
		for i := range f {
			f[i] *= math.Exp(noise * rng.NormFloat64())
		}
		// From the time of the trial backwards, so that the product is what the trial took.
		ns := float64(t.AgentNS)
		cpu := ns / (1.2 * f[3])
		cycles := cpu / (0.4 * f[2])
		instructions := cycles / (0.8 * f[1])
		t.Account = &record.Account{Lanes: 1, Counts: map[string]int64{
			record.UserNS: int64(0.75 * cpu), record.KernelNS: int64(0.25 * cpu), record.ReadyNS: 0, record.DiskNS: 0,
			record.OtherNS:          int64(ns - cpu),
			record.InstructionsUser: int64(0.6 * instructions), record.InstructionsKernel: int64(0.4 * instructions),
			record.CyclesUser: int64(0.7 * cycles), record.CyclesKernel: int64(0.3 * cycles)}}
	}
}

func multipliesUp(t *testing.T, w *Why) {
	t.Helper()
	all := 1.0
	for _, f := range w.Product.Factors {
		all *= f.Ratio
		if f.Low > f.Ratio || f.High < f.Ratio && f.High != 0 || f.Shown && !(f.Low > 1 || f.High < 1) {
			t.Errorf("%s: %+v", w.Target, f)
		}
	}
	if math.Abs(all/w.Ratio-1) > 1e-9 {
		t.Errorf("%s: the factors multiply to %g, of a ratio of %g", w.Target, all, w.Ratio)
	}
}

func TestWhyAsAProduct(t *testing.T) {
	same := [4]float64{1, 1, 1, 1}
	w := world{plan: testPlan("cpu.prime"), cost: map[string]float64{"vm": 1.3}, noise: 0.005, blocks: 12, seed: 1,
		change: processor(map[string][4]float64{"host": same, "vm": {1, 1.25, 1, 1.04}}, 0.004, 1)}
	r := w.evaluate()
	vm := whyOf(t, r, "vm")
	t.Log(vm.Product.Text)
	multipliesUp(t, vm)
	for i, want := range []float64{1, 1.25, 1, 1.04} {
		if f := vm.Product.Factors[i]; math.Abs(f.Ratio-want) > 0.01 || f.Shown != (i == 1 || i == 3) {
			t.Errorf("%+v, want %g", f, want)
		}
	}
	if p := vm.Product; p.Level != 0.95 || !strings.Contains(p.Text, " cycles per instruction x ") ||
		!strings.Contains(p.Text, "; shown against host: cycles per instruction [1.2") {
		t.Errorf("%+v", p)
	}
	if box := whyOf(t, r, "box"); !strings.HasSuffix(box.Product.Text, "; no factor is shown to differ from 1") {
		t.Error(box.Product.Text)
	}
}

func TestAProductTakesWhatIsCounted(t *testing.T) {
	evaluated := func(change func(*record.Trial)) *Why {
		given := processor(map[string][4]float64{"vm": {1, 1.2, 1, 1}}, 0.004, 2)
		w := world{plan: testPlan("cpu.prime"), cost: map[string]float64{"vm": 1.2}, noise: 0.005, blocks: 12, seed: 2,
			change: func(t *record.Trial) { given(t); change(t) }}
		r := w.evaluate()
		return whyOf(t, r, "vm")
	}
	// An ordinary user may count user code only: then the rest is what is left of the ratio.
	vm := evaluated(func(t *record.Trial) {
		delete(t.Account.Counts, record.CyclesKernel)
		t.Account.Unmeasured = map[string]string{record.CyclesKernel: "it is not allowed"}
	})
	multipliesUp(t, vm)
	if p := vm.Product; len(p.Factors) != 3 || !p.Factors[1].Shown ||
		!strings.HasSuffix(p.Text, "; of the kernel nothing is counted: host: it is not allowed") {
		t.Errorf("%+v", p)
	}
	// Without counters there is no product, and the reason is told.
	vm = evaluated(func(t *record.Trial) {
		if t.Target == "vm" {
			for _, name := range []string{record.InstructionsUser, record.CyclesUser, record.CyclesKernel} {
				delete(t.Account.Counts, name)
			}
			t.Account.Unmeasured = map[string]string{record.InstructionsUser: "no virtual PMU"}
		}
	})
	if p := vm.Product; len(p.Factors) != 0 || p.Text != "unmeasurable: vm: no virtual PMU" || vm.Because == "" {
		t.Errorf("%+v", vm)
	}
	vm = evaluated(func(t *record.Trial) { t.Account.Counts[record.InstructionsUser] = -1 << 62 })
	if p := vm.Product; len(p.Factors) != 0 || !strings.HasPrefix(p.Text, "unmeasurable: a processor counted nothing") {
		t.Errorf("%+v", p)
	}
}

// TestSimulatedProduct holds that factors which do not differ are seldom shown, and that those which do are found.
func TestSimulatedProduct(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs are simulated")
	}
	t.Parallel()
	const runs = 200
	wrong, missed := 0, 0
	for seed := range uint64(runs) {
		w := world{plan: testPlan("cpu.prime"), cost: map[string]float64{"vm": 1.05}, noise: 0.01, blocks: 15,
			seed: seed, change: processor(map[string][4]float64{"vm": {1, 1.05, 1, 1}}, 0.015, seed)}
		r := w.evaluate()
		for _, f := range whyOf(t, r, "box").Product.Factors {
			if f.Shown {
				wrong++
				break
			}
		}
		if !whyOf(t, r, "vm").Product.Factors[1].Shown {
			missed++
		}
	}
	t.Logf("of %d cells without a difference %d show a factor; of as many with 5 %% more cycles per instruction %d do "+
		"not show it", runs, wrong, missed)
	if wrong > runs/20 || missed > runs/20 {
		t.Errorf("%d and %d of %d", wrong, missed, runs)
	}
}
