package calldiff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"tare/internal/sys/trace"
)

// TestSimulatedCauses holds that of answers about targets that do not differ at most one in twenty shows anything:
// a part, a wait, a count, a place or what serves it; and that a difference is found. The rounds are disturbed, each
// side by itself, as on a machine where other programs run.
func TestSimulatedCauses(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const runs, calls = 600, 12
	trial := func(rounds int, more float64) *Input {
		in := &Input{Workload: "w", Unit: "run", Ratio: 1, Way: trace.WayBPF,
			Baseline: Side{Name: "host", Inside: true}, Target: Side{Name: "box", Inside: true}}
		for round := 1; round <= rounds; round++ {
			for _, s := range []*Side{&in.Baseline, &in.Target} {
				busy := math.Exp(0.3 * rng.NormFloat64())
				of := func(ns float64) int64 { return int64(ns * busy * math.Exp(0.2*rng.NormFloat64())) }
				x := &trace.Trace{Seen: true, Timed: true}
				for c := range calls {
					ns := of(1e6 * float64(1+c%5))
					if s == &in.Target && c == 0 {
						ns += int64(more)
					}
					call := trace.Call{Name: fmt.Sprintf("call%02d", c), Count: 100 + int64(of(10)), NS: ns}
					if c%4 == 1 {
						call.WaitNS, call.Idle = ns/2, ns/3
						x.Stack = append(x.Stack, trace.Stack{Call: call.Name, Frames: []string{"f"}, NS: call.WaitNS})
					}
					x.Work, x.CPU.OnNS = append(x.Work, call), x.CPU.OnNS+ns-call.WaitNS
				}
				x.Work = append(x.Work, trace.Call{Name: "futex", Count: 5, NS: of(9e6), WaitNS: of(8e6)})
				x.CPU.OnNS += of(5e6)
				x.CPU.ReadyNS, x.CPU.Faults, x.CPU.Voluntary, x.CPU.Involuntary = of(1e7), of(3e3), of(2e3), of(2e3)
				out := &trace.Trace{Serving: []trace.Call{{Name: "openat", Count: of(100), NS: of(1e6)}}}
				s.Trials = append(s.Trials, Trial{Round: round, Work: 1, ElapsedNS: 1e8, Trace: x, Outside: out})
			}
		}
		return in
	}
	shows := func(e *Explanation) (any bool) {
		for _, is := range e.tests.is {
			any = any || is
		}
		return any
	}
	for _, rounds := range []int{LeastRounds, LeastRounds + 1, 12} {
		wrong, named, found := 0, 0, 0
		for range runs {
			e := Explain(trial(rounds, 0))
			if shows(e) {
				wrong++
			}
			if len(e.Found) > 0 && (strings.Contains(e.Found[0], " of the difference") ||
				strings.Contains(e.Found[0], "makes")) {
				named++
			}
			if e := Explain(trial(rounds, 30e6)); strings.HasPrefix(e.Found[0], "call00") {
				found++
			}
		}
		t.Logf("%d rounds: of %d answers without a difference %.1f %% show anything, %.1f %% name a cause; one call "+
			"that takes as long as all others is named in %.1f %%", rounds, runs, 100*float64(wrong)/runs,
			100*float64(named)/runs, 100*float64(found)/runs)
		if most := 0.05 + 3*math.Sqrt(0.05*0.95/runs); float64(wrong)/runs > most {
			t.Errorf("%d of %d answers show what is not there", wrong, runs)
		}
		if found < runs*8/10 {
			t.Errorf("a cause is named in %d of %d", found, runs)
		}
	}
}

// TestTooFewRounds: a difference that no number of rounds asked for could show is not called none.
func TestTooFewRounds(t *testing.T) {
	for rounds, said := range map[int]string{2: "2 rounds cannot show", 5: "5 rounds cannot show",
		6: "34,000 more lstat"} {
		if e := Explain(walk(rounds)); !strings.HasPrefix(e.Found[0], said) {
			t.Errorf("%d rounds: %q", rounds, e.Found)
		}
	}
}

// TestWaitingIsThePart: time in which all of the work slept is the part of the call that ended it, and says for what;
// the threads of a pool that slept beside one that worked are none; tare's own threads are called that.
func TestWaitingIsThePart(t *testing.T) {
	in := walk(7)
	for i := range in.Target.Trials {
		x := in.Target.Trials[i].Trace
		if x == nil {
			continue
		}
		x.Work = append(x.Work, trace.Call{Name: "poll", Count: 4, NS: 900e6, WaitNS: 900e6, Idle: 880e6},
			trace.Call{Name: "read", Count: 2, NS: 300e6, WaitNS: 300e6, Idle: 290e6})
		x.Work[0].NS, x.Work[0].WaitNS = x.Work[0].NS+5e9, x.Work[0].WaitNS+5e9 // futex, of a pool
		x.Client = []trace.Call{{Name: "futex", Count: 9, NS: 900e6, WaitNS: 870e6}}
		x.CPU.OnNS += 30e6
		x.Stack = []trace.Stack{{Call: "read", Frames: []string{"anon_pipe_read", "vfs_read"}, NS: 300e6}}
	}
	e := Explain(in)
	const poll = "waiting in poll, for a descriptor that is not ready, as a connection without an answer: +440 ms " +
		"for each walk, 68 % of the difference; 2.00 calls instead of 0"
	const read = "waiting in read, for a pipe: +145 ms for each walk, 23 % of the difference; 1.00 calls instead of 0"
	if len(e.Found) < 3 || e.Found[0] != poll || e.Found[1] != read ||
		!strings.HasPrefix(e.Found[2], "34,000 more lstat") {
		t.Errorf("%q", e.Found)
	}
	for _, p := range e.Parts {
		if p.Name == "futex" && p.Share > 0.01 || p.Name == Client && math.Abs(p.Extra-15e6) > 1e3 {
			t.Errorf("%+v", p)
		}
	}
}
