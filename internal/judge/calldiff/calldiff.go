// Package calldiff says which system calls, page faults and sleeps make the difference between two targets, from traces
// of the same work in both. It is pure: the same trials always give the same answer.
//
// All figures are for each unit of work: sums over the trials divided by the sums of their work, so that parts add up.
// The time that is divided is that of all threads that do the work while they are on a processor or ready to run, and
// the time in which all of them sleep. The latter is that of the call whose end ended it: what the work waited for.
// While one thread sleeps and another one works, as in any program with a pool of threads, the sleep is no part.
//
// Which differences are shown is decided for all figures of an answer together (stats.Flips): in at most one of twenty
// answers about targets that do not differ is anything shown.
package calldiff

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/sys/trace"
)

// Trial is a repeated trial.
type Trial struct {
	Round     int
	Work      int64 // units
	ElapsedNS int64
	// Trace has the calls of the processes that do the work, and of others that their tracer saw. Outside has those of
	// their servers on this machine, where their kernel is another one. Both are nil if the trial was not traced.
	Trace, Outside *trace.Trace
	// Exits are those of the virtual processors that it ran on, by kind, from before its preparation to its end.
	Exits map[string]int64
}

func (t *Trial) traced() bool { return t.Trace != nil || t.Outside != nil }

// Side are a target's trials.
type Side struct {
	Name   string
	Trials []Trial
	// Inside says that the processes that do the work were traced; else only what serves them on this machine was.
	Inside bool
	// Within is the way by which they were traced in a kernel of their own; "" if they are on this machine, or were not
	// traced. Hidden says why they were not, or not by the way of Input; "" if nothing stood against it.
	Within, Hidden string
	// Serving are the names of what serves it on this machine.
	Serving []string
	// Lost is the reason why nothing was traced; "" if something was.
	Lost string
}

// Input has the trials of both sides of a ratio that is to be explained.
type Input struct {
	Workload, Kind, Unit string // the label; the kind; the name of a unit of work
	Ratio                float64
	Way, Lost            string // how it was traced, and what is lost by that
	// Share is the share of a trial's work that the traced trials did, in (0, 1]; 0 is all.
	Share            float64
	Baseline, Target Side
}

// Schema is the version of the JSON form.
const Schema = 1

// Explanation divides a difference between two targets into the calls, waits and counts that make it. Its JSON form is
// for scripts.
type Explanation struct {
	Schema   int     `json:"schema"`
	Workload string  `json:"workload"`
	Unit     string  `json:"unit"`
	Baseline string  `json:"baseline"`
	Target   string  `json:"target"`
	Ratio    float64 `json:"ratio"` // of the bundle's measured trials
	Again    float64 `json:"again"` // of the trials of this session that were not traced; 0 unknown
	Way      string  `json:"way"`   // "bpf" or "ptrace"
	// Within has, by target, the way by which the work was traced in a kernel of its own.
	Within map[string]string `json:"within,omitempty"`
	Rounds int               `json:"rounds"` // traced trials on each side
	// Slowdown is the ratio of the times of traced trials to those of others, by target.
	Slowdown map[string]float64 `json:"slowdown"`
	// Share is the share of a trial's work that the traced trials did, in (0, 1].
	Share float64 `json:"traced_share"`
	// Busy is the time of the threads for a unit of work, in ns: the parts add up to it. 0 where times are not told.
	BaseNS   float64 `json:"base_ns"`
	TargetNS float64 `json:"target_ns"`
	Timed    bool    `json:"timed"`
	// Divided says that there is a difference large enough to be divided into shares.
	Divided bool   `json:"divided"`
	Parts   []Part `json:"parts"`
	Waits   []Wait `json:"waits,omitempty"`
	// Counts are context switches and page faults.
	Counts []Count `json:"counts,omitempty"`
	// Serving are the calls, in the target's and the baseline's name, of what serves it.
	Serving []Served `json:"serving,omitempty"`
	Stacks  []Place  `json:"stacks,omitempty"`
	// Found are the findings in words, the most important first.
	Found []string `json:"found"`
	// Lost lists the data that could not be traced, with the reasons.
	Lost  []string `json:"lost,omitempty"`
	calls float64  // of all kinds, for a unit of work
	tests tests
}

