package verdict

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tare/internal/record"
)

// lose makes vm fail from a block of a workload on, as an environment that died there: there is one failed trial, and
// none after it.
func lose(in Input, workload string, block int, kind string) Input {
	var kept []record.Trial
	gone := false
	for _, t := range in.Trials {
		if t.Target == "vm" {
			if gone {
				continue
			}
			if t.Workload == workload && t.Block == block {
				t.Metrics, t.Error, gone = nil, &record.Failure{Kind: kind, Message: "the machine is gone"}, true
			}
		}
		kept = append(kept, t)
	}
	in.Trials = kept
	return in
}

func TestALostTargetHasNoVerdict(t *testing.T) {
	w := world{plan: testPlan("cpu.prime", "fs.seqwrite", "command"), blocks: 10, noise: 0.003,
		cost: map[string]float64{"vm": 3}}
	for _, kind := range []string{kindDied, kindTimeout} {
		r := Evaluate(lose(w.input(), "fs.seqwrite", 6, kind))
		if c := cell(t, r, "cpu.prime", "", "vm"); c.Verdict != record.Different {
			t.Errorf("%s: the verdict from before the loss is %s: %v", kind, c.Verdict, c.Warnings)
		}
		c := cell(t, r, "fs.seqwrite", "", "vm")
		if w := warning(c, "target-lost"); c.Verdict != record.Withheld || w == nil ||
			!strings.Contains(w.Text, "vm was lost after 5 blocks: the machine is gone") {
			t.Errorf("%s: %s %v", kind, c.Verdict, c.Warnings)
		}
		if c := cell(t, r, "command", "", "vm"); c.Verdict != record.Failed || c.Failure == nil ||
			c.Failure.Message != "the machine is gone" {
			t.Errorf("%s: never measured: %s %v", kind, c.Verdict, c.Failure)
		}
		if f := finding(r, "target-lost"); f == nil || f.Severity != Withhold {
			t.Errorf("%s: findings %+v", kind, r.Findings)
		}
		if c := cell(t, r, "fs.seqwrite", "", "box"); c.Verdict != record.Equivalent {
			t.Errorf("%s: box lost its verdict: %s", kind, c.Verdict)
		}
	}
	// A deadline that the target outlives does not forbid a verdict.
	in := w.input()
	for i := range in.Trials {
		if t := &in.Trials[i]; t.Target == "vm" && t.Workload == "fs.seqwrite" && t.Block == 6 {
			t.Metrics, t.Error = nil, &record.Failure{Kind: kindTimeout, Message: "late"}
		}
	}
	if c := cell(t, Evaluate(in), "fs.seqwrite", "", "vm"); c.Verdict == record.Withheld || c.Blocks != 10 {
		t.Errorf("%s, %d blocks, %v", c.Verdict, c.Blocks, c.Warnings)
	}
}

func TestAGivenUpCellHasNoVerdict(t *testing.T) {
	failFrom := func(block int) *Cell {
		w := world{plan: testPlan("fs.seqwrite"), blocks: 22, noise: 0.003, cost: map[string]float64{"vm": 3},
			change: func(t *record.Trial) {
				if t.Target == "vm" && t.Block >= block {
					t.Metrics, t.Error = nil, &record.Failure{Kind: "measure", Message: "no space left"}
				}
			}}
		return cell(t, w.evaluate(), "fs.seqwrite", "", "vm")
	}
	for block, blocks := range map[int]string{5: "4 blocks", 20: "19 blocks"} {
		c := failFrom(block)
		if w := warning(c, "given-up"); c.Verdict != record.Withheld || w == nil ||
			!strings.Contains(w.Text, "no space left") || !strings.Contains(w.Text, blocks) {
			t.Errorf("from block %d: %s %v", block, c.Verdict, c.Warnings)
		}
	}
	if c := failFrom(21); c.Verdict == record.Withheld {
		t.Errorf("two failures at the end withhold the verdict: %v", c.Warnings)
	}
}

// stalls makes trials of a target run into their deadline with a probability.
func stalls(rng *rand.Rand, target string, share float64) func(*record.Trial) {
	return func(t *record.Trial) {
		if t.Target == target && t.Slot == "" && !t.Warmup() && rng.Float64() < share {
			t.Metrics, t.AgentNS, t.ControllerNS, t.Error = nil, 0, 0,
				&record.Failure{Kind: kindTimeout, Message: "the trial had not ended after 2m0s"}
		}
	}
}

// TestSimulatedDeadlines: trials that hit their deadline are no trials that did not take place. Without them the rest
// of a target that stalls would be called the same as the baseline.
func TestSimulatedDeadlines(t *testing.T) {
	p := testPlan("cpu.prime")
	p.Targets = p.Targets[:2]
	rng := rand.New(rand.NewPCG(11, 11))
	for _, side := range []string{"box", "host"} {
		for _, share := range []float64{0.03, 0.2, 0.35, 0.5} {
			const runs = 200
			n := map[record.Verdict]int{}
			for range runs {
				for _, blocks := range p.Looks {
					w := world{plan: p, blocks: blocks, noise: 0.005, seed: rng.Uint64(),
						change: stalls(rng, side, share)}
					c := cell(t, w.evaluate(), "cpu.prime", "", "box")
					if c.Verdict != record.Inconclusive || blocks == 30 {
						n[c.Verdict]++
						break
					}
				}
			}
			t.Logf("%s hits its deadline in %.0f %% of trials: %v", side, 100*share, n)
			switch {
			case n[record.Different] > 0 || n[record.Failed] > 0:
				t.Errorf("%s, %g: %v", side, share, n)
			case share == 0.03 && n[record.Equivalent] < runs*3/4:
				t.Errorf("%s: a deadline once in a while keeps a verdict from %d of %d runs", side,
					runs-n[record.Equivalent], runs)
			case share >= 0.2 && n[record.Equivalent] > runs/5 || share >= 0.35 && n[record.Equivalent] > runs/50:
				t.Errorf("%s, %g: %d of %d runs say EQUIVALENT", side, share, n[record.Equivalent], runs)
			}
		}
	}
}
