package report

import (
	"fmt"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/unit"
)

// floorWords are the words for a step's relation to the floor.
var floorWords = map[string]string{verdict.KeepsFloor: "kept", verdict.BreaksFloor: "not kept",
	verdict.OpenFloor: "open"}

// dense writes the throughput and the memory of copies of one environment that do the same work at once.
func (t *terminal) dense(d *verdict.Density) {
	t.line("")
	t.para("", fmt.Sprintf("%s of %s in several copies at once, against one alone. The floor is %s for each.",
		clean(d.Workload), clean(d.Environment), percentText(d.Floor)))
	head := []string{"copies", "each does", "", "floor", "all together", "slowest", "", "", "memory each", "shared out"}
	var rows [][]string
	var reasons []string
	for i := range d.Steps {
		s := &d.Steps[i]
		row := make([]string, len(head))
		row[0] = fmt.Sprint(s.Copies)
		if s.Why != "" {
			reasons = append(reasons, fmt.Sprintf("%d: %s", s.Copies, clean(s.Why)))
			row[1] = strings.ReplaceAll(s.State, "-", " ")
			rows = append(rows, row)
			continue
		}
		row[1], row[3], row[4] = percentText(s.Share), floorWords[s.State], ratioText(s.Throughput)+"x"
		if s.Level > 0 {
			row[2] = "[" + percentText(s.Low) + ", " + percentText(s.High) + "]"
		}
		if s.Copies == 1 {
			row[3] = ""
		} else if s.Slowest > 0 {
			row[5] = percentText(s.Slowest)
		}
		if s.TailMetric != "" {
			head[6] = clean(s.TailMetric)
			if row[6] = unit.Format(s.Tail, s.TailUnit); s.Copies > 1 {
				row[7] = ratioText(s.TailRatio) + "x"
			}
		}
		row[8], row[9] = bytesText(s.Resident), bytesText(s.Proportional)
		rows = append(rows, row)
	}
	t.lines(laidOut(append([][]string{head}, rows...), t.width))
	t.para("", clean(d.Text))
	for _, r := range reasons {
		t.para("  ", r)
	}
}

// dropped are the columns that a narrow page does without, the first one first.
var dropped = []int{9, 7, 6, 5, 4, 8, 3}

// laidOut lays texts out to the right of each other, numbers to the right of their columns. Empty columns are left out,
// and where the width does not suffice, those that say least.
func laidOut(rows [][]string, most int) (lines []string) {
	widths := make([]int, len(rows[0]))
	filled := make([]bool, len(rows[0]))
	for i, row := range rows {
		for j, text := range row {
			widths[j] = max(widths[j], width(text))
			filled[j] = filled[j] || i > 0 && text != ""
		}
	}
	total := 0
	for j := range widths {
		if filled[j] {
			total += 2 + widths[j]
		}
	}
	for _, j := range dropped {
		if total > most && filled[j] {
			filled[j] = false
			total -= 2 + widths[j]
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for j, text := range row {
			if !filled[j] {
				continue
			}
			pad := strings.Repeat(" ", max(0, widths[j]-width(text)))
			if line.WriteString("  "); j == 2 || j == 3 {
				line.WriteString(text + pad)
			} else {
				line.WriteString(pad + text)
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}