// The parts that are no system calls.
const (
	NoCall = "user code and page faults"
	Ready  = "waiting for a processor"
	Client = "tare's own threads, waking each other"
)

// Part is a system call, or what is outside of all, for each unit of work.
type Part struct {
	Name   string  `json:"name"`
	Base   Figures `json:"base"`
	Target Figures `json:"target"`
	// Extra is the target's time less the baseline's, in ns, and Share what part of the whole difference that is; where
	// times are not told, Share is that of the difference in calls.
	Extra float64 `json:"extra_ns"`
	Share float64 `json:"share"`
	Shown bool    `json:"shown"` // the difference is not chance (tests)
	calls bool
	test  int
	// waits names the thing that the calls wait for, where that is most of the difference.
	waits string
}

// More is the number of calls for a unit of work that the target makes beyond the baseline's.
func (p *Part) More() float64 { return p.Target.Count - p.Base.Count }

// Figures are those of one side, for each unit of work.
type Figures struct {
	Count float64 `json:"count"`
	NS    float64 `json:"ns"`
	// AsleepNS is the part of NS in which all of the work slept, and EachNS how long one call took, with all sleep.
	AsleepNS float64 `json:"asleep_ns"`
	EachNS   float64 `json:"each_ns"`
	Bytes    float64 `json:"bytes"`
	Errors   float64 `json:"errors"`
	// Errnos are the failures by their error.
	Errnos map[string]float64 `json:"errnos,omitempty"`
}

// Wait is the time asleep in a call that is for waiting, in ns for each unit of work.
type Wait struct {
	Name   string  `json:"name"`
	Base   float64 `json:"base_ns"`
	Target float64 `json:"target_ns"`
	Shown  bool    `json:"shown"`
	test   int
}

// Count is a number of events for each unit of work.
type Count struct {
	Name   string  `json:"name"`
	Base   float64 `json:"base"`
	Target float64 `json:"target"`
	Shown  bool    `json:"shown"`
	test   int
}

// Served is a call of what serves a target, for each unit of work.
type Served struct {
	For string `json:"for"` // the target
	// Within says that it works in the target, which has a kernel of its own; else it works on this machine.
	Within bool    `json:"within,omitempty"`
	Name   string  `json:"name"`
	Count  float64 `json:"count"`
	NS     float64 `json:"ns"`
	Bytes  float64 `json:"bytes"`
}

// Place is a place in the kernel in which the work slept, with the time in ns for each unit of work.
type Place struct {
	Call   string   `json:"call"`
	Frames []string `json:"frames"`
	Base   float64  `json:"base_ns"`
	Target float64  `json:"target_ns"`
	Shown  bool     `json:"shown"`
	test   int
}

// side is a Side summed up.
type side struct {
	*Side
	sum     *trace.Trace      // of the work; nil: it was not seen
	work    float64           // of the trials in sum
	rounds  map[int]*oneRound // of these
	either  map[int]*oneRound // and of those in outside
	outside *trace.Trace      // of what serves it on this machine, if that was traced apart from the work
	served  float64           // the work of the trials in outside
}

type oneRound struct {
	*trace.Trace // of the work, or nil
	outside      *trace.Trace
	work         float64
}

// Explain makes the explanation.
func Explain(in *Input) *Explanation {
	e := &Explanation{Schema: Schema, Workload: in.Workload, Unit: in.Unit, Baseline: in.Baseline.Name,
		Target: in.Target.Name, Ratio: in.Ratio, Way: in.Way, Slowdown: map[string]float64{}, Parts: []Part{},
		Found: []string{}, Share: cmp.Or(in.Share, 1)}
	base, target := sumUp(&in.Baseline), sumUp(&in.Target)
	e.Rounds = min(base.seen(), target.seen())
	if e.Rounds == 0 {
		e.Rounds = max(base.seen(), target.seen())
	}
	b, t := pace(&in.Baseline, false), pace(&in.Target, false)
	if b > 0 && t > 0 {
		e.Again = t / b
	}
	for _, s := range []*Side{&in.Baseline, &in.Target} {
		if plain, traced := pace(s, false), pace(s, true); plain > 0 && traced > 0 {
			e.Slowdown[s.Name] = traced / plain
		}
		if s.Within != "" {
			if e.Within == nil {
				e.Within = map[string]string{}
			}
			e.Within[s.Name] = s.Within
		}
	}
	e.lost(in, base, target)
	if inside(base) && inside(target) {
		e.Timed = base.sum.Timed && target.sum.Timed
		e.parts(base, target)
		e.waits(base, target)
		e.counts(base, target)
		e.places(base, target)
	}
	more := e.servedMore(base, target)
	e.decide(base, target)
	if len(e.Parts) > 0 {
		e.divide()
	}
	e.serving(base)
	e.serving(target)
	e.find()
	e.findServed(more)
	return e
}

