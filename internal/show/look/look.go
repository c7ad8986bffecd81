// Package look has the shared parts of the pages that are written as text: colours and type, and an axis on which
// ratios are drawn. It is opinionated about colour: each has a sign or a figure beside it, and a dark form.
package look

import (
	_ "embed"
	"math"
	"strconv"
)

// Base is the style sheet that all pages begin with.
//
//go:embed base.css
var Base string

// Axis places ratios on a logarithmic line of a drawing.
type Axis struct {
	low, high float64 // logarithms
	from, to  float64 // of the drawing
}

// Bounds of a drawn ratio: one beyond stands at the end.
const leastRatio, mostRatio = 1e-6, 1e6

func clamp(v float64) float64 { return math.Log(min(max(v, leastRatio), mostRatio)) }

// NewAxis spans the values that are above 0, and one, with some room on both sides. from and to are its ends in the
// drawing.
func NewAxis(values []float64, from, to float64) Axis {
	a := Axis{from: from, to: to}
	for _, v := range values {
		if v > 0 {
			a.low, a.high = min(a.low, clamp(v)), max(a.high, clamp(v))
		}
	}
	room := max(0.05*(a.high-a.low), 0.01)
	a.low, a.high = a.low-room, a.high+room
	return a
}

// Place is where a ratio stands in the drawing.
func (a *Axis) Place(v float64) float64 {
	return a.from + (a.to-a.from)*(clamp(v)-a.low)/(a.high-a.low)
}

// At is Place as a coordinate's text.
func (a *Axis) At(v float64) string { return Number(a.Place(v)) }

// Number writes a coordinate with one decimal.
func Number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// Plot is a ratio with its interval on an axis of a table.
type Plot struct{ Class, One, Low, At, High string }

// PlotOf draws a ratio; nil where there is none, and without an interval where that has no ends.
func (a *Axis) PlotOf(class string, low, at, high float64) *Plot {
	if !(at > 0) {
		return nil
	}
	p := &Plot{Class: class, One: a.At(1), At: a.At(at)}
	if low > 0 && high >= low {
		p.Low, p.High = a.At(low), a.At(high)
	}
	return p
}

// The drawing of a table's plot, in the units of its view box.
const PlotFrom, PlotTo = 4, 156
