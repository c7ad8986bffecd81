package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
)

func TestEvaluate(t *testing.T) {
	w := world{plan: testPlan("cpu.prime", "command"), cost: map[string]float64{"vm": 1.5}, noise: 0.005, blocks: 10,
		seed: 1}
	r := w.evaluate()
	if r.Schema != Schema || r.Run.ID != "r1" || r.Run.Baseline != "host" || r.Run.Blocks != 10 ||
		r.Run.Sessions != 1 || r.Run.Scope != "on this boot" {
		t.Errorf("run: %+v", r.Run)
	}
	if len(r.Targets) != 3 || !r.Targets[0].Baseline || r.Targets[0].OpenS != 0.25 || r.Targets[2].Spec != "vm=qemu" {
		t.Errorf("targets: %+v", r.Targets)
	}
	if len(r.Cells) != 8 {
		t.Fatalf("%d cells, want 4 metrics in 2 candidates", len(r.Cells))
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		want, ratio := record.Equivalent, 1.0
		if c.Target == "vm" {
			want, ratio = record.Different, 1.5
		}
		if c.Verdict != want || !(c.Low <= ratio && ratio <= c.High) || c.Level != 0.95 || c.Blocks != 10 {
			t.Errorf("%s %s %s: %s %.4f [%.4f, %.4f] over %d blocks, want %s around %g", c.Workload, c.Metric, c.Target,
				c.Verdict, c.Ratio.Center, c.Low, c.High, c.Blocks, want, ratio)
		}
	}
	// Direction: twice the rate is half the cost, and the centres are in the metric's own unit.
	c := cell(t, r, "cpu.prime", "", "vm")
	if got := c.BaselineCenter / c.Center; math.Abs(got-1.5) > 0.02 || math.Abs(c.BaselineCenter-100) > 1 {
		t.Errorf("centres %g and %g events/s, want about 66.7 and 100", c.Center, c.BaselineCenter)
	}
	if m := cell(t, r, "command", "p99_seconds", "box").Margin; m != 0.05 {
		t.Errorf("margin of a tail latency is %g, want 0.05", m)
	}
	if !Settled(r, "cpu.prime") || !Settled(r, "command") {
		t.Error("decided workloads are not settled")
	}
	if len(r.Families) != 4 || r.Families[1].Target != "vm" || math.Abs(r.Families[1].Ratio-1.5) > 0.02 ||
		!(r.Families[1].Low < 1.5 && r.Families[1].High > 1.5) {
		t.Errorf("families: %+v", r.Families)
	}
	if !reflect.DeepEqual(r, w.evaluate()) {
		t.Error("the same input gives another result")
	}
}

