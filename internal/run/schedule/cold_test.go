package schedule

import (
	"context"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// TestColdWithoutAViewOfTheHostIsDoubted: a cold trial is doubted in an environment with another kernel, or another
// hypervisor, than the controller's, unless its driver drops the host's caches; so is one in a mount there.
func TestColdWithoutAViewOfTheHostIsDoubted(t *testing.T) {
	own := here()
	other := record.Facts{Kernel: own.Kernel + "-other"}
	deeper := own
	deeper.Extra = map[string]string{"hypervisor.vm": "another"}
	drop := func(context.Context) error { return nil }
	targets := map[string]*target{
		"host":   {Target: Target{Record: record.Environment{Target: record.Target{Inside: own}}}},
		"far":    {Target: Target{Record: record.Environment{Target: record.Target{Inside: other}}}},
		"nested": {Target: Target{Record: record.Environment{Target: record.Target{Inside: deeper}}}},
		"vm": {Target: Target{Record: record.Environment{Target: record.Target{Inside: other}},
			DropHostCache: drop}},
		"host:d": {Target: Target{Record: record.Environment{Target: record.Target{Of: "host"}}}},
		"far:d":  {Target: Target{Record: record.Environment{Target: record.Target{Of: "far"}}}},
	}
	kind := workload.Kind{Name: "k", HostCold: func(p workload.Params) bool { return p["cache"] == "cold" }}
	s := &coldStart{kinds: func(string) (*workload.Kind, bool) { return &kind, true }, table: &table{targets: targets}}
	for name, doubted := range map[string]bool{"host": false, "host:d": false, "vm": false, "far": true, "nested": true,
		"far:d": true} {
		for _, cache := range []string{"cold", "warm"} {
			w := s.doubtCold(&plan.Workload{Kind: "k", Params: workload.Params{"cache": cache}}, name)
			if want := doubted && cache == "cold"; (len(w) == 1 && w[0].Code == "host-not-cold") != want || len(w) > 1 {
				t.Errorf("%s, cache=%s: %v", name, cache, w)
			}
		}
	}
	kind.HostCold = nil
	if w := s.doubtCold(&plan.Workload{Kind: "k"}, "far"); w != nil {
		t.Errorf("a kind that is never cold: %v", w)
	}
}
