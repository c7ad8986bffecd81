package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

func TestUnequalWorkIsWithheld(t *testing.T) {
	for name, change := range map[string]func(*record.Trial){
		"another result":     func(t *record.Trial) { t.Checks["result"] = "1229" },
		"no check at all":    func(t *record.Trial) { t.Checks = nil },
		"one check more":     func(t *record.Trial) { t.Checks["rows"] = "5" },
		"differs in one run": func(t *record.Trial) { t.Checks["result"] = fmt.Sprint(1228 + t.Block/7) },
		"missing in one run": func(t *record.Trial) {
			delete(t.Checks,
				map[bool]string{true: "result"}[t.Block == 3])
		},
		"differs every trial": func(t *record.Trial) { t.Checks["result"] = fmt.Sprint(t.Block) },
	} {
		r := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 0.5},
			change: func(t *record.Trial) {
				if t.Target == "vm" {
					change(t)
				}
			}}.evaluate()
		c := cell(t, r, "cpu.prime", "", "vm")
		w := warning(c, "unequal-work")
		if c.Verdict != record.Withheld || w == nil || c.Ratio.Center != 0 || c.High != 0 || c.Center == 0 {
			t.Errorf("%s: %s, ratio %g, %v", name, c.Verdict, c.Ratio.Center, c.Warnings)
			continue
		}
		if !strings.Contains(w.Text, "vm") || !strings.Contains(w.Text, "host") {
			t.Errorf("%s: the text does not name both sides: %s", name, w.Text)
		}
		if f := finding(r, "unequal-work"); f == nil || f.Severity != Withhold {
			t.Errorf("%s: findings %+v", name, r.Findings)
		}
		if b := cell(t, r, "cpu.prime", "", "box"); b.Verdict != record.Equivalent {
			t.Errorf("%s: box lost its verdict: %s", name, b.Verdict)
		}
	}
}

func TestAccessIsWithheld(t *testing.T) {
	on := func(target string, f func(*record.Trial)) func(*record.Trial) {
		return func(t *record.Trial) {
			if target == "" || t.Target == target {
				f(t)
			}
		}
	}
	warn := func(code string) func(*record.Trial) {
		return func(t *record.Trial) {
			t.Warnings = []record.Warning{{Code: code, Text: "seen", Remedy: "do"}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*record.Trial)
		want   record.Verdict
		code   string
	}{
		// the other side says nothing
		{"direct on one side", on("vm", func(t *record.Trial) { t.State["direct"] = "true" }), record.Different, ""},
		{"direct differs", func(t *record.Trial) { t.State["direct"] = strconv.FormatBool(t.Target == "vm") },
			record.Withheld, "unequal-access"},
		{"direct agrees", func(t *record.Trial) { t.State["direct"] = "true" }, record.Different, ""},
		{"served from the cache", on("vm", warn("direct-was-cached")), record.Withheld, "direct-was-cached"},
		{"served from the baseline's cache", on("host", warn("direct-was-cached")), record.Withheld,
			"direct-was-cached"},
		{"memory on one side", on("vm", warn("direct-in-memory")), record.Withheld, "direct-in-memory"},
		{"memory on both sides", on("", warn("direct-in-memory")), record.Different, "direct-in-memory"},
		{"an unrelated warning", on("vm", warn("more-threads-than-processors")), record.Different,
			"more-threads-than-processors"},
	} {
		r := world{plan: testPlan("fs.seqwrite"), blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 1.3},
			change: c.change}.evaluate()
		got := cell(t, r, "fs.seqwrite", "", "vm")
		if got.Verdict != c.want || (c.code != "") != (len(got.Warnings) > 0) ||
			c.code != "" && warning(got, c.code) == nil {
			t.Errorf("%s: %s %v, want %s with %q", c.name, got.Verdict, got.Warnings, c.want, c.code)
		}
	}
}

