package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Measured is what one of several units, such as a host, says of a quantity: an estimate with its own standard error.
type Measured struct {
	Center float64 // on the log scale
	SE     float64 // standard error within the unit; anything below 1e-6 counts as that
	DF     float64 // degrees of freedom of SE; anything below 1 counts as that
}

// leastSE keeps weights finite where a unit's values did not vary at all: one part in a million is below what any clock
// tells.
const leastSE = 1e-6

// usable tells whether the unit says anything. Beyond these bounds no logarithm of a cost lies, and squares overflow.
func (m Measured) usable() bool {
	return math.Abs(m.Center) <= 1e100 && m.SE <= 1e100 && !math.IsNaN(m.DF)
}

func (m Measured) variance() float64 {
	se := max(m.SE, leastSE)
	return se * se
}

// MeasuredBy recovers what a unit says from its interval of level 1-alpha over a number of independent values, which
// may be asymmetric. ok is false where the interval has no ends.
func MeasuredBy(center, low, high, alpha float64, values int) (m Measured, ok bool) {
	m = Measured{Center: center, DF: float64(max(values-1, 1))}
	if !(alpha > 0 && alpha < 1) || !(high >= low) {
		return m, false
	}
	m.SE = (high - low) / 2 / tQuantile(1-alpha/2, m.DF)
	return m, m.usable()
}

// Pooled is what several units say together, and what a further unit of their kind would say.
type Pooled struct {
	K          int     // units
	Center     float64 // mean of the kind
	SE         float64 // standard error of Center
	DF         float64 // degrees of freedom of SE
	Low, High  float64 // interval of Center; infinite where one unit alone has no interval
	NextLow    float64 // interval in which the true value of a further unit lies; infinite below LeastNext units
	NextHigh   float64
	Tau        float64 // standard deviation between units, their own noise taken off
	I2         float64 // share of the variance of the units' estimates that is not their own noise, 0 to 1
	Iterations int     // of the estimate of Tau
}

// LeastNext is the number of units from which a further one is predicted.
const LeastNext = 3

// Pool estimates the mean of the kind that the units are of, by the random-effects model: each unit has a true value of
// its own, normal about the mean, and an estimate of that with its own noise. The variance between units is that of
// restricted maximum likelihood (Viechtbauer, Journal of Educational and Behavioral Statistics 30:261-293, 2005); the
// interval is Hartung and Knapp's with Student t at k-1 degrees of freedom (Statistics in Medicine 20:3875-3889, 2001),
// never narrower than the model's own standard error makes it (Roever, Knapp and Friede, BMC Medical Research
// Methodology 15:99, 2015). A further unit lies within Center +- t sqrt(Tau^2 + SE^2) (Higgins, Thompson and
// Spiegelhalter, Journal of the Royal Statistical Society A 172:137-159, 2009), with k-1 degrees of freedom, which is
// exact where the units' own noise is small against what they differ by.
//
// Units that are not finite are left out. Without any, K is 0 and the intervals have no ends. alpha outside (0, 1)
// gives intervals without ends.
func Pool(units []Measured, alpha float64) Pooled {
	p := pool(units)
	p.Low, p.High, p.NextLow, p.NextHigh = math.Inf(-1), math.Inf(1), math.Inf(-1), math.Inf(1)
	if p.K == 0 || !(alpha > 0 && alpha < 1) {
		return p
	}
	t := tQuantile(1-alpha/2, p.DF)
	p.Low, p.High = p.Center-t*p.SE, p.Center+t*p.SE
	if p.K >= LeastNext {
		half := t * math.Hypot(p.Tau, p.SE)
		p.NextLow, p.NextHigh = p.Center-half, p.Center+half
	}
	return p
}

// EffectP is the two-sided p value of "the mean lies within the margin": as Estimate.MinimalEffectP, by Student t. 1
// without units.
func (p Pooled) EffectP(margin float64) float64 {
	if p.K == 0 {
		return 1
	}
	return tTails((math.Abs(p.Center)-margin)/p.SE, p.DF)
}

// pool is Pool without intervals.
func pool(units []Measured) Pooled {
	kept := make([]Measured, 0, len(units))
	for _, u := range units {
		if u.usable() {
			kept = append(kept, u)
		}
	}
	p := Pooled{K: len(kept)}
	switch p.K {
	case 0:
		return p
	case 1:
		p.Center, p.SE, p.DF = kept[0].Center, math.Sqrt(kept[0].variance()), max(kept[0].DF, 1)
		return p
	}
	k := float64(p.K)
	tau2, n := between(kept)
	center, sum := weighted(kept, tau2)
	var q, v1, v2 float64
	for _, u := range kept {
		d := u.Center - center
		q += d * d / (tau2 + u.variance())
		v := 1 / u.variance()
		v1, v2 = v1+v, v2+v*v
	}
	p.Center, p.DF, p.Tau, p.Iterations = center, k-1, math.Sqrt(tau2), n
	p.SE = math.Sqrt(max(1, q/(k-1)) / sum)
	// The noise of a typical unit (Higgins and Thompson, Statistics in Medicine 21:1539-1558, 2002).
	if typical := (k - 1) * v1 / (v1*v1 - v2); tau2 > 0 && typical > 0 {
		p.I2 = tau2 / (tau2 + typical)
	}
	return p
}

// weighted is the mean by the weights 1/(tau2 + own variance), and the sum of these.
func weighted(units []Measured, tau2 float64) (center, sum float64) {
	var c float64
	for _, u := range units {
		w := 1 / (tau2 + u.variance())
		sum += w
		c += w * u.Center
	}
	return c / sum, sum
}

// mostSteps bounds the iteration. It has been seen to need some tens.
const mostSteps = 200

// between is the variance between units by restricted maximum likelihood: the fixed point of its score equation, kept
// at 0 or above. It begins at the variance of the estimates, less their mean noise.
func between(units []Measured) (tau2 float64, steps int) {
	k := float64(len(units))
	var m, noise, ss float64
	for i, u := range units {
		m += (u.Center - m) / float64(i+1)
		noise += u.variance() / k
	}
	for _, u := range units {
		ss += (u.Center - m) * (u.Center - m)
	}
	tau2 = max(0, ss/(k-1)-noise)
	for steps = 1; steps <= mostSteps; steps++ {
		center, sum := weighted(units, tau2)
		var num, den float64
		for _, u := range units {
			v := u.variance()
			w := 1 / (tau2 + v)
			d := u.Center - center
			num += w * w * (d*d - v)
			den += w * w
		}
		next := max(0, num/den+1/sum)
		done := math.Abs(next-tau2) <= 1e-9*(next+tau2)+1e-18
		tau2 = next
		if done {
			break
		}
	}
	return tau2, steps
}

// StudentFactor turns a standard error with df degrees of freedom into half of an interval of level 1-alpha. alpha is
// inside (0, 1); df below 1 counts as 1.
func StudentFactor(alpha, df float64) float64 { return tQuantile(1-alpha/2, max(df, 1)) }

func tQuantile(p, df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
}

// tTails is the p value of a two-sided test whose statistic is t; at most 1.
func tTails(t, df float64) float64 {
	if math.IsNaN(t) || !(df > 0) {
		return 1
	}
	p := 2 * distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(df, 1e6)}.Survival(t)
	if math.IsNaN(p) {
		return 1
	}
	return min(max(p, 0), 1)
}
