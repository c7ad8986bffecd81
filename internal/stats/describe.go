package stats

import (
	"math"
	"slices"
)

// finite tells whether every value is a finite number.
func finite(x []float64) bool {
	for _, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// Median returns the middle value, or the mean of the two middle ones. It is NaN for no values and when a value is not
// finite.
func Median(x []float64) float64 { return Quantile(x, 0.5) }

// Quantile returns the q-quantile by linear interpolation between order statistics (definition 7 of Hyndman and Fan
// 1996). q outside [0, 1] is moved to the nearer end. It is NaN for no values, and when a value or q is not finite.
func Quantile(x []float64, q float64) float64 {
	if len(x) == 0 || !finite(x) || math.IsNaN(q) {
		return math.NaN()
	}
	s := slices.Clone(x)
	slices.Sort(s)
	return quantileSorted(s, q)
}

// UnbiasedQuantile returns an estimate of the q-quantile of what x was drawn from that is too high as often as too low,
// nearly, whatever the distribution and the number of values (definition 8 of Hyndman and Fan 1996). It is NaN where
// Quantile is.
func UnbiasedQuantile(x []float64, q float64) float64 {
	n := float64(len(x))
	if n < 2 {
		return Quantile(x, q)
	}
	return Quantile(x, (n*q+(q-2)/3)/(n-1))
}

func quantileSorted(s []float64, q float64) float64 {
	h := min(max(q, 0), 1) * float64(len(s)-1)
	i := int(h)
	if i >= len(s)-1 {
		return s[len(s)-1]
	}
	f := h - float64(i)
	// Written so that two huge values of opposite sign do not overflow in their difference.
	return s[i]*(1-f) + s[i+1]*f
}

// MAD returns the median absolute deviation from the median, not scaled. It is NaN where Median is.
func MAD(x []float64) float64 {
	m := Median(x)
	if math.IsNaN(m) {
		return m
	}
	dev := make([]float64, len(x))
	for i, v := range x {
		dev[i] = math.Abs(v - m)
	}
	return Median(dev)
}

// RobustSD returns the standard deviation of the normal distribution that has the MAD of x: 1.4826 times the MAD. It is
// NaN where Median is.
func RobustSD(x []float64) float64 { return MAD(x) * 1.482602218505602 }

// Mean returns the arithmetic mean. It is NaN for no values and when a value is not finite.
func Mean(x []float64) float64 {
	if len(x) == 0 || !finite(x) {
		return math.NaN()
	}
	return mean(x)
}

// mean is Mean of any values: infinite when one is, NaN of infinities of both signs.
func mean(x []float64) float64 {
	// The running form cannot overflow where the sum could.
	var m float64
	for i, v := range x {
		k := 1 / float64(i+1)
		m = m*(1-k) + v*k
	}
	return m
}