func TestClockRestatesTimedFiguresAndWithholdsForeignOnes(t *testing.T) {
	for _, skew := range []float64{1.2, 0.8, 1.03} {
		r := world{plan: testPlan("command"), blocks: 12, noise: 0.003, rttNS: 100_000,
			clock: map[string]float64{"vm": skew}, cost: map[string]float64{"vm": 1.3}}.evaluate()
		c := cell(t, r, "command", "seconds", "vm")
		if c.Verdict != record.Different || c.Low > 1.3 || c.High < 1.3 || warning(c, "clock-wrong") == nil {
			t.Errorf("skew %g: %s [%g, %g], want the true 1.3 and a warning", skew, c.Verdict, c.Low, c.High)
		}
		if math.Abs(c.Center-0.013) > 0.0002 {
			t.Errorf("skew %g: centre %g s, want 0.013 on the controller's clock", skew, c.Center)
		}
		if f := cell(t, r, "command", "score", "vm"); f.Verdict != record.Withheld || f.Ratio.Center != 0 {
			t.Errorf("skew %g: the foreign figure is %s %g", skew, f.Verdict, f.Ratio.Center)
		}
		if f := cell(t, r, "command", "score", "box"); f.Verdict != record.Equivalent {
			t.Errorf("skew %g: box, whose clock is right, is %s", skew, f.Verdict)
		}
		if math.Abs(r.Targets[2].ClockOff-(skew-1)) > 1e-3 || len(r.Targets[2].Warnings) == 0 ||
			finding(r, "clock-wrong") == nil {
			t.Errorf("skew %g: target says %g, %v", skew, r.Targets[2].ClockOff, r.Targets[2].Warnings)
		}
	}
	// The baseline's clock is no better than another's.
	r := world{plan: testPlan("command"), blocks: 12, noise: 0.003, clock: map[string]float64{"host": 0.9}}.evaluate()
	if c := cell(t, r, "command", "seconds", "box"); c.Verdict != record.Equivalent ||
		warning(c, "clock-wrong") == nil {
		t.Errorf("baseline 10 %% slow: %s [%g, %g]", c.Verdict, c.Low, c.High)
	}
	if c := cell(t, r, "command", "score", "box"); c.Verdict != record.Withheld {
		t.Errorf("baseline 10 %% slow: the foreign figure is %s", c.Verdict)
	}
}

func TestClockAllowsForTheRoundTrip(t *testing.T) {
	// 3 ms of jitter on trials of 300 ms is 1 %, and all of it is the link's: the clock is not wrong. How right it is,
	// so few trials do not tell any better than the interval then says.
	r := world{plan: testPlan("cpu.prime"), blocks: 20, noise: 0.003, rttNS: 6_000_000}.evaluate()
	for _, target := range []string{"vm", "box"} {
		c := cell(t, r, "cpu.prime", "", target)
		if w := warning(c, "clock-disagrees"); warning(c, "clock-wrong") != nil || c.Verdict != record.Equivalent ||
			w == nil || !strings.Contains(w.Text, "vary so much") {
			t.Errorf("%s: %s %v", target, c.Verdict, c.Warnings)
		}
	}
	r = world{plan: testPlan("cpu.prime"), blocks: 20, noise: 0.003, clock: map[string]float64{"vm": 1.005}}.evaluate()
	c, b := cell(t, r, "cpu.prime", "", "vm"), cell(t, r, "cpu.prime", "", "box")
	if warning(c, "clock-disagrees") == nil || c.High/c.Low < 1.005*b.High/b.Low {
		t.Errorf("0.5 %% off: %v, interval [%g, %g] is not wider than [%g, %g]", c.Warnings, c.Low, c.High, b.Low,
			b.High)
	}
}

