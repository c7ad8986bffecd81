package verdict

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/record"
)

// accounts gives each trial an account: shares of its time by target, in the order of record.AccountParts, which are
// told apart with the given noise.
func accounts(by map[string][5]float64, noise float64, seed uint64) func(*record.Trial) {
	rng := rand.New(rand.NewPCG(seed, 5))
	return func(t *record.Trial) {
		of, sum := by[t.Target], 0.0
		for i := range of {
			of[i] *= math.Exp(noise * rng.NormFloat64())
			sum += of[i]
		}
		t.Account = &record.Account{Lanes: 1, Counts: map[string]int64{record.SwitchesVoluntary: t.Work,
			record.FaultsMinor: int64(100 * rng.Float64()), record.StolenNS: 0, record.IOStalledNS: 7 * t.Work}}
		if t.Target == "vm" {
			t.Account.Counts[record.SwitchesVoluntary] = 3 * t.Work
			t.Account.Counts[record.StolenNS] = 50 * t.Work
		}
		for i, name := range record.AccountParts() {
			t.Account.Counts[name] = int64(of[i] / sum * float64(t.AgentNS))
		}
	}
}

// whyOf finds the answer for a target.
func whyOf(t *testing.T, r *Result, target string) *Why {
	t.Helper()
	for i := range r.Why {
		if r.Why[i].Target == target {
			return &r.Why[i]
		}
	}
	t.Fatalf("no ratio of %s is taken apart", target)
	return nil
}

func addsUp(t *testing.T, w *Why) {
	t.Helper()
	var base, cand, extra, told float64
	for i, p := range w.Parts {
		base, cand, extra = base+p.Base, cand+p.Candidate, extra+p.Extra
		told += w.Rounded()[i]
		if math.Abs(p.Candidate-p.Base-p.Extra) > 1e-12 || p.Low > p.Extra || p.High < p.Extra {
			t.Errorf("%s: %+v", w.Target, p)
		}
	}
	scale := math.Pow10(w.Digits())
	if math.Abs(base-1) > 1e-9 || math.Abs(cand-w.Ratio) > 1e-9*w.Ratio || math.Abs(extra-w.Ratio+1) > 1e-9*w.Ratio ||
		math.Abs(told*scale-math.Round(w.Ratio*scale)) > 1e-6 {
		t.Errorf("%s: the parts add up to %g, %g, %g and, as told, %g, of a ratio of %g", w.Target, base, cand, extra,
			told, w.Ratio)
	}
}

func TestWhyTakesARatioApart(t *testing.T) {
	same := [5]float64{0.6, 0.3, 0.05, 0, 0.05}
	w := world{plan: testPlan("fs.seqwrite"), cost: map[string]float64{"vm": 1.5}, noise: 0.005, blocks: 10, seed: 1,
		change: accounts(map[string][5]float64{"host": same, "box": same, "vm": {0.6, 0.8, 0.05, 0, 0.05}}, 0.01, 1)}
	r := w.evaluate()
	if len(r.Why) != 2 {
		t.Fatalf("%d ratios are taken apart, want those of both candidates", len(r.Why))
	}
	for i := range r.Why {
		addsUp(t, &r.Why[i])
	}
	vm := whyOf(t, r, "vm")
	t.Log(vm.Text)
	if vm.Level != 0.95 || vm.Blocks != 10 || len(vm.Parts) != 5 {
		t.Errorf("%+v", vm)
	}
	for _, p := range vm.Parts {
		if p.Shown != (p.Name == "kernel") {
			t.Errorf("%+v", p)
		}
	}
	if p := vm.Parts[1]; math.Abs(p.Extra-0.5) > 0.02 || !(p.Low < 0.5 && p.High > 0.5) {
		t.Errorf("the kernel has +0.5: %+v", p)
	}
	for _, want := range []string{"1.50 = 0.6", " user code + 0.", " kernel + ", "shown against host: +0.",
		" kernel [+0."} {
		if !strings.Contains(vm.Text, want) {
			t.Errorf("%q is not in %q", want, vm.Text)
		}
	}
	if !strings.HasPrefix(vm.Because, "1.50 = 1 + 0.") || !strings.Contains(vm.Because, " kernel") ||
		strings.Contains(vm.Because, "user code") {
		t.Error(vm.Because)
	}
	if box := whyOf(t, r, "box"); box.Because != "" {
		t.Errorf("no part is shown, and it says %q", box.Because)
	}
	if c := vm.Counts; len(c) != 2 || c[0] != (Counted{record.StolenNS, 0, 50}) ||
		c[1] != (Counted{record.SwitchesVoluntary, 1, 3}) {
		t.Errorf("counts: %+v", c)
	}
	if box := whyOf(t, r, "box"); !strings.HasSuffix(box.Text, "; no part is shown to differ from host") {
		t.Error(box.Text)
	}
}

