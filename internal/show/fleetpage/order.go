package fleetpage

import (
	"fmt"
	"math"
	"strings"

	"tare/internal/judge/fleet"
	"tare/internal/show/look"
	"tare/internal/sys/proc"
)

// order is a cell with its hosts in the order of their cost, drawn and, where they are many, listed in part.
type order struct {
	ID, What, Sentence string
	Label              string // of the drawing, for who does not see it
	Spans, Dots        string // of hosts that do not lie apart
	OddSpans           string // of those that do
	Odd                []oddDot
	Mean               string // height of the mean
	NextTop, NextHigh  string // the band of a further host: its upper edge and its height
	Ticks              []tick
	Last               string // how many hosts there are
	Rows               []orderRow
}

type oddDot struct{ X, Y, Name, Link, Text string }

type tick struct{ At, Text string }

// orderRow is a host of the list. One without a name stands for those that are not listed.
type orderRow struct {
	At                               int
	Name, Link, Value, Interval, Rel string
	Class, Sign, Word                string
	Plot                             *look.Plot
}

// The drawing, in the units of its view box.
const (
	chartWidth, chartHeight                      = 1000.0, 190.0
	chartLeft, chartRight, chartTop, chartBottom = 64.0, 8.0, 12.0, 22.0
	mostNamed                                    = 12 // hosts that lie apart and are named in the drawing
	nameWidth                                    = 90.0
	mostListed, mostLastListed                   = 10, 2
)

// order draws a cell; nil where fewer than two hosts have a value.
func (p *Pages) order(c *fleet.Cell) *order {
	n := len(c.Order)
	if n < 2 {
		return nil
	}
	o := &order{ID: fmt.Sprintf("order-%d", p.indexOf(c)+1), What: what(&c.Key), Sentence: proc.Line(c.Sentence),
		Label: fmt.Sprintf("%s of %d hosts in the order of their cost, each with its interval. %s", what(&c.Key), n,
			proc.Line(c.Sentence)),
		Last: fmt.Sprint(n)}
	a, spans := axisOf(c)
	step := (chartWidth - chartLeft - chartRight) / float64(n)
	var spanPath, dotPath, oddPath strings.Builder
	named, last := 0, -nameWidth
	for i := range c.Order {
		x := &c.Order[i]
		at := look.Number(chartLeft + (float64(i)+0.5)*step)
		y := a.At(x.Against)
		low, high := spans[i][0], spans[i][1]
		path := &spanPath
		if x.Apart {
			path = &oddPath
		}
		if low > 0 {
			fmt.Fprintf(path, "M%s %sV%s", at, a.At(low), a.At(high))
		}
		if !x.Apart {
			fmt.Fprintf(&dotPath, "M%s %sh0", at, y)
			continue
		}
		d := oddDot{X: at, Y: y, Link: p.link(x.Host), Text: fmt.Sprintf("%s: %s, %s", proc.Line(x.Host),
			value(c, x.Value), signed(x.Against))}
		// A name that would lie on the one before it is left out; the list and the map have it.
		if here := chartLeft + float64(i)*step; named < mostNamed && here-last >= nameWidth {
			d.Name, last, named = proc.Line(x.Host), here, named+1
		}
		o.Odd = append(o.Odd, d)
	}
	o.Spans, o.Dots, o.OddSpans = spanPath.String(), dotPath.String(), oddPath.String()
	o.Mean = a.At(1)
	if c.NextLow > 0 && c.Center > 0 {
		low, high := relative(c, &fleet.Place{Value: c.Center, Low: c.NextLow, High: c.NextHigh, Against: 1})
		top, bottom := a.Place(high), a.Place(low)
		o.NextTop, o.NextHigh = look.Number(top), look.Number(max(bottom-top, 0))
	}
	o.ticks(c, &a)
	p.list(c, o, spans)
	return o
}

func (p *Pages) indexOf(c *fleet.Cell) int {
	for i, x := range p.cells {
		if x == c {
			return i
		}
	}
	return 0
}

// axisOf spans the hosts' costs. An interval is drawn to four times the farthest cost at most, so that one host without
// a clear figure does not press all others together.
func axisOf(c *fleet.Cell) (a look.Axis, spans [][2]float64) {
	farthest := 0.0
	for i := range c.Order {
		if v := c.Order[i].Against; v > 0 {
			farthest = max(farthest, math.Abs(math.Log(v)))
		}
	}
	most := math.Exp(farthest) * 4
	var values []float64
	for i := range c.Order {
		low, high := relative(c, &c.Order[i])
		if low > 0 {
			low, high = max(low, 1/most), min(high, most)
		}
		spans = append(spans, [2]float64{low, high})
		values = append(values, c.Order[i].Against, low, high)
	}
	return look.NewAxis(values, chartHeight-chartBottom, chartTop), spans
}

// ticks are the mean, and the highest and the lowest cost. Figures are the unit's.
func (o *order) ticks(c *fleet.Cell, a *look.Axis) {
	first, last := &c.Order[0], &c.Order[len(c.Order)-1]
	mean := a.Place(1)
	o.Ticks = append(o.Ticks, tick{look.Number(mean), value(c, c.Center)})
	for _, x := range []*fleet.Place{first, last} {
		if at := a.Place(x.Against); math.Abs(at-mean) >= 13 {
			o.Ticks = append(o.Ticks, tick{look.Number(at), value(c, x.Value)})
		}
	}
}

// list is the list below the drawing: the first hosts and the last ones, and in between those that lie apart.
func (p *Pages) list(c *fleet.Cell, o *order, spans [][2]float64) {
	var values []float64
	listed := func(i int) bool {
		return i < mostListed || i >= len(c.Order)-mostLastListed || c.Order[i].Apart && i < 4*mostListed
	}
	for i := range c.Order {
		if listed(i) {
			values = append(values, c.Order[i].Against, spans[i][0], spans[i][1])
		}
	}
	line := look.NewAxis(values, look.PlotFrom, look.PlotTo)
	gap := false
	for i := range c.Order {
		if !listed(i) {
			if !gap {
				o.Rows = append(o.Rows, orderRow{})
			}
			gap = true
			continue
		}
		x := &c.Order[i]
		row := orderRow{At: i + 1, Name: proc.Line(x.Host), Link: p.link(x.Host), Value: value(c, x.Value),
			Interval: interval(c, x.Low, x.High), Rel: signed(x.Against), Word: string(x.Verdict)}
		row.Class, row.Sign = class(x)
		row.Plot = line.PlotOf(row.Class, spans[i][0], x.Against, spans[i][1])
		o.Rows = append(o.Rows, row)
	}
}
