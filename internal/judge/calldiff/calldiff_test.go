package calldiff

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"tare/internal/sys/trace"
)

// of makes the trace of a trial: each call with its number and its time in ns, by name.
func of(calls ...trace.Call) *trace.Trace {
	t := &trace.Trace{Work: calls, Seen: true, Timed: true}
	for _, c := range calls {
		t.CPU.OnNS += c.NS - c.WaitNS - c.Ready
	}
	return t
}

func call(name string, count, ns int64) trace.Call {
	return trace.Call{Name: name, Count: count, NS: ns}
}

// walk is a folder walk in two targets: the second looks each file up once more.
func walk(rounds int) *Input {
	in := &Input{Workload: "walk", Kind: "dev.walk", Unit: "walk", Ratio: 2, Way: "bpf",
		Baseline: Side{Name: "host", Inside: true}, Target: Side{Name: "box", Inside: true}}
	for r := range int64(rounds) {
		host := of(call("getdents64", 200, 1e6), trace.Call{Name: "lstat", Count: 68_000, NS: 68e6 + r,
			Errors: 10, Errnos: map[string]int64{"ENOENT": 10}})
		host.CPU.OnNS += 10e6
		box := of(call("futex", 20, 5e6), call("getdents64", 200, 3e6+r),
			trace.Call{Name: "lstat", Count: 136_000, NS: 150e6 + r, Errors: 20,
				Errnos: map[string]int64{"ENOENT": 20}})
		box.Work[0].WaitNS = 5e6 - 1e3
		box.CPU.OnNS += 12e6 - 5e6 + 1e3
		for _, x := range []struct {
			s *Side
			t *trace.Trace
		}{{&in.Baseline, host}, {&in.Target, box}} {
			x.s.Trials = append(x.s.Trials, Trial{Round: int(r) + 1, Work: 2, ElapsedNS: 100e6, Trace: x.t},
				Trial{Round: int(r) + 1, Work: 2, ElapsedNS: 80e6})
		}
	}
	return in
}

func TestShareOfATrialsWork(t *testing.T) {
	const line = "each traced trial did 4.00 % of a trial's work"
	for share, said := range map[float64]bool{0: false, 1: false, 0.04: true} {
		in := walk(2)
		in.Share = share
		e := Explain(in)
		var out strings.Builder
		if err := Text(&out, e, Options{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), line) != said || e.Share == 0 {
			t.Errorf("with a share of %v, told as %v:\n%s", share, e.Share, out.String())
		}
	}
}

func TestPartsAddUp(t *testing.T) {
	e := Explain(walk(7))
	base, target, shares := 0.0, 0.0, 0.0
	for _, p := range e.Parts {
		base, target, shares = base+p.Base.NS, target+p.Target.NS, shares+p.Share
	}
	if math.Abs(base-e.BaseNS) > 1 || math.Abs(target-e.TargetNS) > 1 || math.Abs(shares-1) > 1e-9 {
		t.Errorf("%f of %f, %f of %f, shares of %f", base, e.BaseNS, target, e.TargetNS, shares)
	}
	if want := (1e6 + 68e6 + 2 + 10e6) / 2; math.Abs(e.BaseNS-want) > 1 {
		t.Errorf("the host's time for a walk is %f, want %f", e.BaseNS, want)
	}
	if e.Parts[0].Name != "lstat" || !e.Parts[0].Shown || e.Parts[0].More() != 34_000 {
		t.Errorf("%+v", e.Parts[0])
	}
	if e.Slowdown["host"] != 1.25 || e.Again != 1 || e.Rounds != 7 {
		t.Errorf("slowdown %v, again %v, rounds %d", e.Slowdown, e.Again, e.Rounds)
	}
	if len(e.Waits) != 1 || e.Waits[0].Name != "futex" || e.Waits[0].Base != 0 {
		t.Errorf("%+v", e.Waits)
	}
	const want = "34,000 more lstat for each walk, 95 % of the difference; +41.0 ms; 10.0 fail with ENOENT instead " +
		"of 5.00"
	if len(e.Found) == 0 || e.Found[0] != want {
		t.Errorf("found %q\nwant  %q", e.Found, want)
	}
	var out strings.Builder
	if err := Text(&out, e, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"* 34,000 more lstat", "for each walk", "34,000  68,000", "together",
		"7 rounds traced by BPF; in host that took 1.25 times"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, out.String())
		}
	}
}

// TestAFewMoreCallsExplainNothing holds that a call that takes longer is not called one that is made more often because
// of a few at the begin of each trial.
func TestAFewMoreCallsExplainNothing(t *testing.T) {
	in := walk(7)
	for i := range in.Target.Trials {
		if x := in.Target.Trials[i].Trace; x != nil {
			x.Work[2].Count, x.Work[2].Errnos = 70_000, nil
		}
	}
	const want = "lstat: +41.0 ms for each walk, 95 % of the difference; 35,000 calls instead of 34,000, of 2.14 µs " +
		"each instead of 1.00 µs"
	if e := Explain(in); !strings.HasPrefix(e.Found[0], want) {
		t.Errorf("found %q\nwant  %q", e.Found[0], want)
	}
}

