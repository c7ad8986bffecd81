package report

import (
	"fmt"
	"math"

	"tare/internal/record"
)

// A chart is laid out once, in units of which one is a CSS pixel, and drawn by a pen: one writes SVG, one fills pixels.

// colour is 0xRRGGBB.
type colour uint32

// The verdicts' colours are those of Okabe and Ito (2008), which readers with any colour vision tell apart; the shapes
// differ as well.
const (
	ink    colour = 0x1a1a1a
	muted  colour = 0x6b6b6b
	faint  colour = 0xdedede
	band   colour = 0xf1f1ee
	paper  colour = 0xffffff
	orange colour = 0xd55e00 // vermillion
	green  colour = 0x009e73
	blue   colour = 0x0072b2
	sky    colour = 0x56b4e9
	grey   colour = 0x8a8a8a
)

type point struct{ x, y float64 }

type anchor int

const (
	atStart anchor = iota
	atMiddle
	atEnd
)

// style of a text.
type style struct {
	size   float64
	bold   bool
	colour colour
	anchor anchor
}

// pen draws. Text stands with its baseline at y.
type pen interface {
	fill(outline []point, c colour)
	line(from, to point, thick float64, c colour)
	text(at point, s string, st style)
}

// shape returns the outline of a marker of radius r: one for each sign, so that colour is never needed to tell.
func shape(s sign, at point, r float64) []point {
	switch s {
	case costsMore:
		return polygon(at, r*1.2, 3, -math.Pi/2)
	case costsLess:
		return polygon(at, r*1.2, 3, math.Pi/2)
	case same:
		return []point{{at.x - r*.9, at.y - r*.9}, {at.x + r*.9, at.y - r*.9}, {at.x + r*.9, at.y + r*.9},
			{at.x - r*.9, at.y + r*.9}}
	case measured, unconfirmed:
		return polygon(at, r*1.2, 4, 0)
	}
	return polygon(at, r, 24, 0)
}

func polygon(at point, r float64, n int, turn float64) []point {
	p := make([]point, n)
	for i := range p {
		a := turn + 2*math.Pi*float64(i)/float64(n)
		p[i] = point{at.x + r*math.Cos(a), at.y + r*math.Sin(a)}
	}
	return p
}

func signColour(s sign) colour {
	switch s {
	case costsMore:
		return orange
	case costsLess:
		return green
	case same:
		return blue
	case measured, unconfirmed:
		return sky
	}
	return grey
}

// logAxis maps ratios to the horizontal.
type logAxis struct{ low, high, left, right float64 }

// newLogAxis covers all intervals and 1, with some room on both sides. At least a factor of 1.2 is shown, or noise
// would look like much.
func newLogAxis(intervals [][2]float64, left, right float64) logAxis {
	low, high := 1.0, 1.0
	for _, v := range intervals {
		low, high = min(low, v[0]), max(high, v[1])
	}
	l, h := math.Log(low), math.Log(high)
	if short := math.Log(1.2) - (h - l); short > 0 {
		l, h = l-short/2, h+short/2
	}
	room := (h - l) * 0.04
	return logAxis{math.Exp(l - room), math.Exp(h + room), left, right}
}

func (a logAxis) at(v float64) float64 {
	f := math.Log(v/a.low) / math.Log(a.high/a.low)
	return a.left + min(1, max(0, f))*(a.right-a.left)
}

// ticks are round ratios inside the axis, at most most of them. Where the axis is short they stand at equal steps that
// have 1 among them, else at the same places of each power of ten, as many as fit.
func (a logAxis) ticks(most int) []float64 {
	if a.high/a.low < 4 {
		for _, step := range []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5} {
			from, to := math.Ceil(a.low/step-1e-9), math.Floor(a.high/step+1e-9)
			if n := int(to-from) + 1; n <= most {
				t := make([]float64, max(0, n))
				for i := range t {
					t[i] = (from + float64(i)) * step
				}
				return t
			}
		}
	}
	from, to := int(math.Floor(math.Log10(a.low))), int(math.Ceil(math.Log10(a.high)))
	for _, steps := range [][]float64{{1, 1.5, 2, 3, 5, 7}, {1, 2, 5}, {1}} {
		var t []float64
		for e := from; e <= to; e++ {
			for _, s := range steps {
				if v := s * math.Pow10(e); v >= a.low && v <= a.high {
					t = append(t, v)
				}
			}
		}
		if len(t) <= most {
			return t
		}
	}
	var t []float64
	every := (to-from)/most + 1
	for e := from; e <= to; e++ {
		if v := math.Pow10(e); e%every == 0 && v >= a.low && v <= a.high {
			t = append(t, v)
		}
	}
	return t
}

// tickText writes a round ratio without digits it does not need.
func tickText(v float64) string {
	if v >= 1e5 || v < 1e-4 {
		return fmt.Sprintf("%.0e", v)
	}
	return fmt.Sprintf("%.4g", v)
}

// verdictWord stands in the place of a figure that there is none of.
func verdictWord(s sign) string {
	switch s {
	case failed:
		return "failed"
	case withheld:
		return "withheld"
	}
	return string(record.Inconclusive)
}
