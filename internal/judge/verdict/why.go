package verdict

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
)

// Why takes a ratio apart: where the time of a unit of work goes in the candidate and in the baseline. The unit of all
// figures is the baseline's total, so that the parts of the baseline together are 1, those of the candidate the ratio,
// and the differences the ratio less 1.
type Why struct {
	Workload string  `json:"workload"` // label
	Metric   string  `json:"metric"`
	Target   string  `json:"target"`
	Baseline string  `json:"baseline"`
	Ratio    float64 `json:"ratio"`  // of the cell
	Blocks   int     `json:"blocks"` // pairs of trials that have an account
	Level    float64 `json:"level"`  // of the intervals of all parts together; 0 without intervals
	// Parts are those of record.AccountParts that both sides measure; "other" has the remainder. Empty where the ratio
	// cannot be taken apart.
	Parts []Part `json:"parts"`
	// Because is 1, for what the baseline takes, and what the parts add that are shown to differ, the largest first:
	// figures that add up to the ratio. "" where no part is shown.
	Because string `json:"because,omitempty"`
	// Product is the ratio as a product of what the processors counted; nil where the ratio cannot be taken apart.
	Product *Product `json:"product,omitempty"`
	// Counts are the counts for each unit of work that are shown to differ.
	Counts []Counted `json:"counts,omitempty"`
	Unit   string    `json:"unit"` // of work: "read"
	// Unmeasured has a reason for each part that a side does not measure.
	Unmeasured map[string]string `json:"unmeasured,omitempty"`
	// Serving lists the threads that worked for the candidate on the controller's machine during its trials.
	Serving []Serving `json:"serving,omitempty"`
	// Exits are those of the candidate's virtual processors, where KVM runs them, the most first.
	Exits []Exit `json:"exits,omitempty"`
	Text  string `json:"text"` // the sum and what is shown, in words; else why there are no parts
}

// Part is a part of the time of a unit of work, in units of what the baseline takes for one.
type Part struct {
	Name      string  `json:"part"` // "user", "kernel", "ready", "disk", "other"
	What      string  `json:"what"` // in words
	Base      float64 `json:"base"`
	Candidate float64 `json:"candidate"`
	Extra     float64 `json:"extra"` // Candidate less Base
	Low       float64 `json:"low"`   // of Extra; 0 without an interval
	High      float64 `json:"high"`
	Shown     bool    `json:"shown"` // the interval excludes 0
}

// Counted is a count of record.Account for each unit of work: medians.
type Counted struct {
	Name      string  `json:"name"`
	Base      float64 `json:"base"`
	Candidate float64 `json:"candidate"`
}

// Serving is a process or a thread of the controller's machine, with the processors that it kept busy: the median.
type Serving struct {
	Name       string  `json:"name"`
	Processors float64 `json:"processors"`
}

// Exit is a kind of exit of virtual processors, for each unit of work: the median. The kind "exits" is all of them.
type Exit struct {
	Name    string  `json:"name"`
	PerUnit float64 `json:"per_unit"`
}

const (
	// notTheTime bounds the distance of a ratio from that of the lengths of the trials, as a share, for the ratio to be
	// taken apart.
	notTheTime = 0.02
	// betweenRuns is the same for the time of a run of a command: the work of starting each run and seeing to its end
	// is in the trial, and in its account, but not in the figure.
	betweenRuns = 0.15

	commandTime = "seconds" // of a run
)

// accounted are a block's two trials.
type accounted struct {
	key  blockKey
	a, b *record.Trial
}

// why takes the ratio of each primary cell apart whose trials have accounts.
func (cm *cellMaker) why() []Why {
	var out []Why
	for _, c := range cm.cells {
		if !c.Primary || c.Target == c.Baseline || c.withheld || c.incomparable || !(c.Ratio.Center > 0) {
			continue
		}
		var pairs []accounted
		for _, k := range c.keys {
			if a, b := c.candidate.used[k], c.baseline.used[k]; a.Account != nil && b.Account != nil &&
				a.Work > 0 && b.Work > 0 {
				pairs = append(pairs, accounted{k, a, b})
			}
		}
		if len(pairs) > 0 {
			out = append(out, cm.takeApart(c, sampled(pairs)))
		}
	}
	return out
}