// The doubt about either side's clock widens the interval, and both together more.
func TestBothClocksWidenTheInterval(t *testing.T) {
	width := func(clocks map[string]float64) float64 {
		c := cell(t, world{plan: testPlan("cpu.prime"), blocks: 20, noise: 0.003, clock: clocks}.evaluate(),
			"cpu.prime", "", "vm")
		return math.Log(c.High / c.Low)
	}
	none := width(nil)
	vm, host, both := width(map[string]float64{"vm": 1.005}), width(map[string]float64{"host": 1.006}),
		width(map[string]float64{"vm": 1.005, "host": 1.006})
	for name, c := range map[string][2]float64{"the candidate's": {vm, 0.005}, "the baseline's": {host, 0.006},
		"both": {both, 0.011}} {
		if got := (c[0] - none) / 2; math.Abs(got-c[1]) > 0.0001 {
			t.Errorf("a doubt of %g about %s widens the interval by %g on each side", c[1], name, got)
		}
	}
}

// TestSimulatedClock is the clock row of the goals table: whatever the guest's clock does, no verdict is wrong.
func TestSimulatedClock(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of cells are simulated")
	}
	seed := uint64(20261121)
	if s := os.Getenv("TARE_SIM_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TARE_SIM_SEED: %v", err)
		}
		seed = v
	}
	p := testPlan()
	p.Targets = []plan.Target{{Name: "host"}, {Name: "vm"}}
	for i := range 25 {
		p.Workloads = append(p.Workloads, plan.Workload{Label: fmt.Sprint("w", i), Kind: "command"})
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, skew := range []float64{1, 1.01, 0.99, 1.2, 0.8, 1.008, 1.012} {
		for _, cost := range []float64{1, 0.985, 1.015, 1.05, 1.25} {
			wrong, decided, inside, cells := 0, 0, 0, 0
			for range 4 {
				r := world{
					plan: p, blocks: 15, noise: 0.01, rttNS: 200_000, seed: rng.Uint64(),
					clock: map[string]float64{"vm": skew}, cost: map[string]float64{"vm": cost},
				}.evaluate()
				for i := range r.Cells {
					c := &r.Cells[i]
					if c.Metric == "p99_seconds" { // its margin is another
						continue
					}
					cells++
					within := cost <= 1.02 && cost >= 1/1.02
					switch c.Verdict {
					case record.Different:
						decided++
						if within || (c.Ratio.Center > 1) != (cost > 1) {
							wrong++
						}
					case record.Equivalent:
						decided++
						if !within {
							wrong++
						}
					}
					if c.Level > 0 && c.Low <= cost && cost <= c.High {
						inside++
					}
				}
			}
			t.Logf("clock x%.3f, true cost %.3f: %d wrong of %d decided (%d cells); interval contains the truth in %d",
				skew, cost, wrong, decided, cells, inside)
			// With the true cost within half a percent of the margin the level of the test itself allows for an error;
			// anything a clock does would show in many cells at once.
			if allowed := cells / 200; wrong > allowed {
				t.Errorf("clock x%.3f, true cost %.3f: %d wrong verdicts of %d", skew, cost, wrong, cells)
			}
		}
	}
}

// TestSimulatedClockBehindASlowLink: a guest's clock is seen to be wrong although each message takes up to 15 ms longer
// or shorter than another, on trials of 300 ms; and one that is right is not called wrong.
func TestSimulatedClockBehindASlowLink(t *testing.T) {
	p := testPlan("cpu.prime", "command")
	p.Targets = []plan.Target{{Name: "host", Text: "local"}, {Name: "vm", Text: "qemu"}}
	rng := rand.New(rand.NewPCG(31, 31))
	for _, ms := range []int64{3, 9, 15} {
		for _, skew := range []float64{1, 1.012, 0.965, 1.035, 1.2} {
			const runs = 50
			different, equivalent, restated := 0, 0, 0
			for range runs {
				w := world{plan: p, blocks: 15, noise: 0.003, rttNS: ms * 1_000_000, seed: rng.Uint64(),
					clock: map[string]float64{"vm": skew}}
				c := cell(t, w.evaluate(), "cpu.prime", "", "vm")
				switch {
				case c.Verdict == record.Different:
					different++
				case c.Verdict == record.Equivalent:
					equivalent++
				}
				if warning(c, "clock-wrong") != nil {
					restated++
				}
			}
			t.Logf("messages spread over %2d ms, clock x%.3f: %d DIFFERENT, %d EQUIVALENT, %d restated of %d", ms, skew,
				different, equivalent, restated, runs)
			if different > 0 || equivalent == 0 || skew == 1 && restated > 0 ||
				math.Abs(skew-1) > 0.03 && restated < runs {
				t.Errorf("messages spread over %d ms, clock x%.3f: %d DIFFERENT, %d EQUIVALENT, %d restated of %d", ms,
					skew, different, equivalent, restated, runs)
			}
		}
	}
}

