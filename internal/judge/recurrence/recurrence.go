// Package recurrence tells whether a difference was seen in earlier runs of the same pull request.
//
// It is opinionated about evidence: the interval of one run speaks of one runner and one boot, and what several runs
// show one after the other is no accident of one of them. Runs on another processor model are another question, so
// they do not count.
//
// The history is a text file with a line of JSON for each run. CI systems keep it as a cache or an artefact, which
// anybody who opens a pull request may have written, so nothing in it is trusted: it is bounded, and lines that are no
// run are passed over.
package recurrence

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// Schema is the version of a line. Lines of another one are passed over.
const Schema = 1

// Bounds of a history.
const (
	MaxFile  = 8 << 20 // bytes
	MaxRuns  = 500     // that are kept
	maxCells = 1000    // of a run
	maxText  = 200     // bytes of a name
)

// Run is the record of one run in a history.
type Run struct {
	Schema    int       `json:"schema"`
	ID        string    `json:"run"`
	Time      time.Time `json:"time"`
	Change    string    `json:"change"` // what was asked for: "github:owner/name#7"
	Name      string    `json:"name"`   // of the comparison; a pull request may have several
	Base      string    `json:"base"`   // commits, in full; "" if not known
	Head      string    `json:"head"`
	Processor string    `json:"processor"` // its model; "" if not known
	Cells     []Cell    `json:"cells"`
}

// Cell is the verdict on one figure.
type Cell struct {
	Target   string         `json:"target"`
	Workload string         `json:"workload"`
	Metric   string         `json:"metric"`
	Verdict  record.Verdict `json:"verdict"`
	Ratio    float64        `json:"ratio"` // of cost, to the base; 0: none
	Low      float64        `json:"low"`
	High     float64        `json:"high"`
}

// CellsOf are the cells of a result in its order, the primary ones first, at most as many as a run keeps.
func CellsOf(r *verdict.Result) []Cell {
	var out []Cell
	for _, primary := range []bool{true, false} {
		for i := range r.Cells {
			c := &r.Cells[i]
			if c.Target != c.Baseline && c.Primary == primary && len(out) < maxCells {
				out = append(out, cellOf(c))
			}
		}
	}
	return out
}

func cellOf(c *verdict.Cell) Cell {
	return Cell{Target: cut(c.Target), Workload: cut(c.Workload), Metric: cut(c.Metric), Verdict: c.Verdict,
		Ratio: finite(c.Ratio.Center), Low: finite(c.Low), High: finite(c.High)}
}

// cut makes a text as short as Read takes it.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "")
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}

// finite makes 0 of what JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// Read reads a history, the oldest run first. damaged counts the lines that are no run of this schema.
func Read(r io.Reader) (runs []Run, damaged int, err error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(text) > MaxFile {
		return nil, 0, fmt.Errorf("it is longer than %d MiB, the most that is read", MaxFile>>20)
	}
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, MaxFile+1)
	for s.Scan() {
		line := bytes.TrimSpace(s.Bytes())
		if len(line) == 0 {
			continue
		}
		var x Run
		if json.Unmarshal(line, &x) != nil || !x.valid() {
			damaged++
			continue
		}
		runs = Add(runs, x)
	}
	return runs, damaged, s.Err()
}

func (x *Run) valid() bool {
	for _, text := range []string{x.ID, x.Change, x.Name, x.Base, x.Head, x.Processor} {
		if len(text) > maxText {
			return false
		}
	}
	return x.Schema == Schema && x.ID != "" && len(x.Cells) <= maxCells &&
		!slices.ContainsFunc(x.Cells, func(c Cell) bool {
			return len(c.Target) > maxText || len(c.Workload) > maxText || len(c.Metric) > maxText || c.Ratio < 0
		})
}

// Add puts a run at the end. One with its id is replaced, and of too many the oldest are dropped.
func Add(runs []Run, x Run) []Run {
	x.Schema = Schema
	for _, text := range []*string{&x.Change, &x.Name, &x.Base, &x.Head, &x.Processor} {
		*text = cut(*text)
	}
	runs = slices.DeleteFunc(runs, func(r Run) bool { return r.ID == x.ID })
	runs = append(runs, x)
	return runs[max(0, len(runs)-MaxRuns):]
}

// Write writes a history so that Read takes it: of one that is too long, the oldest runs are left out.
func Write(w io.Writer, runs []Run) error {
	var lines [][]byte
	size := 0
	for _, r := range slices.Backward(runs) {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("write run %s: %w", r.ID, err)
		}
		if size += len(line) + 1; size > MaxFile {
			break
		}
		lines = append(lines, append(line, '\n'))
	}
	for _, line := range slices.Backward(lines) {
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// Seen says in how many of the last runs a figure differed in one direction.
type Seen struct {
	Slower  bool // the direction: it costs more
	Now     bool // the run itself shows it
	Times   int  // runs that show it, of Of, the run itself among both
	Of      int
	Commits int // different heads among Times
}

// Judge tells for each cell of a run how often its difference was seen in the last runs, that run included, and how
// many other runs of the same question were on another processor and did not count. A cell that did not differ, now or
// before, has Times 0. last is at least 1.
func Judge(runs []Run, x Run, last int) (seen []Seen, elsewhere int) {
	var before []Run // the newest first
	for _, r := range slices.Backward(runs) {
		switch {
		case r.ID == x.ID || r.Change != cut(x.Change) || r.Name != cut(x.Name):
		case r.Processor != cut(x.Processor) || r.Processor == "":
			elsewhere++
		case len(before) < last-1:
			before = append(before, r)
		}
	}
	for i := range x.Cells {
		seen = append(seen, judge(before, &x, &x.Cells[i]))
	}
	return seen, elsewhere
}

func judge(before []Run, x *Run, c *Cell) Seen {
	s := Seen{Of: 1, Now: c.Verdict == record.Different, Slower: c.Ratio > 1}
	var heads []string
	count := func(head string) {
		s.Times++
		if !slices.Contains(heads, head) {
			heads = append(heads, head)
		}
		s.Commits = len(heads)
	}
	if s.Now {
		count(x.Head)
	}
	for i := range before {
		at := slices.IndexFunc(before[i].Cells, func(b Cell) bool {
			return b.Target == c.Target && b.Workload == c.Workload && b.Metric == c.Metric
		})
		if at < 0 {
			continue
		}
		s.Of++
		b := &before[i].Cells[at]
		if b.Verdict != record.Different {
			continue
		}
		if s.Times == 0 { // not now: the direction is that of the newest run that shows one
			s.Slower = b.Ratio > 1
		}
		if b.Ratio > 1 == s.Slower {
			count(before[i].Head)
		}
	}
	return s
}

// Find returns the judgement of a figure among those that Judge made for cells; Times is 0 if there is none.
func Find(cells []Cell, seen []Seen, c *verdict.Cell) Seen {
	want := cellOf(c)
	for i := range cells[:min(len(cells), len(seen))] {
		x := &cells[i]
		if x.Target == want.Target && x.Workload == want.Workload && x.Metric == want.Metric {
			return seen[i]
		}
	}
	return Seen{}
}