func (cm *cellMaker) takeApart(c *cellBuilder, pairs []accounted) Why {
	w := Why{Workload: c.Workload, Metric: c.Metric, Target: c.Target, Baseline: c.Baseline, Ratio: c.Ratio.Center,
		Blocks: len(pairs), Parts: []Part{}, Unit: "unit of work", Serving: serving(pairs)}
	if k, ok := cm.kinds(c.Kind); ok && k.WorkUnit != "" {
		w.Unit = k.WorkUnit
	}
	names := record.AccountParts()
	w.Unmeasured = unmeasured(c, pairs, names)
	if len(w.Serving) == 0 {
		for _, p := range pairs {
			if why, ok := strings.CutPrefix(p.a.State[record.HostCPU], record.NotMeasured); ok {
				w.Unmeasured[unmeasuredHost] = c.Target + ": " + why
			}
		}
	}
	if lacks := w.exits(pairs); lacks != "" {
		w.Unmeasured[unmeasuredExits] = c.Target + ": " + lacks
	}
	if reason := cmp.Or(w.Unmeasured[record.UserNS], w.Unmeasured[record.KernelNS],
		w.Unmeasured[record.OtherNS]); reason != "" {
		w.Text = "the time on a processor is not known: " + reason
		return w
	}
	switch off := c.besideTheTime(pairs); {
	case ofCommand(c) && c.Metric == commandTime && off >= betweenRuns:
		w.Text = "the runs are so short that much of the trials' time lies between them, so the ratio is not taken " +
			"apart; let the command do more in a run"
		return w
	case off >= notTheTime && (!ofCommand(c) || c.Metric != commandTime):
		w.Text = c.Metric + " is not the time of a unit of work, so its ratio is not taken apart"
		return w
	}
	names = slices.DeleteFunc(names, func(name string) bool { return w.Unmeasured[name] != "" })
	cm.parts(&w, c, pairs, names)
	cm.counts(&w, pairs)
	w.Product = cm.product(&w, c, pairs)
	w.Text, w.Because = w.sentence(), w.because()
	return w
}

// unmeasured collects why parts are not known, each with the target that does not tell.
func unmeasured(c *cellBuilder, pairs []accounted, names []string) map[string]string {
	all := map[string]string{}
	for _, p := range pairs {
		for _, name := range names {
			for _, side := range []struct {
				target string
				*record.Account
			}{{c.Baseline, p.b.Account}, {c.Target, p.a.Account}} {
				if _, ok := side.Counts[name]; !ok && all[name] == "" {
					all[name] = side.target + ": " + cmp.Or(side.Unmeasured[name], "it is not in the bundle")
				}
			}
		}
	}
	return all
}

// besideTheTime returns the distance of the ratio from that of the lengths of the trials, as a share: next to nothing
// if the figure is the time of a unit of work, or a rate of units.
func (c *cellBuilder) besideTheTime(pairs []accounted) float64 {
	var off []float64
	for _, p := range pairs {
		a := float64(p.a.AgentNS) * c.candClock.correction(p.a) / float64(p.a.Work)
		b := float64(p.b.AgentNS) * c.baseClock.correction(p.b) / float64(p.b.Work)
		off = append(off, math.Abs(math.Log(a)-math.Log(b)-c.d[p.key]))
	}
	return medianOf(off)
}

// unevenLanes is the factor from which on the sides count as working with different numbers of threads. What the kernel
// tells by its ticks fills a lane by some more than there is.
const unevenLanes = 1.1

// lanes returns the number of threads side by side that both sides are given where theirs differ: the lanes that the
// side held back lacks are waiting, and no other way to work. 0 where the sides are alike.
func lanes(pairs []accounted) float64 {
	var all [2][]float64
	for _, p := range pairs {
		all[0], all[1] = append(all[0], p.a.Account.Lanes), append(all[1], p.b.Account.Lanes)
	}
	a, b := medianOf(all[0]), medianOf(all[1])
	if most := math.Max(a, b); most > unevenLanes*math.Min(a, b) {
		return most
	}
	return 0
}