// TestSimulatedClockOfABusyHost: what shares the controller's kernel shares its clock, however late its messages are
// when others take the processor away.
func TestSimulatedClockOfABusyHost(t *testing.T) {
	p := testPlan("command")
	in := world{plan: p, blocks: 12, noise: 0.003}.input()
	rng := rand.New(rand.NewPCG(32, 32))
	for i := range in.Trials {
		in.Trials[i].ControllerNS += int64(2e6 * (rng.ExpFloat64() - rng.ExpFloat64())) // some 0.7 % of 300 ms
		in.Trials[i].ControllerNS += 6e6                                                // and always late at the end
	}
	verdict := func(spec, kernel string) (wrong bool, c *Cell) {
		for i, s := range []string{"local", spec, "qemu"} {
			in.Environments[i].Spec, in.Environments[i].Inside.Kernel = s,
				map[bool]string{true: kernel, false: "6.1.0"}[i == 1]
		}
		r := Evaluate(in)
		c = cell(t, r, "command", "score", "box")
		return warning(c, "clock-wrong") != nil || len(r.Targets[1].Warnings) > 0, c
	}
	for _, spec := range []string{"namespace", "namespace?net=host", "local?nice=5", "docker:debian"} {
		if wrong, c := verdict(spec, "6.1.0"); wrong || c.Verdict != record.Equivalent ||
			warning(c, "clock-disagrees") != nil {
			t.Errorf("%s: %s %v", spec, c.Verdict, c.Warnings)
		}
	}
	for _, spec := range []string{"qemu", "ssh:box"} {
		if wrong, _ := verdict(spec, "6.1.0"); !wrong {
			t.Errorf("%s has a clock of its own, which reads 2 %% slow, and is not told", spec)
		}
	}
	if wrong, _ := verdict("docker", "6.1.0-linuxkit"); !wrong {
		t.Error("a container in a machine of its engine has the clock of that machine")
	}

	// Where only containers are compared, the driver tells whether their agents are processes of this machine.
	for i := range 2 {
		in.Environments[i].Spec, in.Environments[i].Inside.Kernel = "docker:debian", "6.1.0"
	}
	if c := cell(t, Evaluate(in), "command", "score", "box"); warning(c, "clock-wrong") == nil {
		t.Errorf("containers of which nothing is known: %s %v", c.Verdict, c.Warnings)
	}
	for i := range 2 {
		in.Environments[i].Outside.Extra = map[string]string{record.SharedKernel: "yes"}
	}
	if c := cell(t, Evaluate(in), "command", "score", "box"); warning(c, "clock-wrong") != nil ||
		c.Verdict != record.Equivalent {
		t.Errorf("containers of this machine: %s %v", c.Verdict, c.Warnings)
	}
}