func TestChanceIsNotShown(t *testing.T) {
	in := walk(7)
	in.Target.Trials[4].Trace.Work[1].NS = 0 // in one round the other way round
	for _, p := range Explain(in).Parts {
		if p.Name == "getdents64" && p.Shown {
			t.Errorf("%+v", p)
		}
	}
}

// TestChanceIsNotDivided holds that a wait for a processor that comes and goes takes no part in the shares.
func TestChanceIsNotDivided(t *testing.T) {
	in := walk(7)
	in.Target.Trials[0].Trace.CPU.ReadyNS = 900e6
	e := Explain(in)
	if p := e.Parts[0]; p.Name != Ready || p.Shown {
		t.Errorf("%+v", p)
	}
	if p := e.Parts[1]; p.Name != "lstat" || math.Abs(p.Share-41/43.0) > 0.02 {
		t.Errorf("%+v", p)
	}
}

func TestCountsOnly(t *testing.T) {
	in := walk(7)
	in.Way, in.Lost = "ptrace", "no times"
	for _, s := range []*Side{&in.Baseline, &in.Target} {
		for i := range s.Trials {
			if tr := s.Trials[i].Trace; tr != nil {
				tr.Timed, tr.CPU = false, trace.CPU{Faults: -1, Exits: -1}
				for j := range tr.Work {
					tr.Work[j].NS, tr.Work[j].WaitNS = 0, 0
				}
			}
		}
	}
	e := Explain(in)
	if e.Timed || len(e.Found) != 1 || !strings.HasPrefix(e.Found[0],
		"34,000 more lstat for each walk, 100 % of the difference in calls") {
		t.Errorf("timed %v, found %q", e.Timed, e.Found)
	}
	if len(e.Lost) != 1 || e.Lost[0] != "no times" {
		t.Errorf("%q", e.Lost)
	}
}

// fromOutside makes what was seen of the work what was seen of its servers on this machine.
func fromOutside(s *Side) {
	for i := range s.Trials {
		if t := &s.Trials[i]; t.Trace != nil {
			t.Outside, t.Trace = t.Trace, nil
			t.Outside.Serving, t.Outside.Work = t.Outside.Work, nil
		}
	}
}

// TestWithinItsOwnKernel compares work that was traced here with work that was traced in a virtual machine, beside the
// machine itself, and two machines with each other.
func TestWithinItsOwnKernel(t *testing.T) {
	in := walk(7)
	machine := func(s *Side, more int64) {
		s.Within, s.Serving = trace.WayBPF, []string{"qemu-system-x86"}
		for i := range s.Trials {
			if x := s.Trials[i].Trace; x != nil {
				x.Serving = []trace.Call{call("fsync", 2, 1e6)} // a server in it
				x := of()
				x.Serving = []trace.Call{call("openat", 20+more, 3e6+1e3*more), call("ppoll", 7, 1e6)}
				x.CPU.Exits = 40
				s.Trials[i].Outside = x
			}
		}
	}
	machine(&in.Target, 0)
	e := Explain(in)
	if !e.Timed || len(e.Parts) == 0 || e.Parts[0].Name != "lstat" || len(e.Lost) != 0 || e.Within["box"] != "bpf" {
		t.Errorf("%+v", e)
	}
	var out strings.Builder
	if err := Text(&out, e, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"34,000  68,000", "  traced in its own kernel, by its own clock: box by BPF\n",
		"What serves box on this machine, for each walk\n  10.0 openat, 1.50 ms\n  3.50 ppoll, 500 µs\n" +
			"  20.0 exits of virtual processors\nServices in box, for each walk\n  1.00 fsync, 500 µs\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, out.String())
		}
	}
	machine(&in.Target, 10)
	machine(&in.Baseline, 0)
	e = Explain(in)
	const served = "what serves box on this machine makes 5.00 more openat for each walk; +5.00 µs"
	if n := len(e.Found); n < 2 || e.Found[n-1] != served || !strings.HasPrefix(e.Found[0], "34,000 more lstat") {
		t.Errorf("%q", e.Found)
	}
	// Where BPF is not allowed there, what is told is what both ways tell.
	in.Target.Within, in.Target.Hidden = trace.WayPtrace, "bpf: not permitted"
	for i := range in.Target.Trials {
		if x := in.Target.Trials[i].Trace; x != nil {
			x.Timed = false
		}
	}
	e = Explain(in)
	const lost = "box: its kernel is traced by ptrace (bpf: not permitted), which tells no times, sleeps and page " +
		"faults"
	if e.Timed || len(e.Lost) != 1 || e.Lost[0] != lost || !strings.Contains(e.Found[0], "of the difference in calls") {
		t.Errorf("timed %v, lost %q, found %q", e.Timed, e.Lost, e.Found)
	}
}

