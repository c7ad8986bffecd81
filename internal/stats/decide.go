package stats

import (
	"math"
	"slices"

	"tare/internal/record"
)

// Options are what a decision depends on besides the data. Shares are relative: 0.02 is 2 %.
type Options struct {
	Alpha     float64 // level of this look, two-sided; see LookAlpha
	Margin    float64 // delta: a cost must lie beyond it to be DIFFERENT
	Same      float64 // a cost must lie within it to be EQUIVALENT; 0 means Margin
	Precision float64 // half-width at which a cost counts as MEASURED
	// Bias is a doubt that more blocks do not remove, such as a clock known to be off by that share: the interval grows
	// by it on both sides.
	Bias float64
	// Last says that no more blocks will come; see Judge.
	Last bool
	// Sessions is how many the claim is to be about. With more than one, values of a single session decide nothing: how
	// sessions differ cannot be seen in them.
	Sessions int
}

// Decision is what the data say of one cell at one look. Center, Low and High are ratios of costs.
type Decision struct {
	Center float64 // 0 when there is no usable block
	Low    float64 // 0 when the units are too few for an interval, or it has only one end
	High   float64 // +Inf when Low is 0
	P      float64 // minimal-effect p value: H0 "the cost lies within Margin"
	// Adjusted is P in its family; both its values equal P until Judge or Explore has seen the family.
	Adjusted
	Units  int    // blocks, or sessions when there are at least two
	Blocks int    // paired blocks behind the figure
	Method string // how it was made, see Estimate
	// Verdict is DIFFERENT, EQUIVALENT, MEASURED or INCONCLUSIVE; FAILED without usable values.
	Verdict record.Verdict

	opts   Options
	family int
	needed int // blocks with which Explore may confirm it; 0 where it did not take a DIFFERENT back
}

// HasInterval tells whether the interval has ends.
func (d *Decision) HasInterval() bool { return d.Low > 0 && !math.IsInf(d.High, 0) }

// HalfWidth is half the width of the interval on the log scale, as a share: 0.02 means about plus or minus 2 %. +Inf
// without an interval.
func (d *Decision) HalfWidth() float64 {
	if !d.HasInterval() {
		return math.Inf(1)
	}
	return math.Expm1((math.Log(d.High) - math.Log(d.Low)) / 2)
}

// Decide applies the four steps of the decision, in their order, to d = ln(candidate / baseline) per block, grouped by
// session:
//
//  1. interval wholly outside [1/(1+Margin), 1+Margin]: DIFFERENT
//  2. interval wholly inside [1/(1+Same), 1+Same]: EQUIVALENT
//  3. half-width at most Precision: MEASURED
//  4. otherwise INCONCLUSIVE: go on, or say how many blocks would settle it
//
// With one session, an interval whose values remember the ones before is wider, see Memory.
//
// An infinite d stands for a block in which one side alone hit its deadline, see EstimateCenter: nothing but
// INCONCLUSIVE comes of an interval whose end lies among such blocks.
//
// It knows one cell only. A DIFFERENT stands when Judge or Explore has confirmed it in its family.
func Decide(sessions [][]float64, o Options) Decision {
	if !(o.Same > 0) {
		o.Same = o.Margin
	}
	e := EstimateCenter(sessions, o.Alpha)
	memory := 1.0
	if e.Method == MethodSignedRank && filled(sessions) == 1 { // what follows each other in one session
		memory = Memory(e.units)
		e = e.widened(memory)
	}
	bias := math.Log1p(o.Bias)
	d := Decision{
		Center: math.Exp(e.Center),
		Low:    math.Exp(e.Low - bias),
		High:   math.Exp(e.High + bias),
		Units:  e.Units,
		Blocks: e.Blocks,
		Method: e.Method,
		P:      e.MinimalEffectP(math.Log1p(o.Margin) + bias),
		opts:   o,
		family: 1,
	}
	if memory > 1 {
		d.P = e.weaker(d.P, math.Log1p(o.Margin)+bias, o.Alpha)
	}
	if e.Method == MethodNone || !(d.Center > 0) || math.IsInf(d.Center, 0) {
		return Decision{High: math.Inf(1), P: 1, Adjusted: Adjusted{PHolm: 1, Q: 1}, Verdict: record.Failed, opts: o,
			family: 1}
	}
	if o.Sessions > 1 && filled(sessions) < 2 {
		d.Low, d.P = 0, 1
	}
	if !d.HasInterval() {
		d.Low, d.High = 0, math.Inf(1)
	}
	d.PHolm, d.Q = d.P, d.P
	switch {
	case d.Low > 1+o.Margin || d.High < 1/(1+o.Margin):
		d.Verdict = record.Different
	case d.Low >= 1/(1+o.Same) && d.High <= 1+o.Same:
		d.Verdict = record.Equivalent
	default:
		d.Verdict = d.precise()
	}
	return d
}

// filled counts the sessions that have values.
func filled(sessions [][]float64) int {
	n := 0
	for _, s := range sessions {
		if len(s) > 0 {
			n++
		}
	}
	return n
}

func (d *Decision) precise() record.Verdict {
	if d.HalfWidth() <= d.opts.Precision {
		return record.Measured
	}
	return record.Inconclusive
}

// Judge looks at the decisions of one family together. m is the number of cells in the family, including those without
// data yet; smaller than the number given means that number. Each decision gets its PHolm and Q, and a DIFFERENT whose
// PHolm exceeds the level of the look does not stand: while blocks are still to come it is INCONCLUSIVE, because more
// of them can confirm it; at the last look it is MEASURED when the interval is precise enough, else INCONCLUSIVE.
// Decisions without usable values count as hypotheses without evidence.
func Judge(family []*Decision, m int) { judge(family, m, true) }