func TestEmulatedCPUIsLabelled(t *testing.T) {
	w := world{plan: testPlan("cpu.prime", "fs.seqwrite"), blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 9}}
	in := w.input()
	in.Environments[2].Inside.Emulated = true
	r := Evaluate(in)
	if c := cell(t, r, "cpu.prime", "", "vm"); !c.Emulated || c.Verdict != record.Different ||
		warning(c, "emulated") == nil {
		t.Errorf("%+v", c)
	}
	if cell(t, r, "fs.seqwrite", "", "vm").Emulated || cell(t, r, "cpu.prime", "", "box").Emulated ||
		!r.Targets[2].Emulated {
		t.Error("the label is on the wrong cells")
	}
	if f := finding(r, "emulated"); f == nil || f.Workloads[0] != "cpu.prime" || len(f.Workloads) != 1 ||
		!strings.Contains(f.Remedy, "accel=kvm") || strings.Contains(f.Remedy, "vboxdrv") {
		t.Errorf("%+v", r.Findings)
	}
	in.Environments[2].Outside.Hypervisor = "virtualbox IEM"
	if f := finding(Evaluate(in), "emulated"); f == nil || strings.Contains(f.Remedy, "accel=kvm") ||
		!strings.Contains(f.Remedy, "vboxdrv") {
		t.Errorf("of VirtualBox it is said: %+v", f)
	}
}