// A kind of exit that one of the trials leaves out did not occur in it.
func TestExitsAreOfAllTrialsThatTell(t *testing.T) {
	in := walk(7)
	for i := range in.Target.Trials {
		in.Target.Trials[i].Exits = map[string]int64{"exits": 8}
	}
	in.Target.Trials[0].Exits["halt_exits"] = 10
	in.Target.Trials[9].Exits = nil // not known
	e := Explain(in)
	got := map[string]float64{}
	for _, s := range e.Serving {
		got[s.Name] = s.Count
	}
	if got["exits of virtual processors"] != 4 || math.Abs(got["halt exits of virtual processors"]-10.0/26) > 1e-9 {
		t.Errorf("%v", got)
	}
}

// TestUnseen holds what is said of sides that cannot be traced, and that nothing of them is taken for a zero.
func TestUnseen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Input)
		lost   string
	}{
		"a virtual machine": {func(in *Input) {
			in.Target.Inside, in.Target.Serving = false, []string{"qemu-system-x86"}
			in.Target.Hidden = "this agent cannot trace"
			fromOutside(&in.Target)
			for i := range in.Target.Trials {
				if tr := in.Target.Trials[i].Outside; tr != nil {
					tr.CPU.Exits = 4000
				}
			}
		}, "box: its own calls are not seen, because it has a kernel of its own (this agent cannot trace); instead, " +
			"what serves it here was traced: qemu-system-x86"},
		"two virtual machines": {func(in *Input) {
			for _, s := range []*Side{&in.Baseline, &in.Target} {
				s.Inside = false
				fromOutside(s)
			}
		}, ""},
		"elsewhere": {func(in *Input) {
			in.Target.Inside, in.Target.Lost = false, "it is far away"
			for i := range in.Target.Trials {
				in.Target.Trials[i].Trace = nil
			}
		}, "box: it is far away, so its calls are not seen"},
		"no marks": {func(in *Input) {
			for i := range in.Baseline.Trials {
				if tr := in.Baseline.Trials[i].Trace; tr != nil {
					tr.Seen = false
				}
			}
		}, "host: the timed part of its trials was not seen by the trace"},
		"some marks": {func(in *Input) { in.Baseline.Trials[0].Trace.Seen = false },
			"host: in 1 of 7 trials the timed part was not seen by the trace"},
		"some events": {func(in *Input) { in.Target.Trials[0].Trace.Missed, in.Target.Trials[2].Trace.Missed = 3, 4 },
			"box: the kernel left 7 events out of the trace"},
		"nothing": {func(in *Input) { in.Baseline.Trials, in.Target.Trials = nil, nil }, ""},
		"slow": {func(in *Input) {
			for i := range in.Target.Trials {
				if in.Target.Trials[i].Trace != nil {
					in.Target.Trials[i].ElapsedNS = 800e6
				}
			}
		},
			"box: tracing made the work 10.00 times as long"},
	} {
		in := walk(7)
		c.change(in)
		e := Explain(in)
		if c.lost != "" && (len(e.Lost) != 1 || !strings.HasPrefix(e.Lost[0], c.lost)) {
			t.Errorf("%s: lost is %q, want %q", name, e.Lost, c.lost)
		}
		if name != "some marks" && name != "some events" && name != "slow" && len(e.Parts) > 0 {
			t.Errorf("%s: %+v", name, e.Parts)
		}
		if name == "a virtual machine" && (len(e.Serving) != 4 || e.Serving[3].Count != 2000) {
			t.Errorf("%s: %+v", name, e.Serving)
		}
		const served = "what serves box on this machine makes 34,000 more lstat for each walk; +41.0 ms"
		if name == "two virtual machines" && (len(e.Found) != 2 || e.Found[1] != served) {
			t.Errorf("%s: %q", name, e.Found)
		}
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var out strings.Builder
		if err := Text(&out, e, Options{}); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestExitsByKind: the kinds are those of all trials, traced or not; all of them together are told once.
func TestExitsByKind(t *testing.T) {
	for _, traced := range []int64{0, 4000} {
		in := walk(3)
		for i := range in.Target.Trials {
			x := &in.Target.Trials[i]
			x.Exits = map[string]int64{"exits": 5 * x.Work, "io_exits": 3 * x.Work, "halt_exits": 0}
			if x.Trace != nil {
				x.Trace.CPU.Exits = traced
			}
		}
		got := map[string]float64{}
		for _, s := range Explain(in).Serving {
			if _, twice := got[s.Name]; twice || s.For != "box" {
				t.Errorf("%+v", s)
			}
			got[s.Name] = s.Count
		}
		all := 5.0
		if traced > 0 {
			all = 2000 // by the tracer, which sees the timed part alone
		}
		if len(got) != 2 || got["exits of virtual processors"] != all || got["io exits of virtual processors"] != 3 {
			t.Errorf("%v", got)
		}
	}
}
