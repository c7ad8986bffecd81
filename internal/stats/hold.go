package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Held says how a unit that is new stands against units of a kind. All but the counts are on the log scale.
type Held struct {
	K     int     // units of the kind that it is held against
	Out   int     // units of the kind that were left out, because they lie apart from the others
	Shift float64 // its estimate minus the centre of the kind
	Tau   float64 // standard deviation between the units of the kind, their own noise taken off
	// Center and SE are of the kind, with DF degrees of freedom.
	Center float64
	SE     float64
	DF     float64
	// Own is the standard error of its own estimate, with OwnDF degrees of freedom.
	Own   float64
	OwnDF float64
}

// Hold holds a unit against units of a kind to which it does not belong yet. Those of them that lie apart from the
// others do not count, as in SetApart: one that was sick would hide another. ok is false where there are fewer than
// LeastApart units, or where the unit says nothing.
func Hold(kind []Measured, u Measured) (h Held, ok bool) {
	var rest []Measured
	usable := 0
	for i, in := range core(kind) {
		if kind[i].usable() {
			usable++
		}
		if in {
			rest = append(rest, kind[i])
		}
	}
	h = Held{K: len(rest), Out: usable - len(rest)}
	if usable < LeastApart || len(rest) < LeastApart-1 || !u.usable() {
		return h, false
	}
	p := pool(rest)
	h.Center, h.SE, h.DF, h.Tau = p.Center, p.SE, p.DF, p.Tau
	h.Shift, h.Own, h.OwnDF = u.Center-p.Center, math.Sqrt(u.variance()), max(u.DF, 1)
	return h, true
}

// P is the one-sided p value of "it is of their kind, or lies no further above them than the margin": the deleted
// residual of the random-effects model, whose variance is what the kind's units differ by, the uncertainty of their
// centre and the unit's own noise.
func (h Held) P(margin float64) float64 {
	se, df := h.spread()
	return tAbove((h.Shift-margin)/se, df)
}

// spread is the standard error of Shift for a unit that is of the kind, with Satterthwaite's degrees of freedom.
func (h Held) spread() (se, df float64) {
	return sumOf(h.Tau*h.Tau+h.SE*h.SE, h.DF, h.Own*h.Own, h.OwnDF)
}

// Above is the upper bound, of level 1-alpha, of how far its true value lies above the centre of the kind. What the
// units of the kind differ by is no part of it: that says where others lie.
func (h Held) Above(alpha float64) float64 {
	se, df := sumOf(h.SE*h.SE, h.DF, h.Own*h.Own, h.OwnDF)
	return h.Shift + tQuantile(1-alpha, df)*se
}

// Found is the least distance above the centre of the kind at which P is at most alpha with a chance of power.
func (h Held) Found(margin, alpha, power float64) float64 {
	se, df := h.spread()
	own, ownDF := sumOf(h.SE*h.SE, h.DF, h.Own*h.Own, h.OwnDF)
	return margin + tQuantile(1-alpha, df)*se + tQuantile(power, ownDF)*own
}

// With is what the same shift would say with more of its own values, times blocks, and with so many units of the kind.
func (h Held) With(blocks float64, units int) Held {
	if blocks > 0 {
		h.Own /= math.Sqrt(blocks)
		h.OwnDF = (h.OwnDF+1)*blocks - 1
	}
	if units > 1 && h.K > 0 {
		h.SE *= math.Sqrt(float64(h.K) / float64(units))
		h.DF, h.K = float64(units-1), units
	}
	return h
}

// sumOf is the square root of the sum of two estimated variances, and its degrees of freedom (Satterthwaite).
func sumOf(a, aDF, b, bDF float64) (se, df float64) {
	sum := a + b
	if !(sum > 0) {
		return leastSE, 1
	}
	return math.Sqrt(sum), max(1, sum*sum/(a*a/max(aDF, 1)+b*b/max(bDF, 1)))
}

// tAbove is the p value of a one-sided test whose statistic is t.
func tAbove(t, df float64) float64 {
	if math.IsNaN(t) || !(df > 0) {
		return 1
	}
	p := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: min(df, 1e6)}.Survival(t)
	if math.IsNaN(p) {
		return 1
	}
	return min(max(p, 0), 1)
}
