package rundiff

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// foreignKinds adds to every kind a figure that a foreign tool prints.
func foreignKinds(name string) (*workload.Kind, bool) {
	k, ok := testKinds(name)
	if ok {
		k.Metrics = append(k.Metrics, unit.Metric{Name: "score", Unit: "points", Better: unit.Higher})
	}
	return k, ok
}

// TestAFigureThatWasWithheldIsDoubted asks for the doubt about the figures of cpu.prime on both sides.
func TestAFigureThatWasWithheldIsDoubted(t *testing.T) {
	on := func(target string, change func(*record.Trial)) func(*plan.Plan, []record.Environment, []record.Trial) {
		return func(_ *plan.Plan, _ []record.Environment, ts []record.Trial) {
			for i := range ts {
				if ts[i].Metrics["score"] = 100; ts[i].Target == target && ts[i].Workload == "cpu.prime" {
					change(&ts[i])
				}
			}
		}
	}
	warn := func(code string) func(*record.Trial) {
		return func(t *record.Trial) { t.Warnings = []record.Warning{{Code: code, Text: "so it was"}} }
	}
	fails := func(after int) func(*record.Trial) {
		return func(t *record.Trial) {
			if t.Block > after {
				t.Error = &record.Failure{Kind: "measure", Message: "no more"}
			}
		}
	}
	some := func(t *record.Trial) {
		if t.Block%5 == 1 {
			t.Error = &record.Failure{Kind: "measure", Message: "not now"}
		}
	}
	const clock = "a wrong clock"
	for _, c := range []struct {
		name   string
		change func(*plan.Plan, []record.Environment, []record.Trial)
		metric string
		want   map[string]string // by target; "" for no doubt
	}{
		{"nothing", on("", nil), "rate", map[string]string{"host": "", "box": ""}},
		{"the box's file fits a cache", on("box", warn("file-fits-cache")), "rate",
			map[string]string{"host": "", "box": "withheld: box: so it was"}},
		{"the host's file fits a cache", on("host", warn("file-fits-cache")), "rate",
			map[string]string{"host": "withheld: host: so it was", "box": "withheld: host: so it was"}},
		{"other work", on("box", func(t *record.Trial) { t.Checks = map[string]string{"n": "1"} }), "rate",
			map[string]string{"host": "", "box": "the work differs"}},
		{"the host's work changes", on("host",
			func(t *record.Trial) { t.Checks = map[string]string{"n": fmt.Sprint(t.Block)} }), "rate",
			map[string]string{"host": "the work differs", "box": "the work differs"}},
		{"the host was given up", on("host", fails(10)), "rate",
			map[string]string{"host": "all failed", "box": "all failed"}},
		{"the box was given up", on("box", fails(10)), "rate", map[string]string{"host": "", "box": "all failed"}},
		{"the host fails often", on("host", some), "rate",
			map[string]string{"host": "gave no figure", "box": "gave no figure"}},
		{"the box fails often", on("box", some), "rate", map[string]string{"host": "", "box": "gave no figure"}},
		{"the box's clock", on("box", func(t *record.Trial) { t.ControllerNS = t.AgentNS * 2 }), "rate",
			map[string]string{"host": "", "box": ""}},
		{"the box's clock, foreign", on("box", func(t *record.Trial) { t.ControllerNS = t.AgentNS * 2 }), "score",
			map[string]string{"host": "", "box": "cannot be restated"}},
		{"the host's clock", on("host", func(t *record.Trial) { t.ControllerNS = t.AgentNS * 2 }), "rate",
			map[string]string{"host": "", "box": ""}},
		{"the host's clock, foreign", on("host", func(t *record.Trial) { t.ControllerNS = t.AgentNS * 2 }), "score",
			map[string]string{"host": clock, "box": "cannot be restated"}},
	} {
		s := scene{seed: 1, blocks: 20, host: 1, box: 1.5, change: c.change}.side("a")
		s.Kinds = foreignKinds
		s.Result = verdict.Evaluate(verdict.Input{Plan: s.Plan, Kinds: foreignKinds, Trials: s.Trials})
		for _, v := range FiguresOf(&s) {
			if want := c.want[v.Target]; v.Metric == c.metric && v.Workload == "cpu.prime" &&
				((want == "") != (v.Doubt == "") || !strings.Contains(v.Doubt, want)) {
				t.Errorf("%s: the doubt about %s is %q, want %q", c.name, v.Target, v.Doubt, want)
			}
			if v.Workload == "fs.smallfiles" && v.Metric == "rate" && v.Doubt != "" {
				t.Errorf("%s: %s of another workload is doubted: %s", c.name, v.Target, v.Doubt)
			}
		}
	}
}

// TestAClockWrongInOneCellRestatesItsFigures holds the figures of a workload against the truth when only there the
// clock runs at half its speed.
func TestAClockWrongInOneCellRestatesItsFigures(t *testing.T) {
	s := scene{seed: 1, blocks: 20, host: 1, box: 1,
		change: func(_ *plan.Plan, envs []record.Environment, ts []record.Trial) {
			envs[1].Spec = "qemu" // what runs on this kernel has its clock
			n := 0
			for i := range ts {
				// Eleven of twenty here and of forty in all: the box's clock is right on the whole.
				if x := &ts[i]; x.Target == "box" && x.Workload == "cpu.prime" {
					if n++; n%2 == 1 || n == 2 {
						x.ControllerNS = 2 * x.AgentNS
					}
				}
			}
		}}.side("a")
	for _, v := range FiguresOf(&s) {
		if v.Target == "box" && v.Workload == "cpu.prime" && v.Metric == "rate" && (v.Center < 450 || v.Center > 550) {
			t.Errorf("%v events/s, want about 500 of them in a second of the controller's", v.Center)
		}
	}
}

// A figure is the same wherever it is shown: the report of one run has the median of its blocks, as has a comparison.
// The even number of blocks and the great noise tell a median of times from one of their logarithms.
func TestFiguresAreTheReports(t *testing.T) {
	s := scene{seed: 1, blocks: 10, host: 1, box: 1.5,
		change: func(_ *plan.Plan, _ []record.Environment, trials []record.Trial) {
			for i := range trials {
				x := &trials[i]
				by := math.Exp2(float64(x.Block % 2))
				x.Metrics["rate"] /= by
				x.Metrics["latency"] *= by
			}
		}}.side("a")
	shown := map[string]float64{}
	for _, c := range s.Result.Cells {
		shown[c.Workload+c.Target+c.Metric] = c.Center
	}
	n := 0
	for _, v := range FiguresOf(&s) {
		if want := shown[v.Workload+v.Target+v.Metric]; v.Target == "box" {
			if n++; math.Abs(v.Center/want-1) > 1e-9 {
				t.Errorf("%s of %s in %s is %v, and %v in the report", v.Metric, v.Workload, v.Target, v.Center, want)
			}
		}
	}
	if n != 4 {
		t.Errorf("%d figures of the box", n)
	}
}
