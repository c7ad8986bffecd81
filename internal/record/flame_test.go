package record

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func flame(frames ...FlameFrame) *Flame { return &Flame{Rounds: 1, Frames: frames} }

func TestFlameCheck(t *testing.T) {
	deep := flame()
	for i := range MostFlameDepth + 2 {
		deep.Frames = append(deep.Frames, FlameFrame{Depth: i, NS: 1})
	}
	good := flame(FlameFrame{NS: 10, BaseNS: 4}, FlameFrame{Depth: 1, NS: 6, BaseNS: 4}, FlameFrame{Depth: 2, NS: 6},
		FlameFrame{Depth: 1, NS: 4})
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for says, f := range map[string]*Flame{
		"0 functions":        flame(),
		"2001 functions":     flame(make([]FlameFrame, MostFlameFrames+1)...),
		"0 trials":           {Frames: []FlameFrame{{}}},
		"has 1 callers":      flame(FlameFrame{Depth: 1}),
		"has 2 callers":      flame(FlameFrame{NS: 1}, FlameFrame{Depth: 2, NS: 1}),
		"has 0 callers":      flame(FlameFrame{NS: 1}, FlameFrame{NS: 1}),
		"has -1 callers":     flame(FlameFrame{NS: 1}, FlameFrame{Depth: -1}),
		"has 101 callers":    deep,
		"name of 201 bytes":  flame(FlameFrame{Name: strings.Repeat("x", MostFlameName+1)}),
		`shown: "a\x1b"`:     flame(FlameFrame{Name: "a\x1b"}),
		`shown: "a\u202e"`:   flame(FlameFrame{Name: "a\u202e"}),
		`shown: "w\n"`:       {Rounds: 1, Frames: []FlameFrame{{}}, Workload: "w\n"},
		`shown: "xxx`:        {Rounds: 1, Frames: []FlameFrame{{}}, Target: strings.Repeat("x", 1001)},
		`shown: "b\r"`:       {Rounds: 1, Frames: []FlameFrame{{}}, Baseline: "b\r"},
		`shown: "u\a"`:       {Rounds: 1, Frames: []FlameFrame{{}}, Unit: "u\a"},
		"takes -1 ns":        flame(FlameFrame{NS: -1}),
		"takes NaN ns":       flame(FlameFrame{BaseNS: math.NaN()}),
		"takes +Inf ns":      flame(FlameFrame{BaseNS: math.Inf(1)}),
		"longer than its ca": flame(FlameFrame{NS: 2}, FlameFrame{Depth: 1, NS: 1}, FlameFrame{Depth: 1, NS: 1.5}),
	} {
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// FuzzFlame holds that whatever passes the check can be drawn: each function stands within its caller.
func FuzzFlame(f *testing.F) {
	f.Add(`{"rounds":1,"frames":[{"depth":0,"ns":3,"base_ns":2},{"depth":1,"ns":3}]}`)
	f.Add(`{"rounds":1,"frames":[{"depth":0},{"depth":-1},{"depth":1e3}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var x Flame
		if json.Unmarshal([]byte(text), &x) != nil || x.Check() != nil {
			return
		}
		var from, to, wide [MostFlameDepth + 2]float64
		slack := 1e-5 * max(1, x.Frames[0].NS, x.Frames[0].BaseNS)
		for i, fr := range x.Frames {
			at := 0.0
			if i > 0 {
				at = to[fr.Depth]
				if end := at + fr.NS; end > from[fr.Depth-1]+wide[fr.Depth-1]+slack {
					t.Fatalf("%+v ends at %v", fr, end)
				}
			}
			from[fr.Depth], wide[fr.Depth] = at, fr.NS
			to[fr.Depth], to[fr.Depth+1] = at+fr.NS, at
		}
	})
}