// TestBecauseAddsUp: 1 and the terms are the ratio, as it is told, whatever the parts are.
func TestBecauseAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		w := Why{}
		for i := range 1 + rng.IntN(5) {
			p := Part{What: "part " + string(rune('a'+i)), Base: rng.Float64(), Shown: rng.IntN(3) > 0}
			p.Candidate = p.Base * math.Exp(3*rng.NormFloat64())
			w.Parts = append(w.Parts, p)
		}
		sum := 0.0
		for _, p := range w.Parts {
			sum += p.Base
		}
		for i := range w.Parts {
			p := &w.Parts[i]
			p.Base, p.Candidate = p.Base/sum, p.Candidate/sum
			p.Extra = p.Candidate - p.Base
			w.Ratio += p.Candidate
		}
		text := w.because()
		if text == "" {
			continue
		}
		left, right, ok := strings.Cut(text, " = ")
		total, err := strconv.ParseFloat(left, 64)
		if !ok || err != nil {
			t.Fatal(text)
		}
		sign := 1.0
		for word := range strings.FieldsSeq(right) {
			switch v, err := strconv.ParseFloat(word, 64); {
			case word == "+":
				sign = 1
			case word == "-":
				sign = -1
			case err == nil:
				total -= sign * v
			}
		}
		if math.Abs(total) > 1e-9 {
			t.Fatalf("%s: off by %g; %+v", text, total, w.Parts)
		}
	}
	shown := func(extras ...float64) string {
		w := Why{Ratio: 1}
		for i, x := range extras {
			w.Ratio += x
			w.Parts = append(w.Parts, Part{What: []string{"kernel", "user code", "waiting"}[i], Extra: x, Shown: i < 2})
		}
		return w.because()
	}
	for want, got := range map[string]string{
		"3.37 = 1 + 1.63 kernel + 0.74 user code":                                  shown(1.63, 0.74),
		"0.50 = 1 - 0.60 kernel + 0.06 user code + 0.04 parts not shown to differ": shown(-0.6, 0.06, 0.04),
		"1.10 = 1 + 0.10 user code":                                                shown(0.001, 0.1),
		"":                                                                         shown(0.001, 0.002, 0.2),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWhyKeepsToWhatIsMeasured(t *testing.T) {
	shares := map[string][5]float64{"host": {0.6, 0.3, 0, 0.1, 0}, "box": {0.6, 0.3, 0, 0.1, 0},
		"vm": {0.5, 0.3, 0, 0, 0.2}}
	plan := testPlan("fs.seqwrite")
	evaluated := func(change func(*record.Trial)) *Result {
		given := accounts(shares, 0.01, 2)
		w := world{plan: plan, cost: map[string]float64{"vm": 2}, noise: 0.005, blocks: 10, seed: 2,
			change: func(t *record.Trial) { given(t); change(t) }}
		return w.evaluate()
	}
	// What one side does not measure is in the remainder of both.
	r := evaluated(func(t *record.Trial) {
		if t.Target == "vm" {
			delete(t.Account.Counts, record.DiskNS)
			t.Account.Unmeasured = map[string]string{record.DiskNS: "it is off"}
		}
	})
	vm := whyOf(t, r, "vm")
	addsUp(t, vm)
	rest := vm.Parts[len(vm.Parts)-1]
	if len(vm.Parts) != 4 || rest.What != "waiting for a disk or something else" ||
		vm.Unmeasured[record.DiskNS] != "vm: it is off" || math.Abs(rest.Base-0.1) > 0.02 {
		t.Errorf("%+v", vm)
	}
	if box := whyOf(t, r, "box"); len(box.Parts) != 5 || len(box.Unmeasured) > 0 {
		t.Errorf("box: %+v", box)
	}
	// Without the time on a processor, or where the figure is not the time, there are no parts, and it is said why.
	r = evaluated(func(t *record.Trial) {
		delete(t.Account.Counts, record.UserNS)
		t.Account.Unmeasured = map[string]string{record.UserNS: "Plan 9 does not tell"}
	})
	if vm := whyOf(t, r, "vm"); len(vm.Parts) != 0 || !strings.Contains(vm.Text, "host: Plan 9 does not tell") {
		t.Errorf("%+v", vm)
	}
	r = evaluated(func(t *record.Trial) { t.AgentNS, t.ControllerNS = 300e6, 300e6 })
	if vm := whyOf(t, r, "vm"); len(vm.Parts) != 0 || !strings.HasPrefix(vm.Text, "mib_per_second is not the time") {
		t.Errorf("%+v", vm)
	}
	// Without accounts, as in older bundles, there is nothing.
	if r := evaluated(func(t *record.Trial) { t.Account = nil }); r.Why != nil {
		t.Errorf("%+v", r.Why)
	}
	// Nonsense in a bundle gives figures all the same.
	for name, change := range map[string]func(*record.Trial){
		"nothing":  func(t *record.Trial) { t.Account.Counts = map[string]int64{} },
		"zeros":    func(t *record.Trial) { clear(t.Account.Counts); fill(t, 0) },
		"negative": func(t *record.Trial) { fill(t, -5) },
		"huge":     func(t *record.Trial) { fill(t, math.MaxInt64) },
	} {
		if _, err := json.Marshal(evaluated(change)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func fill(t *record.Trial, v int64) {
	for _, name := range record.AccountParts() {
		t.Account.Counts[name] = v
	}
}

// TestWhyOfALimitOfProcessors: the same work in twice the time, on half a processor instead of two, costs no user code.
func TestWhyOfALimitOfProcessors(t *testing.T) {
	change := func(t *record.Trial) {
		lanes := 1.9
		on := lanes * float64(t.AgentNS) // on processors; the same for a unit of work, whatever the limit
		if t.Target == "vm" {
			on, lanes = on/3.8, 1
		}
		t.Account = &record.Account{Lanes: lanes, Unmeasured: map[string]string{record.ReadyNS: "of children",
			record.DiskNS: "of children"}, Counts: map[string]int64{record.UserNS: int64(0.9 * on),
			record.KernelNS: int64(0.1 * on), record.OtherNS: int64(lanes*float64(t.AgentNS) - on)}}
	}
	w := world{plan: testPlan("fs.seqwrite"), cost: map[string]float64{"vm": 3.8}, noise: 0.005, blocks: 10, seed: 4,
		change: change}
	in := w.input()
	for i := range in.Environments {
		if in.Environments[i].Name == "vm" {
			in.Environments[i].Outside.Extra = map[string]string{"cgroup.cpus": "0.5"}
		}
	}
	r := Evaluate(in)
	vm := whyOf(t, r, "vm")
	addsUp(t, vm)
	t.Log(vm.Text)
	for _, p := range vm.Parts {
		waits := p.Name == "other"
		if p.Shown != waits || !waits && math.Abs(p.Extra) > 0.05 || waits && math.Abs(p.Extra-2.8) > 0.1 {
			t.Errorf("%+v", p)
		}
	}
	if rest := vm.Parts[len(vm.Parts)-1]; rest.What != "waiting for a processor, by a limit of 0.5, or something else" {
		t.Error(rest.What)
	}
	if box := whyOf(t, r, "box"); strings.Contains(box.Text, "limit") {
		t.Error(box.Text)
	}
}

func TestWhyNamesEmulationAndTheHost(t *testing.T) {
	given := accounts(map[string][5]float64{"host": {1, 0, 0, 0, 0}, "box": {1, 0, 0, 0, 0},
		"vm": {0.99, 0.01, 0, 0, 0}}, 0.01, 3)
	w := world{plan: testPlan("cpu.prime"), cost: map[string]float64{"vm": 12}, noise: 0.005, blocks: 10, seed: 3,
		change: func(t *record.Trial) {
			given(t)
			if t.Target == "vm" {
				t.State["host_cpu"] = "CPU 0/TCG 3.600 s, odd, qemu 0.360 s"
				t.State[record.HostExits] = "no exits: the processor is emulated"
			}
			if t.Target == "box" {
				t.State[record.HostCPU] = "not measured: it is elsewhere, 2 s"
				t.State[record.HostExits] = strings.ReplaceAll("halt_exits N, exits 3N, odd", "N",
					strconv.FormatInt(t.Work, 10))
			}
		}}
	in := w.input()
	for i := range in.Environments {
		in.Environments[i].Inside.Emulated = in.Environments[i].Name == "vm"
	}
	r := Evaluate(in)
	vm := whyOf(t, r, "vm")
	t.Log(vm.Text)
	addsUp(t, vm)
	if !strings.Contains(vm.Text, " emulation of user code") || !vm.Parts[0].Shown || vm.Digits() != 1 {
		t.Errorf("%+v", vm)
	}
	if s := vm.Serving; len(s) != 2 || s[0].Name != "CPU 0/TCG" || math.Abs(s[0].Processors-1) > 0.05 ||
		s[1].Name != "qemu" {
		t.Errorf("serving: %+v", s)
	}
	if vm.Exits != nil || vm.Unmeasured["exits"] != "vm: no exits: the processor is emulated" {
		t.Errorf("exits: %+v, %q", vm.Exits, vm.Unmeasured)
	}
	box := whyOf(t, r, "box")
	if box.Serving != nil || box.Unmeasured[record.HostCPU] != "box: it is elsewhere, 2 s" ||
		vm.Unmeasured[record.HostCPU] != "" {
		t.Errorf("what works for it here: %+v, %q", box.Serving, box.Unmeasured)
	}
	if strings.Contains(box.Text, "emulation") {
		t.Error(box.Text)
	}
	if e := box.Exits; len(e) != 2 || e[0].Name != "exits" || e[1] != (Exit{"halt_exits", 1}) ||
		!(e[0].PerUnit >= 3) || box.Unmeasured["exits"] != "" {
		t.Errorf("exits: %+v, %q", e, box.Unmeasured)
	}
}

// Trials whose exits are not known are none without exits.
func TestWhyExitsOfTrialsThatTell(t *testing.T) {
	pairs := make([]accounted, 9)
	for i := range pairs {
		pairs[i].a = &record.Trial{Work: 10, Figures: record.Figures{State: map[string]string{
			record.HostExits: record.NotMeasured + "no answer"}}}
		if i < 5 {
			pairs[i].a.State[record.HostExits] = "exits 40"
		}
		if i < 3 {
			pairs[i].a.State[record.HostExits] = "exits 40, halt_exits 20"
		}
	}
	w := &Why{}
	if lacks := w.exits(pairs); lacks != "" || !slices.Equal(w.Exits, []Exit{{"exits", 4}, {"halt_exits", 2}}) {
		t.Errorf("5 of 9 trials tell: %+v, %q", w.Exits, lacks)
	}
	w = &Why{}
	if lacks := w.exits(pairs[1:]); lacks != "" || len(w.Exits) != 2 {
		t.Errorf("4 of 8 trials tell: %+v, %q", w.Exits, lacks)
	}
	w = &Why{}
	if lacks := w.exits(pairs[2:]); lacks != "no answer" || w.Exits != nil {
		t.Errorf("3 of 7 trials tell: %+v, %q", w.Exits, lacks)
	}
}

// TestSimulatedWhy holds that parts which do not differ are seldom shown, and that those which do are found.
func TestSimulatedWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs are simulated")
	}
	t.Parallel()
	const runs = 200
	wrong, missed := 0, 0
	base := [5]float64{0.5, 0.3, 0.05, 0.05, 0.1}
	more := base
	more[1] += 0.05
	for seed := range uint64(runs) {
		w := world{plan: testPlan("fs.seqwrite"), cost: map[string]float64{"vm": 1.05}, noise: 0.01, blocks: 15,
			seed: seed, change: accounts(map[string][5]float64{"host": base, "box": base, "vm": more}, 0.05, seed)}
		r := w.evaluate()
		for _, p := range whyOf(t, r, "box").Parts {
			if p.Shown {
				wrong++
				break
			}
		}
		if !whyOf(t, r, "vm").Parts[1].Shown {
			missed++
		}
	}
	t.Logf("of %d cells without a difference %d show a part; of as many with 5 %% more in the kernel %d do not show it",
		runs, wrong, missed)
	if wrong > runs/20 || missed > runs/20 {
		t.Errorf("%d and %d of %d", wrong, missed, runs)
	}
}