func TestEvaluateEveryFigureFitsJSON(t *testing.T) {
	for name, w := range map[string]world{
		"nothing run":  {plan: testPlan("command"), blocks: -1},
		"warm-up only": {plan: testPlan("command"), blocks: 0},
		"two blocks":   {plan: testPlan("command"), blocks: 2, noise: 0.01},
		"extreme values": {plan: testPlan("command"), blocks: 12, cost: map[string]float64{"vm": 1e300, "box": 1e-300},
			noise: 3},
		"zero figures": {plan: testPlan("command"), blocks: 12, change: func(t *record.Trial) {
			t.Metrics["seconds"] = 0
		}},
	} {
		if _, err := json.Marshal(w.evaluate()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNotMeasuredIsNotFailed(t *testing.T) {
	r := world{plan: testPlan("cpu.prime"), blocks: 0}.evaluate()
	c := cell(t, r, "cpu.prime", "", "vm")
	if c.Verdict != record.Inconclusive || c.BlocksNeeded != 10 || warning(c, "not-measured") == nil ||
		Settled(r, "cpu.prime") {
		t.Errorf("%s, %d blocks needed, %v", c.Verdict, c.BlocksNeeded, c.Warnings)
	}
}

func TestFewBlocksHaveNoInterval(t *testing.T) {
	r := world{plan: testPlan("cpu.prime"), cost: map[string]float64{"vm": 2}, noise: 0.001, blocks: 4}.evaluate()
	c := cell(t, r, "cpu.prime", "", "vm")
	if c.Verdict != record.Inconclusive || c.Level != 0 || c.Low != 0 || c.High != 0 ||
		math.Abs(c.Ratio.Center-2) > 0.1 || warning(c, "few-blocks") == nil {
		t.Errorf("%+v", c)
	}
	if c.BlocksNeeded != 0 || !strings.Contains(warning(c, "few-blocks").Remedy, "at least 7") {
		t.Errorf("%d blocks needed where nobody knows: %v", c.BlocksNeeded, c.Warnings)
	}
}

func TestFailures(t *testing.T) {
	boom := &record.Failure{Kind: "measure", Message: "no space left on /data"}
	fail := func(target string, from, to int) func(*record.Trial) {
		return func(t *record.Trial) {
			if t.Target == target && t.Block >= from && t.Block <= to && t.Slot == "" {
				t.Metrics, t.Error = nil, boom
			}
		}
	}
	t.Run("always", func(t *testing.T) {
		r := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005, change: fail("vm", 0, 99)}.evaluate()
		c := cell(t, r, "cpu.prime", "", "vm")
		if c.Verdict != record.Failed || c.Failure == nil || c.Failure.Message != boom.Message || c.PHolm != 1 {
			t.Errorf("%s %+v", c.Verdict, c.Failure)
		}
		if cell(t, r, "cpu.prime", "", "box").Verdict != record.Equivalent {
			t.Error("the other target lost its verdict")
		}
		if r.Run.Failed != 11 || finding(r, "trials-failed") == nil || !Settled(r, "cpu.prime") {
			t.Errorf("%d failed trials", r.Run.Failed)
		}
	})
	t.Run("some blocks", func(t *testing.T) {
		r := world{plan: testPlan("cpu.prime"), blocks: 14, noise: 0.005, change: fail("vm", 3, 5)}.evaluate()
		c := cell(t, r, "cpu.prime", "", "vm")
		if w := warning(c, "blocks-incomplete"); c.Verdict != record.Withheld || c.Blocks != 11 || w == nil ||
			!strings.Contains(w.Text, "3 blocks") || warning(c, "too-many-failed") == nil {
			t.Errorf("%s over %d blocks: %v", c.Verdict, c.Blocks, c.Warnings)
		}
		r = world{plan: testPlan("cpu.prime"), blocks: 14, noise: 0.005, change: fail("vm", 3, 3)}.evaluate()
		if c := cell(t, r, "cpu.prime", "", "vm"); c.Verdict != record.Equivalent || c.Blocks != 13 ||
			warning(c, "blocks-incomplete") == nil {
			t.Errorf("one failed: %s over %d blocks: %v", c.Verdict, c.Blocks, c.Warnings)
		}
	})
	t.Run("baseline", func(t *testing.T) {
		r := world{plan: testPlan("cpu.prime"), blocks: 10, change: fail("host", 0, 99)}.evaluate()
		c := cell(t, r, "cpu.prime", "", "vm")
		if c.Verdict != record.Failed || c.Failure == nil || !strings.Contains(c.Failure.Message, "baseline host") {
			t.Errorf("%s %+v", c.Verdict, c.Failure)
		}
	})
	t.Run("target that did not open", func(t *testing.T) {
		w := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005}
		in := w.input()
		in.Trials = slices.DeleteFunc(in.Trials, func(t record.Trial) bool { return t.Target == "vm" })
		in.Environments[2].Error = &record.Failure{Kind: "open", Message: "no kernel"}
		r := Evaluate(in)
		c := cell(t, r, "cpu.prime", "", "vm")
		if c.Verdict != record.Failed || c.Failure.Message != "no kernel" || finding(r, "target-failed") == nil ||
			r.Targets[2].Error == nil {
			t.Errorf("%s %+v %+v", c.Verdict, c.Failure, r.Findings)
		}
	})
	t.Run("refused is an answer", func(t *testing.T) {
		no := &record.Failure{Kind: "refused", Message: "the file system refuses O_DIRECT"}
		r := world{plan: testPlan("cpu.prime"), blocks: 10, change: func(t *record.Trial) {
			if t.Target == "box" {
				t.Metrics, t.Error = nil, no
			}
		}}.evaluate()
		if c := cell(t, r, "cpu.prime", "", "box"); c.Verdict != record.Withheld || warning(c, "refused") == nil {
			t.Errorf("%s %v", c.Verdict, c.Warnings)
		}
		if f := finding(r, "refused"); f == nil || f.Severity != Withhold {
			t.Errorf("findings: %+v", r.Findings)
		}
	})
	t.Run("unknown kind", func(t *testing.T) {
		r := world{plan: testPlan("gone.workload"), blocks: 3}.evaluate()
		if c := &r.Cells[0]; c.Verdict != record.Failed || c.Failure.Kind != "unknown-workload" {
			t.Errorf("%+v", c)
		}
	})
	t.Run("figure never reported", func(t *testing.T) {
		r := world{plan: testPlan("command"), blocks: 10, noise: 0.005,
			change: func(t *record.Trial) { delete(t.Metrics, "score") }}.evaluate()
		if c := cell(t, r, "command", "score", "vm"); c.Verdict != record.Failed || c.Failure.Kind != "no-figure" {
			t.Errorf("%+v", c)
		}
	})
}

func TestDiscardedBlocksAreKeptAndCounted(t *testing.T) {
	w := world{plan: testPlan("cpu.prime"), blocks: 14, noise: 0.005, change: func(t *record.Trial) {
		if t.Block == 2 && t.Target == "vm" {
			t.Metrics["events_per_second"] /= 3
		}
	}}
	in := w.input()
	// As the scheduler writes it: one line for the block, after its trials.
	in.Trials = append(in.Trials, record.Trial{Session: 1, Block: 2, Workload: "cpu.prime",
		Discarded: "steal above 10 %"})
	r := Evaluate(in)
	c := cell(t, r, "cpu.prime", "", "vm")
	if w := warning(c, "blocks-discarded"); c.Blocks != 13 || w == nil ||
		!strings.Contains(w.Text, "steal above 10 %") || !strings.Contains(w.Text,
		"1 block discarded (steal above 10 %); with their trials the ratio") {
		t.Errorf("%d blocks, %v", c.Blocks, c.Warnings)
	}
	if f := finding(r, "blocks-discarded"); r.Run.Discarded != 1 || f == nil || f.Severity != Info {
		t.Errorf("%d discarded, %+v", r.Run.Discarded, r.Findings)
	}
}

func TestBlockCutShortIsNotCounted(t *testing.T) {
	w := world{plan: testPlan("cpu.prime"), blocks: 11, noise: 0.005}
	in := w.input()
	// Stopped in the midst of the eleventh block: its baseline has no trial, so nothing is paired there.
	in.Trials = slices.DeleteFunc(in.Trials, func(t record.Trial) bool {
		return t.Block == 11 && t.Target == "host" &&
			t.Slot == ""
	})
	r := Evaluate(in)
	if c := cell(t, r, "cpu.prime", "", "vm"); r.Run.Blocks != 10 || c.Blocks != 10 ||
		warning(c, "blocks-incomplete") != nil {
		t.Errorf("the run tells of %d blocks and its cell of %d, want 10; %v", r.Run.Blocks, c.Blocks, c.Warnings)
	}
	// Of a baseline whose candidates never opened, its own blocks are told.
	in.Trials = slices.DeleteFunc(in.Trials, func(t record.Trial) bool { return t.Target != "host" })
	if r := Evaluate(in); r.Run.Blocks != 11 {
		t.Errorf("%d blocks of the baseline alone, want 11", r.Run.Blocks)
	}
}

func TestBlockWithAFigureOfZeroIsLeftOut(t *testing.T) {
	w := world{plan: testPlan("cpu.prime"), blocks: 12, noise: 0.005, change: func(t *record.Trial) {
		if t.Block == 2 && t.Target == "vm" {
			t.Metrics["events_per_second"] = 0
		}
	}}
	c := cell(t, w.evaluate(), "cpu.prime", "", "vm")
	if w := warning(c, "blocks-incomplete"); c.Blocks != 11 || w == nil ||
		!strings.HasPrefix(w.Text, "left out: 1 block in which events_per_second is 0") {
		t.Errorf("%d blocks, %v: nothing failed here", c.Blocks, c.Warnings)
	}
}

func TestResumedBlockCountsOnce(t *testing.T) {
	w := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.005}
	in := w.input()
	again := in.Trials[len(in.Trials)-1-1] // a trial of the last block, taken anew after a crash
	in.Trials = append(in.Trials, again)
	if c := cell(t, Evaluate(in), "cpu.prime", "", again.Target); c.Blocks != 10 {
		t.Errorf("%d blocks, want 10", c.Blocks)
	}
}