// shares are the parts of a trial's time, 1 together. What is not in names is in the last of them, the remainder, and
// so is the time of lanes that the trial did not fill.
func shares(t *record.Trial, names []string, lanes float64) []float64 {
	out := make([]float64, len(names))
	last, sum := len(out)-1, 0.0
	for _, name := range record.AccountParts() {
		i := slices.Index(names, name)
		if i < 0 {
			i = last
		}
		v := math.Max(0, float64(t.Account.Counts[name]))
		out[i], sum = out[i]+v, sum+v
	}
	if free := sum * (lanes/t.Account.Lanes - 1); free > 0 && !math.IsInf(free, 0) {
		out[last], sum = out[last]+free, sum+free
	}
	if !(sum > 0) {
		out[last], sum = 1, 1
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// parts estimates each part. The shares of either side are Hodges-Lehmann centres, made 1 together, and the candidate's
// times the ratio are its parts. For the interval, both sides of a block are divided by the root of its ratio: a
// difference then changes its sign, and nothing else, if the sides change places, which is what the signed-rank test
// asks for. What comes of it times the root of the ratio is the interval.
func (cm *cellMaker) parts(w *Why, c *cellBuilder, pairs []accounted, names []string) {
	keys := make([]blockKey, len(pairs))
	cand, base, diff := byPart(names), byPart(names), byPart(names)
	wide := lanes(pairs)
	for i, p := range pairs {
		keys[i] = p.key
		root := math.Exp(c.d[p.key] / 2)
		x, y := shares(p.a, names, wide), shares(p.b, names, wide)
		for j := range names {
			cand[j][p.key], base[j][p.key] = x[j], y[j]
			diff[j][p.key] = x[j]*root - y[j]/root
		}
	}
	alpha := cm.alpha / float64(len(names))
	candidate, baseline := centers(cand, keys), centers(base, keys)
	root := math.Sqrt(w.Ratio)
	bias := c.candClock.doubtful() + c.baseClock.doubtful()
	for j, name := range names {
		p := Part{Name: strings.TrimSuffix(name, "_ns"), Base: finite(baseline[j]),
			Candidate: finite(candidate[j] * w.Ratio)}
		p.What = cm.partText(w, name)
		p.Extra = p.Candidate - p.Base
		e := stats.EstimateCenter(bySession(diff[j], keys), alpha)
		low, high := e.Low*root-bias*p.Candidate, e.High*root+bias*p.Candidate
		if low, high = math.Min(low, p.Extra), math.Max(high, p.Extra); !math.IsInf(low, 0) && !math.IsInf(high, 0) &&
			e.Method != stats.MethodNone {
			p.Low, p.High, p.Shown = finite(low), finite(high), low > 0 || high < 0
			w.Level = 1 - cm.plan.Alpha
		}
		w.Parts = append(w.Parts, p)
	}
}

// centers are the centres of the shares of one side, made 1 together.
func centers(side []map[blockKey]float64, keys []blockKey) []float64 {
	out, sum := make([]float64, len(side)), 0.0
	for j := range out {
		out[j] = math.Max(0, stats.EstimateCenter(bySession(side[j], keys), 0).Center)
		sum += out[j]
	}
	if !(sum > 0) { // each part is nothing in most blocks, and all the time in some
		for j := range out {
			for _, v := range side[j] {
				out[j], sum = out[j]+v, sum+v
			}
		}
	}
	for j := range out {
		out[j] /= sum
	}
	return out
}

func byPart(names []string) []map[blockKey]float64 {
	out := make([]map[blockKey]float64, len(names))
	for i := range out {
		out[i] = map[blockKey]float64{}
	}
	return out
}

// compared are the counts that may explain a difference.
var compared = []string{
	record.StolenNS, record.IOStalledNS,
	record.InstructionsUser, record.InstructionsKernel, record.CyclesUser, record.CyclesKernel,
	record.CacheMissesUser, record.CacheMissesKernel, record.BranchMissesUser, record.BranchMissesKernel,
	record.TLBMissesUser, record.TLBMissesKernel,
	record.SwitchesVoluntary, record.SwitchesInvoluntary, record.FaultsMinor, record.FaultsMajor,
	record.ReadBytes, record.WrittenBytes, record.DeviceReadBytes, record.DeviceWrittenBytes,
	record.DiskReads, record.DisksReadBytes, record.DiskWrites, record.DisksWrittenBytes, record.DiskFlushes,
}

// counts keeps the counts for each unit of work whose difference has an interval that excludes 0, at the level of a
// part, and is no chance among all counts together (stats.Flips). Where no part is shown, none is: then the answer
// names nothing.
func (cm *cellMaker) counts(w *Why, pairs []accounted) {
	if !slices.ContainsFunc(w.Parts, func(p Part) bool { return p.Shown }) {
		return
	}
	keys := make([]blockKey, len(pairs))
	var found []Counted
	var all [][]float64
	var clear []bool
	for _, name := range compared {
		diff, share := map[blockKey]float64{}, make([]float64, len(pairs))
		var cand, base []float64
		for i, p := range pairs {
			keys[i] = p.key
			a, ok := p.a.Account.Counts[name]
			b, too := p.b.Account.Counts[name]
			if ok && too {
				x, y := float64(a)/float64(p.a.Work), float64(b)/float64(p.b.Work)
				cand, base = append(cand, x), append(base, y)
				diff[p.key] = x - y
				if x+y > 0 {
					share[i] = (x - y) / (x + y)
				}
			}
		}
		if len(cand) < len(pairs) {
			continue
		}
		e := stats.EstimateCenter(bySession(diff, keys), cm.alpha/float64(len(record.AccountParts())))
		clear = append(clear, e.Method != stats.MethodNone && (e.Low > 0 || e.High < 0))
		all = append(all, share)
		found = append(found, Counted{name, finite(medianOf(base)), finite(medianOf(cand))})
	}
	for i, p := range stats.Flips(all) {
		if clear[i] && p <= cm.alpha {
			w.Counts = append(w.Counts, found[i])
		}
	}
}

// The keys of Why.Unmeasured for exits, and for what worked on the controller's machine.
const (
	unmeasuredExits = "exits"
	unmeasuredHost  = record.HostCPU
)

// exits reads the state of exits of the candidate's trials. Unless half of them tell, it returns why they do not, where
// that is said.
func (w *Why) exits(pairs []accounted) (lacks string) {
	by := map[string][]float64{}
	known := 0
	for _, p := range pairs {
		state := p.a.State[record.HostExits]
		exits := record.Exits(state)
		for name, n := range exits {
			by[name] = append(by[name], float64(n)/float64(p.a.Work))
		}
		if len(exits) > 0 {
			known++
		} else if state != "" {
			lacks = cmp.Or(lacks, strings.TrimPrefix(state, record.NotMeasured))
		}
	}
	if known == 0 || 2*known < len(pairs) {
		return lacks
	}
	for name, v := range by {
		for len(v) < known {
			v = append(v, 0) // there were none in others that tell
		}
		w.Exits = append(w.Exits, Exit{name, finite(medianOf(v))})
	}
	slices.SortFunc(w.Exits, func(a, b Exit) int {
		return cmp.Or(cmp.Compare(b.PerUnit, a.PerUnit), cmp.Compare(a.Name, b.Name))
	})
	return ""
}

// mostServing bounds the names of what worked on the controller's machine.
const mostServing = 16

// serving reads the state record.HostCPU of the candidate's trials.
func serving(pairs []accounted) []Serving {
	by := map[string][]float64{}
	for _, p := range pairs {
		if p.a.ControllerNS <= 0 || strings.HasPrefix(p.a.State[record.HostCPU], record.NotMeasured) {
			continue
		}
		for part := range strings.SplitSeq(p.a.State[record.HostCPU], ", ") {
			text, ok := strings.CutSuffix(part, " s")
			at := strings.LastIndexByte(text, ' ')
			if !ok || at < 0 {
				continue
			}
			v, err := strconv.ParseFloat(text[at+1:], 64)
			if name := text[:at]; err == nil && v >= 0 && (by[name] != nil || len(by) < mostServing) {
				by[name] = append(by[name], v/(float64(p.a.ControllerNS)/1e9))
			}
		}
	}
	var out []Serving
	for name, v := range by {
		for len(v) < len(pairs) {
			v = append(v, 0) // it did nothing in the others
		}
		if busy := finite(medianOf(v)); busy >= 0.001 {
			out = append(out, Serving{name, busy})
		}
	}
	slices.SortFunc(out, func(a, b Serving) int {
		return cmp.Or(cmp.Compare(b.Processors, a.Processors), cmp.Compare(a.Name, b.Name))
	})
	return out
}
