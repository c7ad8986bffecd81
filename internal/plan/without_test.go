package plan

import (
	"bytes"
	"testing"

	"tare/internal/lab/env"
	"tare/internal/measure/workload"
)

// TestWithout holds that what is left out is gone everywhere, that all else stays, and that the plan itself does.
func TestWithout(t *testing.T) {
	target := func(name, of, spec, against string) Target {
		return Target{Name: name, Of: of, Spec: env.Spec{Name: name, Driver: spec}, Text: spec, Against: against}
	}
	work := func(label string, targets ...string) Workload {
		return Workload{Label: label, Kind: "cpu.prime", Params: workload.Params{"max": "10"}, Targets: targets,
			Work: map[string]int64{"host": 7, "vm": 8, "box": 9}}
	}
	p := &Plan{Schema: 1, Baseline: "host", Seed: 7, Mode: Quick, Trial: minTrial, Sessions: 1, Looks: []int{10},
		Alpha: 0.05, LookAlpha: 0.03,
		Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Targets: []Target{target("host", "", "local", ""), target("vm", "", "qemu", ""),
			target("box", "", "namespace", "vm")},
		Workloads: []Workload{work("all"), work("pair", "host", "vm"), work("three", "host", "vm", "box"),
			work("unknown")}}
	before := Marshal(p)
	got := p.Without(map[string]bool{"vm": true}, map[string]bool{"unknown": true})
	if !bytes.Equal(Marshal(p), before) {
		t.Errorf("the plan itself changed:\n%s", Marshal(p))
	}
	want := *p
	want.Targets = []Target{p.Targets[0], target("box", "", "namespace", "")}
	want.Workloads = []Workload{work("all"), work("three", "host", "box")}
	for i := range want.Workloads {
		delete(want.Workloads[i].Work, "vm")
	}
	if !bytes.Equal(Marshal(got), Marshal(&want)) {
		t.Errorf("got\n%s\nwant\n%s", Marshal(got), Marshal(&want))
	}
	got.Workloads[0].Work["host"], got.Workloads[0].Params["max"], got.Looks[0] = 1, "1", 1
	if !bytes.Equal(Marshal(p), before) {
		t.Errorf("the copy shares what it holds with the plan:\n%s", Marshal(p))
	}
}
