package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// The methods by which an Estimate was made.
const (
	MethodNone       = ""            // no usable values
	MethodSignedRank = "signed-rank" // Hodges-Lehmann centre, exact signed-rank interval
	MethodStudent    = "student-t"   // mean and Student t over session means
)

// studentBelow is the number of sessions from which the signed-rank test takes over: below it the test on so few units
// has no finite or only a very wide interval at the levels used, and Student t is exact for normal session effects.
const studentBelow = 10

// MinSessions is the least number of sessions of which any can pass Holm's first step over a family of m cells at level
// alpha, given that n are planned. Student t has no smallest p value, so that two suffice as long as they are few
// enough to be judged by it; the signed-rank test needs as many sessions as it would need blocks.
func MinSessions(n, m int, alpha float64) int {
	if n < studentBelow {
		return 2
	}
	return MinBlocks(m, alpha)
}

// Estimate is a centre with an interval.
type Estimate struct {
	Center float64
	Low    float64 // -Inf when the units are too few for the level
	High   float64 // +Inf when the units are too few for the level
	Units  int     // what was counted: blocks, or sessions when there are at least two
	Blocks int     // values given
	Method string  // MethodNone, MethodSignedRank or MethodStudent

	units []float64
}

// Units reduces values grouped by session to the independent units behind a claim: the values themselves when only one
// session gave any, else the mean of each session that did, which is infinite when a value is. It is nil when there are
// no values, or one that says nothing: a NaN, or infinities of both signs in one session of several.
func Units(sessions [][]float64) []float64 {
	var only []float64
	var means []float64
	for _, s := range sessions {
		if len(s) == 0 {
			continue
		}
		only = s
		means = append(means, mean(s))
	}
	if len(means) == 1 {
		means = only
	}
	for _, v := range means {
		if math.IsNaN(v) {
			return nil
		}
	}
	return means
}

// EstimateCenter estimates the centre of values grouped by session, with an interval of level 1-alpha.
//
// With one session the units are its values; with more they are the session means. Two to nine sessions are judged by
// Student t, everything else by the Hodges-Lehmann estimate and the inverted signed-rank test. The interval is closed,
// which keeps its level also when values are tied. alpha outside (0, 1) gives an interval without ends.
//
// An infinite value is a censored one: all that is known is that it lies above, or below, all others. The ranks need no
// more than that; an average of two values of which one is censored is as unknown, of opposite signs wholly so, and is
// counted against whichever end is asked for. An end that falls on such an average is infinite. Of sessions with
// censored values Student t knows no interval.
//
// Without usable values (none, a NaN, or so many censored that the centre is one) the result has Method MethodNone,
// Center 0 and an interval without ends.
func EstimateCenter(sessions [][]float64, alpha float64) Estimate {
	e := Estimate{Low: math.Inf(-1), High: math.Inf(1)}
	for _, s := range sessions {
		e.Blocks += len(s)
	}
	count := filled(sessions)
	e.units = Units(sessions)
	e.Units = len(e.units)
	if e.Units == 0 {
		return e
	}
	level := alpha > 0 && alpha < 1
	if count >= 2 && count < studentBelow {
		known := slices.DeleteFunc(slices.Clone(e.units), func(v float64) bool { return math.IsInf(v, 0) })
		if len(known) == 0 {
			return e
		}
		e.Method = MethodStudent
		e.Center = Mean(known)
		if level && len(known) == len(e.units) {
			half := standardError(e.units) * studentQuantile(1-alpha/2, e.Units-1)
			e.Low, e.High = e.Center-half, e.Center+half
		}
		return e
	}
	w := newWalsh(e.units)
	center := w.median()
	if math.IsInf(center, 0) || math.IsNaN(center) {
		return e
	}
	e.Method, e.Center = MethodSignedRank, center
	if level {
		if c := rankCut(e.Units, alpha); c > 0 {
			e.Low, e.High = w.kth(c), -newWalsh(negated(e.units)).kth(c)
		}
	}
	return e
}

func negated(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = -v
	}
	return out
}

// greater is the one-sided p value of H0 "the centre is at most shift", by the estimate's own method.
func (e Estimate) greater(shift float64) float64 { return e.tail(shift, false) }

// less is the one-sided p value of H0 "the centre is at least shift".
func (e Estimate) less(shift float64) float64 { return e.tail(shift, true) }

func (e Estimate) tail(shift float64, mirrored bool) float64 {
	sign := 1.0
	if mirrored {
		sign = -1
	}
	switch e.Method {
	case MethodStudent:
		if !finite(e.units) {
			return 1
		}
		return studentUpper(sign*(e.Center-shift), standardError(e.units), e.Units-1)
	case MethodSignedRank:
		if !mirrored {
			return SignedRankGreater(e.units, shift)
		}
		return SignedRankGreater(negated(e.units), -shift)
	}
	return 1
}

// MinimalEffectP is the p value of H0 "|centre| <= margin" against "the centre lies beyond the margin on one side":
// twice the smaller of the two one-sided p values at the ends of the margin, at most 1. It is at most alpha exactly
// when the interval of level 1-alpha lies wholly beyond the margin (values without ties). 1 without usable values.
func (e Estimate) MinimalEffectP(margin float64) float64 {
	return min(1, 2*min(e.greater(margin), e.less(-margin)))
}

// standardError is the standard error of the mean; 0 for fewer than two values.
func standardError(x []float64) float64 {
	n := float64(len(x))
	if n < 2 {
		return 0
	}
	m := Mean(x)
	// Scaled by the largest deviation, so that squares neither overflow nor vanish.
	var scale float64
	for _, v := range x {
		scale = max(scale, math.Abs(v-m))
	}
	if scale == 0 || math.IsInf(scale, 0) {
		return scale
	}
	var sum float64
	for _, v := range x {
		d := (v - m) / scale
		sum += d * d
	}
	return scale * math.Sqrt(sum/(n-1)/n)
}

func studentQuantile(p float64, df int) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Quantile(p)
}

// studentUpper is P(t >= diff/se) with df degrees of freedom. Without any spread the evidence is all or nothing.
func studentUpper(diff, se float64, df int) float64 {
	if se == 0 {
		if diff > 0 {
			return 0
		}
		return 1
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(df)}.Survival(diff / se)
}
