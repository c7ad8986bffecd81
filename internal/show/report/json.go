package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"tare/internal/judge/costper"
	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/stats"
)

// JSON writes the result as docs/report.schema.json describes it. Arrays are never null. A figure that does not exist
// is 0: ratio, low and high of a cell without an interval (its level is 0 then too), a centre that was not measured.
// NaN and infinity, which JSON does not have, cannot occur.
func JSON(w io.Writer, m *Model) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(jsonReport{plainResult(m.Result), m.Flames, m.Normal, m.Worth}); err != nil {
		return fmt.Errorf("write JSON report: %w", err)
	}
	return nil
}

// jsonReport is a result, and the costs restated and the value of a saving where they were asked for.
type jsonReport struct {
	*verdict.Result
	Flames []record.Flame   `json:"flames,omitempty"`
	Normal *costper.Table   `json:"normal,omitempty"`
	Worth  *costper.Answers `json:"worth,omitempty"`
}

// plainResult returns a copy without nil arrays and without figures that are not finite.
func plainResult(r *verdict.Result) *verdict.Result {
	c := *r
	c.Targets = append([]verdict.Target{}, r.Targets...)
	for i := range c.Targets {
		t := &c.Targets[i]
		t.Warnings = append([]record.Warning{}, t.Warnings...)
		t.Disks = drawable(t.Disks)
		finite(&t.OpenS, &t.ClockOff, &t.Inside.MHz, &t.Outside.MHz)
	}
	c.Cells = append([]verdict.Cell{}, r.Cells...)
	for i := range c.Cells {
		x := &c.Cells[i]
		x.Warnings = append([]record.Warning{}, x.Warnings...)
		x.Nested = stats.Nested{} // no report has it
		finite(&x.Ratio.Center, &x.Low, &x.High, &x.Level, &x.P, &x.PHolm, &x.Q, &x.Margin, &x.NullSpread, &x.Center,
			&x.BaselineCenter)
	}
	c.Families = append([]verdict.Summary{}, r.Families...)
	for i := range c.Families {
		f := &c.Families[i]
		finite(&f.Ratio, &f.Low, &f.High)
	}
	c.Findings = append([]verdict.Finding{}, r.Findings...)
	c.Costs = append([]verdict.Cost(nil), r.Costs...) // nil where there are none: the field is then left out
	for i := range c.Costs {
		x := &c.Costs[i]
		finite(&x.PerCallNS, &x.PerByteNS, &x.PerQuantumNS, &x.Error)
		x.Points = append([]verdict.Point{}, x.Points...)
		for j := range x.Points {
			finite(&x.Points[j].NS)
		}
	}
	c.Neighbours = append([]verdict.Neighbour(nil), r.Neighbours...) // as costs
	for i := range c.Neighbours {
		x := &c.Neighbours[i]
		finite(&x.Ratio, &x.Low, &x.High, &x.Level, &x.Alone, &x.Beside, &x.Covered)
	}
	c.Density = append([]verdict.Density(nil), r.Density...) // as costs
	for i := range c.Density {
		d := &c.Density[i]
		finite(&d.Floor)
		d.Steps = append([]verdict.DensityStep{}, d.Steps...)
		for j := range d.Steps {
			x := &d.Steps[j]
			finite(&x.Share, &x.Low, &x.High, &x.Level, &x.Throughput, &x.Slowest, &x.Tail, &x.TailRatio, &x.TailLow,
				&x.TailHigh, &x.Covered)
		}
	}
	finite(&c.Run.Seconds, &c.Run.Alpha, &c.Run.LookAlpha)
	return &c
}

// mostDisks bounds the pictures of one target.
const mostDisks = 16

// drawable returns the pictures that can be drawn. Of one that cannot, because its bundle was edited, only the reason
// stays.
func drawable(list []record.DiskMap) []record.DiskMap {
	var out []record.DiskMap
	for _, d := range list[:min(len(list), mostDisks)] {
		if err := d.Check(); err != nil {
			d = record.DiskMap{Name: d.Name, State: d.State, Format: d.Format, Text: err.Error()}
		}
		out = append(out, d)
	}
	return out
}

func finite(list ...*float64) {
	for _, v := range list {
		if math.IsNaN(*v) || math.IsInf(*v, 0) {
			*v = 0
		}
	}
}