func TestHolmOverThePlan(t *testing.T) {
	// Forty workloads planned, one measured so far: ten blocks cannot carry a claim among eighty cells, and do among
	// two.
	one := world{plan: testPlan("cpu.prime"), blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 1.2}}
	if c := cell(t, one.evaluate(), "cpu.prime", "", "vm"); c.Verdict != record.Different {
		t.Fatalf("alone: %s", c.Verdict)
	}
	many := one.input()
	p := *one.plan
	for i := range 39 {
		p.Workloads = append(p.Workloads, plan.Workload{Label: "w" + string(rune('A'+i)), Kind: "cpu.prime"})
	}
	many.Plan = &p
	r := Evaluate(many)
	c := cell(t, r, "cpu.prime", "", "vm")
	if c.Verdict != record.Inconclusive || warning(c, "not-confirmed") == nil || c.BlocksNeeded < 13 ||
		Settled(r, "cpu.prime") {
		t.Errorf("among 80: %s p_holm %g, %d needed, %v", c.Verdict, c.PHolm, c.BlocksNeeded, c.Warnings)
	}
	if c.PHolm <= c.P || c.Q <= c.P {
		t.Errorf("p %g, Holm %g, q %g", c.P, c.PHolm, c.Q)
	}
}

// At the last look no more blocks come to confirm anything, also where a trial failed and one pair is missing.
func TestTheLastLookIsOneOfBlocksBegun(t *testing.T) {
	p := testPlan("cpu.prime")
	for i := range 39 {
		p.Workloads = append(p.Workloads, plan.Workload{Label: fmt.Sprint("w", i), Kind: "cpu.prime"})
	}
	p.Looks = []int{5, 10}
	w := world{plan: p, blocks: 10, noise: 0.001, cost: map[string]float64{"vm": 1.2}, change: func(t *record.Trial) {
		switch {
		case t.Workload == "cpu.prime" && t.Target == "vm" && t.Block == 4:
			t.Metrics, t.Error = nil, &record.Failure{Kind: "measure", Message: "x"}
		case t.Workload != "cpu.prime" && t.Target == "vm":
			t.Metrics["events_per_second"] *= 1.2
		}
	}}
	c := cell(t, w.evaluate(), "cpu.prime", "", "vm")
	if c.Verdict != record.Measured || c.Blocks != 9 || warning(c, "not-confirmed") == nil {
		t.Errorf("%s over %d blocks: %v", c.Verdict, c.Blocks, c.Warnings)
	}
	w.blocks = 9
	if c := cell(t, w.evaluate(), "cpu.prime", "", "vm"); c.Verdict != record.Inconclusive {
		t.Errorf("before the last look: %s over %d blocks", c.Verdict, c.Blocks)
	}
}

