package report

import (
	"math"
	"strings"
)

// The terminal's width from which there are bars, and how wide these may be.
const (
	barTerminal = 120
	leastBar    = 10
	mostBar     = 30
)

// barWidth gives each candidate's column a bar if the table, so wide without them, leaves room; else 0. It sets the
// axis that all bars share.
func (t *terminal) barWidth(wide int) int {
	if t.width < barTerminal || len(t.Columns) == 0 {
		return 0
	}
	bar := min(mostBar, (t.width-wide)/len(t.Columns)-1)
	if bar < leastBar {
		return 0
	}
	var intervals [][2]float64
	for _, r := range t.tableRows(false) {
		for _, s := range r.entries {
			if s.center > 0 && !math.IsInf(s.center, 0) {
				intervals = append(intervals, [2]float64{s.center, s.center})
			}
			if s.low > 0 && !math.IsInf(s.high, 0) {
				intervals = append(intervals, [2]float64{s.low, s.high})
			}
		}
	}
	if len(intervals) == 0 {
		return 0
	}
	axis := newLogAxis(intervals, 0, float64(bar-1))
	t.axis = &axis
	return bar
}

// strokes are the characters of a bar.
type strokes struct{ line, center, one, crossed string }

func (t *terminal) drawing() strokes {
	if t.Text.ASCII {
		return strokes{"-", "o", "|", "+"}
	}
	return strokes{"─", "●", "│", "┼"}
}

// bar draws an interval and its centre on the shared axis, with a stroke where nothing costs more or less.
func (t *terminal) bar(s tableEntry, n int) string {
	d := t.drawing()
	cells := make([]string, n)
	for i := range cells {
		cells[i] = " "
	}
	at := func(v float64) int { return int(math.Round(t.axis.at(v))) }
	one := at(1)
	cells[one] = d.one
	if s.low > 0 && !math.IsInf(s.high, 0) {
		for i := at(s.low); i <= at(s.high); i++ {
			cells[i] = d.line
		}
		if cells[one] == d.line {
			cells[one] = d.crossed
		}
	}
	if s.center > 0 {
		cells[at(s.center)] = d.center
	}
	return strings.Join(cells, "")
}
