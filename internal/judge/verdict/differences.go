package verdict

import (
	"fmt"
	"slices"
	"strings"

	"tare/internal/record"
	"tare/internal/sys/setdiff"
)

// mostDifferences is how many executions are named that returned something else.
const mostDifferences = 10

// Difference is an execution that returned something else in the candidate than in the baseline. A side is nil if it
// had no such execution.
type Difference struct {
	Number    uint64    `json:"number"` // of the execution in the work, such as the statement's in the log, from 0
	Group     string    `json:"group"`  // ID of its group
	Candidate *Returned `json:"candidate,omitempty"`
	Base      *Returned `json:"base,omitempty"`
}

// Returned is what an execution returned.
type Returned struct {
	Rows    uint32 `json:"rows"`              // sent or changed
	Sum     string `json:"sum"`               // checksum of the rows, or of the error's code
	Refused bool   `json:"refused,omitempty"` // there was an error, and no rows
}

// differing finds executions that returned something else, in the first block in which any can be found. all tells
// whether these are all of that block.
func differing(c *cellBuilder, blocks []blockKey) (found []Difference, all bool) {
	for _, k := range blocks {
		a, b := c.candidate.used[k], c.baseline.used[k]
		if a.Work != b.Work {
			continue
		}
		x, err := setdiff.Parse(a.Sketch)
		if err != nil {
			continue
		}
		y, err := setdiff.Parse(b.Sketch)
		if err != nil {
			continue
		}
		differ, complete := setdiff.Compare(x, y)
		if len(differ) == 0 {
			continue
		}
		for _, d := range differ[:min(len(differ), mostDifferences)] {
			e := d.A
			if e == nil {
				e = d.B
			}
			found = append(found, Difference{Number: d.Number, Group: groupOf(c.baseline.groups[k], e.Kind),
				Candidate: returned(d.A), Base: returned(d.B)})
		}
		return found, complete && len(differ) <= mostDifferences
	}
	return nil, false
}

// groupOf finds the group whose ID begins with these eight digits.
func groupOf(groups map[string]*record.Group, kind uint32) string {
	prefix := fmt.Sprintf("%08X", kind)
	var ids []string
	for id := range groups {
		if strings.HasPrefix(strings.ToUpper(id), prefix) {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return record.OtherGroup
	}
	return slices.Min(ids)
}

func returned(e *setdiff.Element) *Returned {
	if e == nil {
		return nil
	}
	r := &Returned{Rows: e.Rows, Sum: fmt.Sprintf("%016x", e.Sum)}
	if e.Rows == record.RefusedRows {
		r.Rows, r.Refused = 0, true
	}
	return r
}
