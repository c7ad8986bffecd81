package rundiff

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/stats"
)

// side is a centre with its interval on the log scale; the ends may be infinite.
type side struct{ center, low, high float64 }

// mover is the interval of b - a from the intervals of a and b, which are independent and of one level. See doc.go.
func mover(a, b side) (low, high float64) {
	d := b.center - a.center
	return d - math.Hypot(b.center-b.low, a.high-a.center), d + math.Hypot(b.high-b.center, a.center-a.low)
}

// input has the figures of one side for a decision on one cell.
type input struct {
	ratio record.Ratio
	null  float64 // spread of the null control
	same  float64 // the plan's margin
	alpha float64 // of the interval
	units int     // blocks, or sessions
}

// decision is made of two inputs.
type decision struct {
	record.Ratio
	margin, same float64
	alpha        float64
	half         float64 // half-width on the log scale
	adjusted     stats.Adjusted
}

// decide finds the change from a to b. Both have an interval. The verdict is one that the family has still to confirm.
func decide(a, b input, precision float64) decision {
	x, y := logs(a.ratio), logs(b.ratio)
	d := decision{
		margin: stats.Margin(max(a.same, b.same), math.Expm1(math.Hypot(math.Log1p(a.null), math.Log1p(b.null)))),
		same:   min(a.same, b.same),
		alpha:  max(a.alpha, b.alpha),
	}
	low, high := mover(x, y)
	d.half = (high - low) / 2
	d.Center, d.Low, d.High = math.Exp(y.center-x.center), math.Exp(low), math.Exp(high)
	d.Level = min(a.ratio.Level, b.ratio.Level)
	d.Blocks = min(a.ratio.Blocks, b.ratio.Blocks)
	d.P = effectP(a, b, x, y, math.Log1p(d.margin))
	d.PHolm, d.Q = d.P, d.P
	switch {
	case d.Low > 1+d.margin || d.High < 1/(1+d.margin):
		d.Verdict = record.Different
	case d.Low >= 1/(1+d.same) && d.High <= 1+d.same:
		d.Verdict = record.Equivalent
	default:
		d.Verdict = d.precise(precision)
	}
	return d
}

func (d *decision) precise(precision float64) record.Verdict {
	if math.Expm1(d.half) <= precision {
		return record.Measured
	}
	return record.Inconclusive
}

func logs(r record.Ratio) side { return side{math.Log(r.Center), math.Log(r.Low), math.Log(r.High)} }

// effectP is the two-sided p value of "the change lies within the margin" by Welch's t. A side's standard error is its
// interval's half-width over the t quantile of its level, which for the signed-rank interval of few blocks is a little
// too large: the p value errs to the safe side.
func effectP(a, b input, x, y side, margin float64) float64 {
	va, dfa := variance(a, x)
	vb, dfb := variance(b, y)
	beyond := math.Abs(y.center-x.center) - margin
	if va+vb == 0 {
		if beyond > 0 {
			return 0
		}
		return 1
	}
	df := (va + vb) * (va + vb) / (va*va/dfa + vb*vb/dfb)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: max(df, 1)}
	return min(1, 2*t.Survival(beyond/math.Sqrt(va+vb)))
}

func variance(i input, s side) (v, df float64) {
	df = float64(max(i.units-1, 1))
	se := (s.high - s.low) / 2 / distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(1-i.alpha/2)
	return se * se, df
}

// confirm counts the family of m cells in, by the rule for primary or for secondary ones that holds within a run, and
// returns the decisions whose DIFFERENT it took back.
func confirm(family []*decision, m int, primary bool, precision float64) (taken []*decision) {
	p := make([]float64, len(family))
	for i, d := range family {
		p[i] = d.P
	}
	for i, a := range stats.Adjust(p, m, primary) {
		d := family[i]
		d.adjusted, d.PHolm, d.Q = a, a.PHolm, a.Q
		if d.Verdict == record.Different && !a.Confirms(d.alpha) {
			d.Verdict = d.precise(precision)
			taken = append(taken, d)
		}
	}
	return taken
}

func inputOf(ratio record.Ratio, null, same float64, r *verdict.Result) input {
	i := input{ratio: ratio, null: null, same: same, alpha: levelOf(r), units: ratio.Blocks}
	if r.Run.Sessions > 1 {
		i.units = r.Run.Sessions
	}
	return i
}