// seen is the number of trials in which something was seen.
func (s *side) seen() int {
	if n := len(s.rounds); n > 0 {
		return n
	}
	return traced(s.Side)
}

func inside(s *side) bool { return s.Inside && s.sum != nil && s.work > 0 }

func sumUp(s *Side) *side {
	out := &side{Side: s, rounds: map[int]*oneRound{}, either: map[int]*oneRound{}}
	var work, outside []*trace.Trace
	for i := range s.Trials {
		t := &s.Trials[i]
		if t.Work <= 0 {
			continue
		}
		if t.Trace != nil && t.Trace.Seen {
			work = append(work, t.Trace)
			out.work += float64(t.Work)
			out.rounds[t.Round] = &oneRound{Trace: t.Trace, outside: t.Outside, work: float64(t.Work)}
			out.either[t.Round] = out.rounds[t.Round]
		}
		if t.Outside != nil {
			outside = append(outside, t.Outside)
			out.served += float64(t.Work)
			if out.either[t.Round] == nil {
				out.either[t.Round] = &oneRound{outside: t.Outside, work: float64(t.Work)}
			}
		}
	}
	if len(work) > 0 {
		out.sum = trace.Sum(work)
	}
	if len(outside) > 0 {
		out.outside = trace.Sum(outside)
	}
	return out
}

