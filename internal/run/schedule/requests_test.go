package schedule

import (
	"slices"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/setdiff"
)

// TestShowing: what returned something else in a block is asked for in both targets, until it was shown.
func TestShowing(t *testing.T) {
	p := &plan.Plan{Baseline: "host", Targets: []plan.Target{{Name: "host"}, {Name: "box"}, {Name: "vm"}},
		Workloads: []plan.Workload{{Label: "w"}, {Label: "site", Baseline: "box", Targets: []string{"box", "vm"}}}}
	s := newResultRequests(p)
	workload := "w"
	trial := func(target string, block int, other map[uint64]uint64, shown ...uint64) {
		var sketch setdiff.Sketch
		for n := range uint64(100) {
			sketch.Add(setdiff.Element{Number: n, Kind: 1, Rows: 200, Sum: 7 + other[n]})
		}
		x := &record.Trial{Workload: workload, Target: target, Block: block, Work: 1}
		x.Sketch = sketch.Bytes()
		for _, n := range shown {
			x.Shown = append(x.Shown, record.Shown{Number: n, Text: "text"})
		}
		s.observe(x)
	}
	check := func(target string, want ...uint64) {
		t.Helper()
		if got := s.pending(cellKey{workload, target}); !slices.Equal(got, want) {
			t.Errorf("%s is asked for %v, want %v", target, got, want)
		}
	}
	trial("host", 0, nil, 5) // nobody has asked for it
	trial("vm", 0, nil)
	check("host")
	trial("box", 0, map[uint64]uint64{3: 1, 9: 1, 40: 1, 41: 1, 42: 1})
	check("host", 3, 9, 40)
	check("box", 3, 9, 40)
	check("vm")
	trial("box", 1, map[uint64]uint64{3: 1}, 3, 9, 40)
	check("box")
	check("host", 3, 9, 40)
	trial("host", 1, nil, 3, 9, 40)
	trial("vm", 2, map[uint64]uint64{50: 1}) // the host has not been asked in this block
	check("vm")
	trial("host", 2, nil)
	check("vm", 50)
	check("host", 50)
	check("box")
	workload = "site" // which has a baseline of its own
	trial("box", 1, nil)
	trial("vm", 1, map[uint64]uint64{60: 1})
	check("vm", 60)
	check("box", 60)
}