func TestSecondaryMetricsAreJudgedByTheirRate(t *testing.T) {
	p := testPlan()
	p.Targets = p.Targets[:2]
	for i := range 60 {
		p.Workloads = append(p.Workloads, plan.Workload{Label: fmt.Sprint("w", i), Kind: "command"})
	}
	w := world{plan: p, blocks: 10, noise: 0.003, cost: map[string]float64{"box": 1.2}}
	r := w.evaluate()
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Primary == (c.Verdict == record.Different) || c.Primary != (warning(c, "not-confirmed") != nil) {
			t.Fatalf("%s %s, primary %t: %s, Holm %.2g, q %.2g: %v", c.Workload, c.Metric, c.Primary, c.Verdict,
				c.PHolm, c.Q, c.Warnings)
		}
	}
	// One alone among those that are the same is not sure enough, and the warning says by what.
	w.change = func(t *record.Trial) {
		if t.Target == "box" && t.Workload != "w7" {
			for name, v := range t.Metrics {
				t.Metrics[name] = map[bool]float64{true: v * 1.2, false: v / 1.2}[name == "score"]
			}
		}
	}
	c := cell(t, w.evaluate(), "w7", "score", "box")
	if n := warning(c, "not-confirmed"); n == nil || c.Verdict == record.Different ||
		!strings.Contains(n.Text, "among 120 cells") || !strings.Contains(n.Text, "q is") {
		t.Errorf("%s, q %.2g: %v", c.Verdict, c.Q, c.Warnings)
	}
}

