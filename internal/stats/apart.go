package stats

import (
	"math"
	"slices"
)

// Apart says how far one of several units lies from the others.
type Apart struct {
	Shift float64 // its estimate minus the centre of the others
	SE    float64 // of Shift for a unit that is of their kind: what they differ by and the unit's own noise
	DF    float64 // degrees of freedom of SE
	// P is the two-sided p value of "it is of their kind, or no further off than the margin"; 1 if that cannot be told.
	P    float64
	Core bool // it is one of those by which the others are judged
}

// LeastApart is the number of units from which one can be told from the others.
const LeastApart = 5

const (
	// coreLevel is the chance at which a unit that belongs to the others is left out of their centre and spread.
	coreLevel = 0.002
	// madShare is the efficiency of the median absolute deviation: what is known of a spread by it from n values is
	// known by the standard deviation from 0.37 n.
	madShare = 0.37
	// eachAlone is the number of units up to which the others of each are pooled anew without it. Among more, one
	// unit's part in the spread is too small to matter.
	eachAlone = 300
)

// SetApart tests each unit against the others, beyond a margin on the log scale. First a core is found by the median
// and a spread from the median absolute deviation, both of which half of the units being far off would not move far: so
// units that are far off together cannot hide each other. Then each unit is held against the core without it, by the
// deleted residual of the random-effects model (Viechtbauer and Cheung, Research Synthesis Methods 1:112-125, 2010),
// whose variance is what the core's units differ by, the uncertainty of their centre and the unit's own noise; degrees
// of freedom are Satterthwaite's. The values of a kind are taken to be normal on the log scale.
func SetApart(units []Measured, margin float64) []Apart {
	out := make([]Apart, len(units))
	inCore := core(units)
	var rest []Measured
	for i, u := range units {
		out[i].P = 1
		if inCore[i] {
			rest = append(rest, u)
		}
	}
	if len(rest) < LeastApart-1 {
		return out
	}
	whole := pool(rest)
	at := 0 // of the unit in rest
	for i, u := range units {
		if !u.usable() {
			continue
		}
		others := whole
		if inCore[i] {
			at++
			if len(rest) < LeastApart {
				continue
			}
			if len(rest) <= eachAlone {
				others = pool(slices.Delete(slices.Clone(rest), at-1, at))
			}
		}
		out[i] = apart(u, others, margin)
		out[i].Core = inCore[i]
	}
	return out
}

func apart(u Measured, others Pooled, margin float64) Apart {
	spread := others.Tau*others.Tau + others.SE*others.SE
	own := u.variance()
	a := Apart{Shift: u.Center - others.Center, SE: math.Sqrt(spread + own)}
	a.DF = (spread + own) * (spread + own) / (spread*spread/others.DF + own*own/max(u.DF, 1))
	a.P = tTails((math.Abs(a.Shift)-margin)/a.SE, max(a.DF, 1))
	return a
}

// core tells which units the others are judged by.
func core(units []Measured) []bool {
	out := make([]bool, len(units))
	var centers []float64
	for _, u := range units {
		if u.usable() {
			centers = append(centers, u.Center)
		}
	}
	if len(centers) == 0 {
		return out
	}
	m := Median(centers)
	tau2 := robustBetween(units, m)
	far := tQuantile(1-coreLevel/2, max(1, madShare*float64(len(centers)-1)))
	for i, u := range units {
		out[i] = u.usable() && math.Abs(u.Center-m) <= far*math.Sqrt(tau2+u.variance())
	}
	return out
}

// normalMiddle is the median of the absolute value of a standard normal variable.
const normalMiddle = 0.6744897501960817

// robustBetween is the variance between units at which the median of their standardised distances from m is that of
// normal ones; 0 where their own noise explains it.
func robustBetween(units []Measured, m float64) float64 {
	var widest float64
	for _, u := range units {
		if u.usable() {
			widest = max(widest, math.Abs(u.Center-m))
		}
	}
	z := make([]float64, 0, len(units))
	middle := func(tau2 float64) float64 {
		z = z[:0]
		for _, u := range units {
			if u.usable() {
				z = append(z, math.Abs(u.Center-m)/math.Sqrt(tau2+u.variance()))
			}
		}
		slices.Sort(z)
		return quantileSorted(z, 0.5)
	}
	if middle(0) <= normalMiddle {
		return 0
	}
	low, high := 0.0, 4*widest*widest/(normalMiddle*normalMiddle)
	for range 60 {
		if at := (low + high) / 2; middle(at) > normalMiddle {
			low = at
		} else {
			high = at
		}
	}
	return (low + high) / 2
}