// pace is the median time of a unit of work, in ns; 0 without trials.
func pace(s *Side, traced bool) float64 {
	var all []float64
	for i := range s.Trials {
		if t := &s.Trials[i]; t.traced() == traced && t.Work > 0 && t.ElapsedNS > 0 {
			all = append(all, float64(t.ElapsedNS)/float64(t.Work))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// timeOf is the time of a call: on a processor, and while all of the work slept until it returned.
func timeOf(c *trace.Call) float64 { return math.Max(0, float64(c.NS-c.Ready-c.WaitNS+c.Idle)) }

// servedTime is the time of a call of what serves the work: on a processor, and asleep unless it is for waiting.
func servedTime(c *trace.Call) float64 {
	ns := c.NS - c.Ready
	if trace.Waits(c.Name) {
		ns -= c.WaitNS
	}
	return math.Max(0, float64(ns))
}

// client is the time of the calls by which tare's own threads wake each other.
func client(t *trace.Trace) (ns float64) {
	for i := range t.Client {
		ns += timeOf(&t.Client[i])
	}
	return ns
}

// outside is the time outside of calls: on a processor, and asleep in page faults.
func outside(t *trace.Trace) float64 {
	on := float64(t.CPU.OnNS)
	for _, calls := range [][]trace.Call{t.Work, t.Client} {
		for i := range calls {
			on -= float64(calls[i].NS - calls[i].WaitNS - calls[i].Ready)
		}
	}
	return math.Max(0, on) + float64(t.CPU.FaultNS)
}

// ready is the time in which others had the processor.
func ready(t *trace.Trace) float64 {
	ns := t.CPU.ReadyNS
	for i := range t.Work {
		ns += t.Work[i].Ready
	}
	return float64(ns)
}

func find(t *trace.Trace, name string) *trace.Call {
	if i, ok := slices.BinarySearchFunc(t.Work, name, func(c trace.Call, n string) int {
		return cmp.Compare(c.Name, n)
	}); ok {
		return &t.Work[i]
	}
	return &trace.Call{Name: name}
}

func figures(c *trace.Call, work float64) Figures {
	f := Figures{Count: float64(c.Count) / work, NS: timeOf(c) / work, AsleepNS: float64(c.Idle) / work,
		Bytes: float64(c.Bytes) / work, Errors: float64(c.Errors) / work}
	if c.Count > 0 {
		f.EachNS = float64(c.NS-c.Ready) / float64(c.Count)
	}
	for name, n := range c.Errnos {
		if f.Errnos == nil {
			f.Errnos = map[string]float64{}
		}
		f.Errnos[name] = float64(n) / work
	}
	return f
}

// callNames are the calls of either side.
func callNames(base, target *side) []string {
	names := map[string]bool{}
	for _, s := range []*side{base, target} {
		for i := range s.sum.Work {
			names[s.sum.Work[i].Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (e *Explanation) parts(base, target *side) {
	for _, name := range callNames(base, target) {
		p := Part{Name: name, Base: figures(find(base.sum, name), base.work),
			Target: figures(find(target.sum, name), target.work), calls: true}
		p.Extra = p.Target.NS - p.Base.NS
		of := func(t *trace.Trace) float64 { return float64(find(t, name).Count) }
		if e.Timed {
			of = func(t *trace.Trace) float64 { return timeOf(find(t, name)) }
		}
		p.test = e.tests.add(of)
		if slept := p.Target.AsleepNS - p.Base.AsleepNS; slept*p.Extra > 0 && math.Abs(slept) >= math.Abs(p.Extra)/2 {
			p.waits = waitsFor(name, target.sum, base.sum)
		}
		e.calls += max(p.Base.Count, p.Target.Count)
		e.Parts = append(e.Parts, p)
	}
	for _, o := range []struct {
		name string
		of   func(*trace.Trace) float64
	}{{NoCall, outside}, {Client, client}, {Ready, ready}} {
		if !e.Timed {
			break
		}
		p := Part{Name: o.name, Base: Figures{NS: o.of(base.sum) / base.work},
			Target: Figures{NS: o.of(target.sum) / target.work}, test: e.tests.add(o.of)}
		p.Extra = p.Target.NS - p.Base.NS
		e.Parts = append(e.Parts, p)
	}
	for i := range e.Parts {
		p := &e.Parts[i]
		e.BaseNS, e.TargetNS = e.BaseNS+p.Base.NS, e.TargetNS+p.Target.NS
	}
	e.tests.whole = len(e.Parts)
}

// divide divides the difference among the parts.
func (e *Explanation) divide() {
	whole := e.TargetNS - e.BaseNS
	if e.Timed {
		if p := &e.Parts[len(e.Parts)-1]; !p.Shown { // others had the processor, by chance
			whole -= p.Extra
		}
	}
	e.Divided = math.Abs(whole) >= littleTime*max(e.TargetNS, e.BaseNS)
	if !e.Timed {
		whole = 0
		for i := range e.Parts {
			whole += e.Parts[i].More()
		}
		e.Divided = math.Abs(whole) >= alike*e.calls
	}
	for i := range e.Parts {
		switch p := &e.Parts[i]; {
		case !e.Divided || whole == 0:
		case e.Timed:
			p.Share = p.Extra / whole
		default:
			p.Share = p.More() / whole
		}
	}
	slices.SortStableFunc(e.Parts, func(a, b Part) int {
		if e.Timed {
			return cmp.Compare(math.Abs(b.Extra), math.Abs(a.Extra))
		}
		return cmp.Compare(math.Abs(b.More()), math.Abs(a.More()))
	})
}

func (e *Explanation) waits(base, target *side) {
	if !e.Timed {
		return
	}
	for _, name := range callNames(base, target) {
		if !trace.Waits(name) {
			continue
		}
		of := func(t *trace.Trace) float64 { return float64(find(t, name).WaitNS) }
		w := Wait{Name: name, Base: of(base.sum) / base.work, Target: of(target.sum) / target.work,
			test: e.tests.add(of)}
		if w.Base > 0 || w.Target > 0 {
			e.Waits = append(e.Waits, w)
		}
	}
	slices.SortStableFunc(e.Waits, func(a, b Wait) int {
		return cmp.Compare(math.Abs(b.Target-b.Base), math.Abs(a.Target-a.Base))
	})
}

func (e *Explanation) counts(base, target *side) {
	if !e.Timed {
		return
	}
	for _, c := range []struct {
		name string
		of   func(*trace.Trace) int64
	}{
		{"page faults", func(t *trace.Trace) int64 { return t.CPU.Faults }},
		{"voluntary context switches", func(t *trace.Trace) int64 { return t.CPU.Voluntary }},
		{"involuntary context switches", func(t *trace.Trace) int64 { return t.CPU.Involuntary }},
	} {
		b, t := c.of(base.sum), c.of(target.sum)
		if b < 0 || t < 0 {
			e.Lost = append(e.Lost, c.name+": this kernel does not tell them (tracepoint page_fault_user)")
			continue
		}
		e.Counts = append(e.Counts, Count{Name: c.name, Base: float64(b) / base.work, Target: float64(t) / target.work,
			test: e.tests.add(func(t *trace.Trace) float64 { return eventNS * float64(c.of(t)) })})
	}
}

// mostPlaces bounds the places in the kernel that are told.
const mostPlaces = 5

func (e *Explanation) places(base, target *side) {
	by := map[string]*Place{}
	add := func(s *side, to func(*Place) *float64) {
		for _, x := range s.sum.Stack {
			key := placeKey(&x)
			if by[key] == nil {
				by[key] = &Place{Call: x.Call, Frames: x.Frames}
			}
			*to(by[key]) += float64(x.NS) / s.work
		}
	}
	add(base, func(p *Place) *float64 { return &p.Base })
	add(target, func(p *Place) *float64 { return &p.Target })
	for _, key := range slices.Sorted(maps.Keys(by)) {
		by[key].test = e.tests.add(func(t *trace.Trace) (sum float64) {
			for i := range t.Stack {
				if x := &t.Stack[i]; placeKey(x) == key {
					sum += float64(x.NS)
				}
			}
			return sum
		})
		e.Stacks = append(e.Stacks, *by[key])
	}
	slices.SortStableFunc(e.Stacks, func(a, b Place) int {
		return cmp.Compare(math.Abs(b.Target-b.Base), math.Abs(a.Target-a.Base))
	})
	e.Stacks = e.Stacks[:min(len(e.Stacks), mostPlaces)]
}

func placeKey(s *trace.Stack) string { return s.Call + "\n" + strings.Join(s.Frames, "\n") }

// mostServed bounds the calls of what serves a target.
const mostServed = 6

func (e *Explanation) serving(s *side) {
	traced := false // the exits, on this machine
	if s.outside != nil {
		e.served(s, s.outside, s.served, false)
		traced = s.outside.CPU.Exits > 0
	}
	if s.sum != nil {
		e.served(s, s.sum, s.work, s.Within != "")
		traced = traced || s.Within == "" && s.sum.CPU.Exits > 0
	}
	e.exits(s, traced)
}

// served adds the calls that a trace saw of other processes than those of the work.
func (e *Explanation) served(s *side, t *trace.Trace, work float64, within bool) {
	calls := slices.Clone(t.Serving)
	slices.SortStableFunc(calls, func(a, b trace.Call) int {
		return cmp.Or(cmp.Compare(servedTime(&b), servedTime(&a)), cmp.Compare(b.Count, a.Count))
	})
	for _, c := range calls[:min(len(calls), mostServed)] {
		e.Serving = append(e.Serving, Served{s.Name, within, c.Name, float64(c.Count) / work, servedTime(&c) / work,
			float64(c.Bytes) / work})
	}
	if n := t.CPU.Exits; n > 0 {
		e.Serving = append(e.Serving, Served{For: s.Name, Within: within, Name: "exits of virtual processors",
			Count: float64(n) / work})
	}
}

// exits adds those that the hypervisor counts by kind, beside the sum that was traced.
func (e *Explanation) exits(s *side, traced bool) {
	by, work := map[string]float64{}, 0.0 // work of the trials that tell; they leave out kinds that did not occur
	for i := range s.Trials {
		t := &s.Trials[i]
		if len(t.Exits) == 0 || t.Work <= 0 {
			continue
		}
		work += float64(t.Work)
		for name, n := range t.Exits {
			by[name] += float64(n)
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	}) {
		if by[name] > 0 && (name != "exits" || !traced) {
			e.Serving = append(e.Serving, Served{For: s.Name, Count: by[name] / work,
				Name: strings.ReplaceAll(name, "_", " ") + " of virtual processors"})
		}
	}
}