func TestSettledIgnoresSecondaryMetrics(t *testing.T) {
	r := &Result{Cells: []Cell{
		{Workload: "a", Primary: true, Ratio: record.Ratio{Verdict: record.Withheld}},
		{Workload: "a", Ratio: record.Ratio{Verdict: record.Inconclusive}},
		{Workload: "b", Primary: true, Ratio: record.Ratio{Verdict: record.Inconclusive}},
	}}
	if !Settled(r, "a") || Settled(r, "b") || !Settled(r, "baseline only") {
		t.Errorf("a %t, b %t", Settled(r, "a"), Settled(r, "b"))
	}
}

// TestALookCostsAsItsCellsAndBlocks bounds how the price of a look grows, which the machine under test pays: with the
// number of cells, and with the square of the blocks, of which each cell takes all pairs. It compares looks with each
// other, because another machine takes another time.
func TestALookCostsAsItsCellsAndBlocks(t *testing.T) {
	look := func(workloads, blocks int) Input {
		p := testPlan()
		for i := range workloads {
			p.Workloads = append(p.Workloads, plan.Workload{Label: "w" + string(rune('A'+i)), Kind: "cpu.prime"})
		}
		return world{plan: p, blocks: blocks, noise: 0.01}.input()
	}
	type timed struct {
		name    string
		in      Input
		atMost  float64 // of the first one's time; twice what it should be
		fastest time.Duration
	}
	looks := []timed{
		{name: "16 cells of 30 blocks", in: look(8, 30)},
		{name: "60 cells of 30 blocks", in: look(30, 30), atMost: 2 * 60 / 16.},
		{name: "16 cells of 60 blocks", in: look(8, 60), atMost: 2 * 4},
	}
	for i := range looks {
		Evaluate(looks[i].in) // fills the tables that are made once
		looks[i].fastest = time.Hour
	}
	over := func() bool {
		return slices.ContainsFunc(looks[1:], func(l timed) bool {
			return float64(l.fastest) > l.atMost*float64(looks[0].fastest)
		})
	}
	// In turn, and the fastest of each, so that a busy moment hits all of them or none. A machine that is busy all the
	// time interrupts a long look more often than a short one, so it gets more tries.
	for end, n := time.Now().Add(time.Minute), 0; n < 20 || over() && time.Now().Before(end); n++ {
		for i := range looks {
			began := time.Now()
			Evaluate(looks[i].in)
			looks[i].fastest = min(looks[i].fastest, time.Since(began))
		}
	}
	for _, l := range looks {
		ratio := float64(l.fastest) / float64(looks[0].fastest)
		t.Logf("%s: %v, %.1f of the first", l.name, l.fastest, ratio)
		if l.atMost > 0 && ratio > l.atMost {
			t.Errorf("%s take %.1f of the time of %s, want at most %.1f", l.name, ratio, looks[0].name, l.atMost)
		}
	}
}

func FuzzEvaluate(f *testing.F) {
	w := world{plan: testPlan("command", "cpu.prime"), blocks: 3, noise: 0.01}
	some, err := json.Marshal(w.trials())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(some)
	f.Add([]byte(`[{"session":-1,"block":1,"workload":"command","target":"host","metrics":{"seconds":1e308}}]`))
	f.Add([]byte(`[{"block":1,"workload":"command","target":"vm","agent_ns":-5,"controller_ns":9223372036854775807,"rtt_spread_ns":-9223372036854775808}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var trials []record.Trial
		if len(b) > 64<<10 || json.Unmarshal(b, &trials) != nil {
			return
		}
		in := w.input()
		in.Trials = trials
		r := Evaluate(in)
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
		for i := range r.Cells {
			if c := &r.Cells[i]; c.Verdict == "" || c.P < 0 || c.P > 1 || c.Low > c.High {
				t.Fatalf("%+v", c)
			}
		}
	})
}