func TestFasterThanTheBaselineIsAsked(t *testing.T) {
	w := world{plan: testPlan("fs.seqwrite", "cpu.prime"), blocks: 10, noise: 0.003,
		cost: map[string]float64{"vm": 0.6, "box": 0.97}}
	r := w.evaluate()
	n := 0
	for _, f := range r.Findings {
		if f.Code == "faster-than-baseline" {
			n++
			if f.Targets[0] != "vm" || f.Workloads[0] != "fs.seqwrite" || !strings.Contains(f.Text, "flush") {
				t.Errorf("%+v", f)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d findings, want one: a CPU may be faster, and 3 %% is nothing", n)
	}
}

func TestHugePageState(t *testing.T) {
	state := func(host, vm string) *Result {
		return world{plan: testPlan("memory.latency"), blocks: 10, noise: 0.003, change: func(t *record.Trial) {
			t.State["huge_pages_64MiB"] = map[bool]string{true: vm, false: host}[t.Target == "vm"]
		}}.evaluate()
	}
	if r := state("100%", "0%"); finding(r, "huge-pages-differ") == nil {
		t.Errorf("100 and 0 %%: %+v", r.Findings)
	}
	if r := state("100%", "97%"); finding(r, "huge-pages-differ") != nil {
		t.Error("100 and 97 % are alike")
	}
	if r := state("unknown", "97%"); finding(r, "huge-pages-differ") == nil {
		t.Error("unknown and 97 % are not alike")
	}
}

func TestNullControlWidensTheMargin(t *testing.T) {
	quiet := world{plan: testPlan("cpu.prime"), blocks: 12, noise: 0.002}.evaluate()
	if c := cell(t, quiet, "cpu.prime", "", "vm"); c.Margin != 0.02 || c.NullSpread <= 0 || c.NullSpread > 0.01 {
		t.Errorf("quiet host: margin %g, spread %g", c.Margin, c.NullSpread)
	}
	noisy := world{plan: testPlan("cpu.prime"), blocks: 12, noise: 0.1}.evaluate()
	if c := cell(t, noisy, "cpu.prime", "", "vm"); c.Margin != 2*c.NullSpread || c.Margin < 0.04 ||
		warning(c, "noisy-host") == nil || finding(noisy, "noisy-host") == nil {
		t.Errorf("noisy host: margin %g, spread %g, %v", c.Margin, c.NullSpread, c.Warnings)
	}
	// An instrument that reads 8 % between the two slots of one environment must not call 7 % a difference.
	biased := world{plan: testPlan("cpu.prime"), blocks: 12, noise: 0.002, cost: map[string]float64{"vm": 1.07},
		change: func(t *record.Trial) {
			if t.Slot == record.NullSlot {
				t.Metrics["events_per_second"] /= 1.08
			}
		}}.evaluate()
	c := cell(t, biased, "cpu.prime", "", "vm")
	if c.Verdict == record.Different || warning(c, "null-control-differs") == nil ||
		finding(biased, "null-control-differs") == nil {
		t.Errorf("biased instrument: %s, margin %g, %v", c.Verdict, c.Margin, c.Warnings)
	}
	none := world{plan: testPlan("cpu.prime"), blocks: 12, noise: 0.002, change: func(t *record.Trial) {
		if t.Slot == record.NullSlot {
			t.Error = &record.Failure{Kind: "measure", Message: "x"}
		}
	}}.evaluate()
	if c := cell(t, none, "cpu.prime", "", "vm"); warning(c, "no-null-control") == nil {
		t.Errorf("without a null control: %v", c.Warnings)
	}
}

func TestDriftAndModesAreTold(t *testing.T) {
	each := func(f func(*record.Trial) float64) *Result {
		return world{plan: testPlan("cpu.prime"), blocks: 30, noise: 0.003, change: func(t *record.Trial) {
			t.Metrics["events_per_second"] /= f(t)
		}}.evaluate()
	}
	common := each(func(t *record.Trial) float64 { return 1 + 0.1*float64(t.Block)/30 })
	if c := cell(t, common, "cpu.prime", "", "vm"); warning(c, "drift") == nil || warning(c, "ratio-drifts") != nil ||
		c.Verdict != record.Equivalent {
		t.Errorf("a drift of the host: %s %v", c.Verdict, c.Warnings)
	}
	one := each(func(t *record.Trial) float64 {
		if t.Target == "vm" {
			return 1 + 0.1*float64(t.Block)/30
		}
		return 1
	})
	if c := cell(t, one, "cpu.prime", "", "vm"); warning(c, "ratio-drifts") == nil {
		t.Errorf("a drift of one side: %v", c.Warnings)
	}
	modes := each(func(t *record.Trial) float64 {
		if t.Target == "vm" && t.Block*7%3 == 0 {
			return 1.2
		}
		return 1
	})
	if w := warning(cell(t, modes, "cpu.prime", "", "vm"), "two-modes"); w == nil || !strings.Contains(w.Text, "vm") {
		t.Errorf("two modes: %v", cell(t, modes, "cpu.prime", "", "vm").Warnings)
	}
	calm := each(func(*record.Trial) float64 { return 1 })
	if c := cell(t, calm, "cpu.prime", "", "vm"); len(c.Warnings) != 0 || len(calm.Findings) != 0 {
		t.Errorf("a calm run has %v and %+v", c.Warnings, calm.Findings)
	}
}

func TestRetriedBootIsTold(t *testing.T) {
	in := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.003}.input()
	in.Environments[2].Retries = []record.Failure{{Kind: "open", Message: "no handshake within 20 s"}}
	r := Evaluate(in)
	if f := finding(r, "boot-retried"); f == nil || f.Severity != Info || f.Targets[0] != "vm" ||
		!strings.Contains(f.Text, "20 s") || len(r.Targets[2].Retries) != 1 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestFirstDifferenceOfOutputs holds that the outputs that the warm-ups have shown are told with the check.
func TestFirstDifferenceOfOutputs(t *testing.T) {
	said := map[string]string{"host": "a\nsame", "vm": "a\nsome", "box": "a\nsame"}
	r := world{plan: testPlan("command"), blocks: 10, noise: 0.003, change: func(t *record.Trial) {
		t.Checks["output"] = map[string]string{"host": "1", "vm": "2", "box": "3"}[t.Target]
		if t.Warmup() {
			t.Shown = []record.Shown{{Text: said[t.Target]}}
		}
	}}.evaluate()
	for target, want := range map[string]string{
		"vm": `output is 2 in vm and 1 in host; the first difference is in line 2: "…some (end)" in vm and "…same ` +
			`(end)" in host`,
		"box": "output is 3 in box and 1 in host; both begin alike",
	} {
		c := cell(t, r, "command", "seconds", target)
		w := warning(c, "unequal-work")
		if c.Verdict != record.Withheld || w == nil || !strings.Contains(w.Text, want) {
			t.Errorf("%s: %s %v, want %q", target, c.Verdict, c.Warnings, want)
		}
	}
}
