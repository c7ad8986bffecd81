package record

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// Bounds of a Flame: more than a page can draw, and a few hundred KiB of a bundle.
const (
	MostFlameFrames = 2000
	MostFlameDepth  = 100
	MostFlameName   = 200 // bytes of a function's name
	mostFlameLabel  = 1000
)

// Flame is where two targets were on processors, in trials that were sampled by perf: a differential flame graph.
// Sampling slows the work down, so nothing of it is a measurement.
type Flame struct {
	Workload string    `json:"workload"`
	Target   string    `json:"target"`
	Baseline string    `json:"baseline"`
	Unit     string    `json:"unit"`   // of work: "path"
	Made     time.Time `json:"made"`   // when the trials were sampled
	Rounds   int       `json:"rounds"` // sampled trials of each side
	// Inside and BaselineInside say that the work itself was sampled; else what serves it on the controller's machine
	// was.
	Inside         bool `json:"inside"`
	BaselineInside bool `json:"baseline_inside"`
	// Frames are the functions on their paths of calls, each before what it calls. The first one is all of them.
	Frames []FlameFrame `json:"frames"`
	// LeftOut is how many more there were. None of them took longer than LeftOutNS for a unit of work, ns, on either
	// side.
	LeftOut   int     `json:"left_out,omitempty"`
	LeftOutNS float64 `json:"left_out_ns,omitempty"`
}

// FlameFrame is a function on a path of calls, with the time on a processor of all that it calls.
type FlameFrame struct {
	Depth  int     `json:"depth"` // how many call it
	Name   string  `json:"name"`
	Kernel bool    `json:"kernel,omitempty"`
	NS     float64 `json:"ns"`      // in the target, for a unit of work
	BaseNS float64 `json:"base_ns"` // in the baseline
	// Shown says that the difference has the same sign in every round.
	Shown bool `json:"shown,omitempty"`
}

// Check says why a graph cannot be drawn; nil if it can. One of a bundle may have been edited.
func (f *Flame) Check() error {
	switch {
	case len(f.Frames) == 0 || len(f.Frames) > MostFlameFrames:
		return fmt.Errorf("a flame graph of %d functions; it has 1 to %d", len(f.Frames), MostFlameFrames)
	case f.Rounds < 1 || f.LeftOut < 0 || !isTime(f.LeftOutNS):
		return fmt.Errorf("a flame graph of %d trials, %d functions left out", f.Rounds, f.LeftOut)
	}
	for _, s := range []string{f.Workload, f.Target, f.Baseline, f.Unit} {
		if len(s) > mostFlameLabel || !graphic(s) {
			return fmt.Errorf("a flame graph has a name that cannot be shown: %.60q", s)
		}
	}
	// What is left of each function on the path, for those that it calls.
	var rest [2][MostFlameDepth + 1]float64
	for i, x := range f.Frames {
		deepest := 0
		if i > 0 {
			deepest = min(f.Frames[i-1].Depth+1, MostFlameDepth)
		}
		switch {
		case x.Depth < min(i, 1) || x.Depth > deepest:
			return fmt.Errorf("function %d of a flame graph has %d callers, and the one before %d", i+1, x.Depth,
				f.Frames[max(i, 1)-1].Depth)
		case len(x.Name) > MostFlameName:
			return fmt.Errorf("function %d of a flame graph has a name of %d bytes", i+1, len(x.Name))
		case !graphic(x.Name):
			return fmt.Errorf("function %d of a flame graph has a name that cannot be shown: %.60q", i+1, x.Name)
		}
		for side, ns := range [2]float64{x.NS, x.BaseNS} {
			if !isTime(ns) {
				return fmt.Errorf("function %d of a flame graph takes %v ns", i+1, ns)
			}
			if i > 0 {
				left := &rest[side][x.Depth-1]
				// Sums of figures that were rounded may be a little off.
				if *left -= ns; *left < -1e-6*max(1, f.Frames[0].NS, f.Frames[0].BaseNS) {
					return fmt.Errorf("function %d of a flame graph takes longer than its caller", i+1)
				}
			}
			rest[side][x.Depth] = ns
		}
	}
	return nil
}

// graphic tells whether a text can be shown as it is: controls, and what changes the direction of writing, cannot.
func graphic(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsGraphic(c) })
}

// isTime tells whether a figure is a time that can be drawn, ns.
func isTime(ns float64) bool { return ns >= 0 && ns < math.MaxInt64 }