// Explore is Judge for a family that nobody asked a question about: a DIFFERENT stands when its Q is at most the level
// of the look, so that of all that are called DIFFERENT a share of at most the level is false, where Judge keeps the
// chance of a single false one as low.
func Explore(family []*Decision, m int) {
	beyond := slices.DeleteFunc(slices.Clone(family), func(d *Decision) bool { return d.Verdict != record.Different })
	judge(family, m, false)
	for _, d := range family {
		d.family = 1 // how many blocks a q needs depends on the other cells
	}
	for _, d := range beyond {
		if d.Verdict != record.Different { // with more blocks P falls in all that lie beyond the margin
			d.needed = d.blocksFor(float64(max(m, len(family))) / float64(len(beyond)))
		}
	}
}

// blocksFor estimates how many blocks bring P down to the level divided by a number of hypotheses: its normal quantile
// goes with the root of the blocks.
func (d *Decision) blocksFor(hypotheses float64) int {
	n := unitsFor(d.Units, math.Erfcinv(d.opts.Alpha/hypotheses), math.Erfcinv(d.P))
	return d.blocksOf(max(d.leastUnits(int(math.Ceil(hypotheses))), n, d.Units+1))
}

// leastUnits is how many units can at least pass Holm in a family of m.
func (d *Decision) leastUnits(m int) int {
	if d.Method == MethodStudent {
		return 2
	}
	return MinBlocks(m, d.opts.Alpha)
}

// blocksOf is how many blocks so many units are.
func (d *Decision) blocksOf(units int) int {
	perUnit := 1.0
	if d.Units > 0 {
		perUnit = float64(d.Blocks) / float64(d.Units)
	}
	return int(min(math.Ceil(float64(units)*perUnit), maxBlocksNeeded))
}

func judge(family []*Decision, m int, primary bool) {
	p := make([]float64, len(family))
	for i, d := range family {
		p[i] = d.P
	}
	m = max(m, len(family))
	for i, a := range Adjust(p, m, primary) {
		d := family[i]
		d.Adjusted, d.family = a, m
		if d.Verdict != record.Different || a.Confirms(d.opts.Alpha) {
			continue
		}
		d.Verdict = record.Inconclusive
		if d.opts.Last {
			d.Verdict = d.precise()
		}
	}
}

// maxBlocksNeeded bounds BlocksNeeded: nobody runs a million blocks.
const maxBlocksNeeded = 1_000_000

// BlocksNeeded estimates how many blocks would settle an INCONCLUSIVE: those that shrink the half-width, which goes
// with the root of their number, to the target precision or to the distance between the centre and the nearer margin,
// whichever asks for fewer; never fewer than can pass Holm in the family, and always more than there are. Of a
// DIFFERENT that Explore took back, whatever it is called now, it is how many would confirm it. With sessions as units
// it is the number of blocks in as many more sessions. 0 for any other verdict, and without an interval, when nothing
// is known of how it would shrink.
func (d *Decision) BlocksNeeded() int {
	if d.needed > 0 {
		return d.needed
	}
	if d.Verdict != record.Inconclusive || !d.HasInterval() {
		return 0
	}
	bias := math.Log1p(d.opts.Bias)
	half := math.Log1p(d.HalfWidth()) - bias
	at := math.Abs(math.Log(d.Center))
	target := math.Log1p(d.opts.Precision)
	target = max(target, at-math.Log1p(d.opts.Margin), math.Log1p(d.opts.Same)-at) - bias
	return d.blocksOf(max(d.leastUnits(d.family), unitsFor(d.Units, half, target), d.Units+1))
}

// unitsFor is how many units bring the half-width half, seen with n units, down to target.
func unitsFor(n int, half, target float64) int {
	if !(target > 0) {
		return maxBlocksNeeded
	}
	r := half / target
	return int(min(math.Ceil(float64(n)*r*r), maxBlocksNeeded))
}

// spreadAlpha makes an interval of one standard error to each side.
const spreadAlpha = 0.3173105078629141

// NullSpread is the spread of the null control, as a share: how far from "no cost" two identical environments appear to
// lie, the uncertainty of that included. d is ln(null slot / baseline) per block, by session; the spread is the farther
// end of its interval of one standard error (68.27 %), so it is large for an instrument that is noisy and for one that
// is biased, and falls with more blocks if it is only noisy. With fewer than three units, or an end among censored
// ones, it is the largest |d| seen. The second result is false without usable values.
func NullSpread(sessions [][]float64) (float64, bool) {
	e := EstimateCenter(sessions, spreadAlpha)
	if e.Method == MethodNone {
		return 0, false
	}
	far := max(math.Abs(e.Low), math.Abs(e.High))
	if math.IsInf(far, 0) {
		far = 0
		for _, s := range sessions {
			for _, v := range s {
				if !math.IsInf(v, 0) {
					far = max(far, math.Abs(v))
				}
			}
		}
	}
	return math.Expm1(far), true
}

// Margin is the delta that applies to a cell: the larger of the plan's margin and twice the null control's spread.
func Margin(plan, nullSpread float64) float64 { return max(plan, 2*nullSpread) }

// GeometricMean is the geometric mean of ratios over cells with an interval over blocks. d holds ln(ratio) by session,
// block and cell; the cells of a block are averaged first, because workloads are not replicates of each other. The
// result is on the log scale; blocks without cells are left out.
func GeometricMean(d [][][]float64, alpha float64) Estimate {
	sessions := make([][]float64, len(d))
	for i, blocks := range d {
		for _, cells := range blocks {
			if len(cells) > 0 {
				sessions[i] = append(sessions[i], mean(cells))
			}
		}
	}
	return EstimateCenter(sessions, alpha)
}
