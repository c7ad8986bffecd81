package verdict

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tare/internal/record"
	"tare/internal/sys/setdiff"
	"tare/internal/unit"
)

// mostDifferences bounds the executions that are named because their results differ.
const mostDifferences = 10

// Difference is an execution that returned something else in the candidate than in the baseline. A side is nil if it
// had no such execution.
type Difference struct {
	Number    uint64    `json:"number"` // of the execution in the work, such as the statement's in the log, from 0
	Group     string    `json:"group"`  // ID of its group
	Candidate *Returned `json:"candidate,omitempty"`
	Base      *Returned `json:"base,omitempty"`
	// At is the offset, in bytes of the compared text, at which both sides begin to differ.
	At int `json:"at,omitempty"`
}

// Returned is the result of an execution.
type Returned struct {
	Rows    uint32 `json:"rows"`              // sent or changed
	Sum     string `json:"sum"`               // checksum of the rows, or of the error's code
	Refused bool   `json:"refused,omitempty"` // there was an error, and no rows
	Status  uint32 `json:"status,omitempty"`  // of a response, which has no rows
	// Text is the part of the result around the first byte that differs, without parts that are not compared; "" if it
	// was not shown.
	Text string `json:"text,omitempty"`
}

// shownKey names an execution in a target.
type shownKey struct {
	workload, target string
	number           uint64
}

// excerpts adds what came back from executions, where trials have shown it of both sides.
func (x *index) excerpts(gs *Grouped) {
	for i := range gs.Differences {
		d := &gs.Differences[i]
		a, ok := x.shown[shownKey{gs.Workload, gs.Target, d.Number}]
		b, too := x.shown[shownKey{gs.Workload, gs.Baseline, d.Number}]
		if ok && too && a != b && d.Candidate != nil && d.Base != nil {
			d.Candidate.Text, d.Base.Text, d.At = excerpts(a, b)
		}
	}
}

// How much of a text is shown: what comes before the first byte that differs, on its line, and what comes from it on.
const (
	shownBefore = 40
	shownAfter  = 160
)

// excerpts are the parts of two texts around the first byte in which they differ, and where that is.
func excerpts(a, b string) (from, to string, at int) {
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	for at > 0 && (at < len(a) && !utf8.RuneStart(a[at]) || at < len(b) && !utf8.RuneStart(b[at])) {
		at--
	}
	begin := max(0, at-shownBefore)
	begin = max(begin, strings.LastIndexByte(a[:at], '\n')+1)
	for begin < at && !utf8.RuneStart(a[begin]) {
		begin++
	}
	return excerpt(a, begin, at), excerpt(b, begin, at), at
}

func excerpt(text string, begin, at int) string {
	end := min(len(text), at+shownAfter)
	s := strings.ToValidUTF8(text[begin:end], "")
	if begin > 0 {
		s = "…" + s
	}
	if end < len(text) {
		return s + "…"
	}
	return s + " (end)"
}

// differing finds executions that returned something else, in the first block in which any can be found. all tells
// whether these are all of that block.
func differing(c *cellBuilder, blocks []blockKey) (found []Difference, all bool) {
	for _, k := range blocks {
		if found, all = Differing(c.candidate.used[k], c.baseline.used[k]); len(found) > 0 {
			return found, all
		}
	}
	return nil, false
}

// Differing finds executions that returned something else in one trial than in another with the same amount of work.
// all tells whether these are all of them.
func Differing(candidate, base *record.Trial) (found []Difference, all bool) {
	if candidate.Work != base.Work {
		return nil, false
	}
	x, err := setdiff.Parse(candidate.Sketch)
	if err != nil {
		return nil, false
	}
	y, err := setdiff.Parse(base.Sketch)
	if err != nil {
		return nil, false
	}
	differ, complete := setdiff.Compare(x, y)
	for _, d := range differ[:min(len(differ), mostDifferences)] {
		e := d.A
		if e == nil {
			e = d.B
		}
		found = append(found, Difference{Number: d.Number, Group: groupOf(base, e.Kind),
			Candidate: returned(d.A, candidate), Base: returned(d.B, base)})
	}
	return found, complete && len(differ) <= mostDifferences
}

// groupOf finds the group of a trial whose ID begins with these eight digits.
func groupOf(t *record.Trial, kind uint32) string {
	prefix := fmt.Sprintf("%08X", kind)
	var ids []string
	for id := range groupsByID(t) {
		if strings.HasPrefix(strings.ToUpper(id), prefix) {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return record.OtherGroup
	}
	return slices.Min(ids)
}

func returned(e *setdiff.Element, t *record.Trial) *Returned {
	if e == nil {
		return nil
	}
	r := &Returned{Rows: e.Rows, Sum: fmt.Sprintf("%016x", e.Sum)}
	if e.Rows == record.RefusedRows {
		r.Rows, r.Refused = 0, true
	} else if t.SketchMark == record.MarkStatus {
		r.Rows, r.Status = 0, e.Rows
	}
	return r
}

// sumDigits is the number of digits of a checksum that are enough to see that two differ.
const sumDigits = 8

// String returns the result in words, with the beginning of the checksum.
func (r *Returned) String() string {
	if r == nil {
		return "not executed"
	}
	sum := r.Sum[:min(len(r.Sum), sumDigits)]
	if r.Refused {
		return "error " + sum
	}
	if r.Status > 0 {
		return fmt.Sprintf("status %d %s", r.Status, sum)
	}
	return unit.Plural(int64(r.Rows), "row") + " " + sum
}
