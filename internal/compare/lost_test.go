package compare

import (
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
	w := world{plan: testPlan("cpu.prime", "fs.seqwrite", "command"), blocks: 10, noise: 0.003, cost: map[string]float64{"vm": 3}}
	for _, kind := range []string{kindDied, kindTimeout} {
		r := Evaluate(lose(w.input(), "fs.seqwrite", 6, kind))
		if c := cell(t, r, "cpu.prime", "", "vm"); c.Verdict != record.Different {
			t.Errorf("%s: the verdict from before the loss is %s: %v", kind, c.Verdict, c.Warnings)
		}
		c := cell(t, r, "fs.seqwrite", "", "vm")
		if w := warning(c, "target-lost"); c.Verdict != record.Withheld || w == nil || !strings.Contains(w.Text, "vm was lost after 5 blocks: the machine is gone") {
			t.Errorf("%s: %s %v", kind, c.Verdict, c.Warnings)
		}
		if c := cell(t, r, "command", "", "vm"); c.Verdict != record.Failed || c.Failure == nil || c.Failure.Message != "the machine is gone" {
			t.Errorf("%s: never measured: %s %v", kind, c.Verdict, c.Failure)
		}
		if f := finding(r, "target-lost"); f == nil || f.Severity != Withhold {
			t.Errorf("%s: findings %+v", kind, r.Findings)
		}
		if c := cell(t, r, "fs.seqwrite", "", "box"); c.Verdict != record.Equivalent {
			t.Errorf("%s: box lost its verdict: %s", kind, c.Verdict)
		}
	}
	// One failure that the target outlives costs a block and no verdict.
	in := w.input()
	for i := range in.Trials {
		if t := &in.Trials[i]; t.Target == "vm" && t.Workload == "fs.seqwrite" && t.Block == 6 {
			t.Metrics, t.Error = nil, &record.Failure{Kind: kindTimeout, Message: "late"}
		}
	}
	if c := cell(t, Evaluate(in), "fs.seqwrite", "", "vm"); c.Verdict == record.Withheld || c.Blocks != 9 {
		t.Errorf("%s, %d blocks, %v", c.Verdict, c.Blocks, c.Warnings)
	}
}

func TestAGivenUpCellHasNoVerdict(t *testing.T) {
	failFrom := func(block int) *Cell {
		w := world{plan: testPlan("fs.seqwrite"), blocks: 14, noise: 0.003, cost: map[string]float64{"vm": 3}, change: func(t *record.Trial) {
			if t.Target == "vm" && t.Block >= block {
				t.Metrics, t.Error = nil, &record.Failure{Kind: "measure", Message: "no space left"}
			}
		}}
		return cell(t, w.evaluate(), "fs.seqwrite", "", "vm")
	}
	for block, blocks := range map[int]string{5: "4 blocks", 12: "11 blocks"} {
		c := failFrom(block)
		if w := warning(c, "given-up"); c.Verdict != record.Withheld || w == nil || !strings.Contains(w.Text, "no space left") || !strings.Contains(w.Text, blocks) {
			t.Errorf("from block %d: %s %v", block, c.Verdict, c.Warnings)
		}
	}
	if c := failFrom(13); c.Verdict == record.Withheld {
		t.Errorf("two failures at the end withhold the verdict: %v", c.Warnings)
	}
}
