package cli

import (
	"bytes"
	"strings"
	"testing"

	"tare/internal/judge/failif"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// TestAWithheldFigureStopsNoPipeline asks for a figure of a cell whose file fitted a cache, and for the same of the
// host, whose did not.
func TestAWithheldFigureStopsNoPipeline(t *testing.T) {
	kind := workload.Kind{Name: "fs.randread", Metrics: []unit.Metric{{Name: "ops", Unit: "ops/s", Better: unit.Higher,
		Timed: true, Primary: true}}}
	a := &app{console: console{err: &bytes.Buffer{}}, catalog: catalog{kinds: []workload.Kind{kind}}}
	p := &plan.Plan{Baseline: "host", Alpha: 0.05, Targets: []plan.Target{{Name: "host"}, {Name: "vm"}},
		Looks:     []int{10},
		Workloads: []plan.Workload{{Label: "fs.randread", Kind: "fs.randread"}}}
	var trials []record.Trial
	for b := range 12 {
		for _, target := range []string{"host", "vm"} {
			x := record.Trial{Seq: len(trials) + 1, Session: 1, Block: b + 1, Workload: "fs.randread", Target: target,
				AgentNS: 3e8, ControllerNS: 3e8,
				Figures: record.Figures{Metrics: map[string]float64{"ops": 5000 + float64(b)}}}
			if target == "vm" {
				x.Warnings = []record.Warning{{Code: "file-fits-cache", Text: "the file fits a cache"}}
			}
			trials = append(trials, x)
		}
	}
	s := &rundiff.Side{Plan: p, Trials: trials, Kinds: a.kind,
		Result: verdict.Evaluate(verdict.Input{Plan: p, Kinds: a.kind, Trials: trials})}
	for expr, want := range map[string]struct {
		state failif.State
		text  string
	}{
		"value(vm, fs.randread) > 1 and value(vm, fs.randread) < 1e9": {failif.Unknown,
			"its verdict is withheld: vm: the file fits a cache"},
		"ratio(vm, fs.randread) > 0.1": {failif.Unknown,
			"its verdict is withheld: vm: the file fits a cache"},
		"value(host, fs.randread) > 1": {failif.Holds, "all of which"},
	} {
		f := &failIf{exprs: []string{expr}}
		if err := f.parse(); err != nil {
			t.Fatal(err)
		}
		out, err := f.judgeRun(s)
		if err != nil || out[0].State != want.state || !strings.Contains(out[0].Text, want.text) {
			t.Errorf("%s: %+v %v", expr, out, err)
		}
	}
}
