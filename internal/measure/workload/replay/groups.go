package replay

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/trace"
)

// other is the group of all fingerprints that have none of their own.
const other = record.MaxGroups

// grouping divides the statements of a trial by their fingerprints.
type grouping struct {
	of      []uint16 // by fingerprint: its group, or other
	members []int    // by group: its fingerprint
	rest    bool     // there are statements of other
}

// byExecutions sorts fingerprints: the most executions first, of as many the one with the lowest ID.
type byExecutions struct {
	members    []int
	executions []int64
	kinds      []trace.Fingerprint
}

func (s *byExecutions) Len() int      { return len(s.members) }
func (s *byExecutions) Swap(i, j int) { s.members[i], s.members[j] = s.members[j], s.members[i] }
func (s *byExecutions) Less(i, j int) bool {
	a, b := s.members[i], s.members[j]
	return s.executions[a] > s.executions[b] || s.executions[a] == s.executions[b] && s.kinds[a].ID < s.kinds[b].ID
}

// group gives the fingerprints with the most executions a group each; executions has their number by fingerprint.
func group(kinds []trace.Fingerprint, executions []int64) *grouping {
	g := &grouping{of: make([]uint16, len(kinds))}
	for i, n := range executions {
		g.of[i] = other
		switch {
		case n == 0:
		case kinds[i].ID == 0: // it stands for many
			g.rest = true
		default:
			g.members = append(g.members, i)
		}
	}
	sort.Sort(&byExecutions{g.members, executions, kinds}) // slices.SortFunc would make the agent larger
	if len(g.members) > record.MaxGroups {
		g.members, g.rest = g.members[:record.MaxGroups], true
	}
	for i, f := range g.members {
		g.of[f] = uint16(i)
	}
	return g
}

// tally counts the statements of a group. Each lane has its own.
type tally struct {
	count, errors int64
	rows          uint64 // sent or changed
	ns            int64  // of all of them
	compared      int64  // statements whose results are in the sums
	comparedRows  uint64
	// Checksums of the results of all compared statements, each as one row: its number in the log, its rows and their
	// sum, which does not depend on their order in unordered, and does in ordered.
	unordered, ordered uint64
}

// statement adds the result of a statement. If it is volatile, the result cannot be compared.
func (t *tally) statement(number uint64, volatile bool, a *Result) {
	rows := a.Rows
	t.rows += rows
	if volatile {
		return
	}
	t.compared++
	t.comparedRows += rows
	t.unordered += evidence(number, rows, a.Unordered)
	t.ordered += evidence(number, rows, a.Ordered)
}

// refusal adds a statement that the server refused with an error of this code, and returns the code's sum.
func (t *tally) refusal(number uint64, volatile bool, code string) uint64 {
	var s sql.Sum
	s.Value([]byte(code))
	s.EndRow()
	if !volatile {
		t.compared++
		t.unordered += evidence(number, math.MaxUint64, s.Unordered())
		t.ordered += evidence(number, math.MaxUint64, s.Unordered())
	}
	return s.Unordered()
}

// evidence makes a number of what a statement returned. These are added up, because lanes finish statements in any
// order; with the statement's number in it, two statements that exchange their results change the total.
func evidence(number, rows, sum uint64) uint64 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], number)
	binary.LittleEndian.PutUint64(b[8:], rows)
	binary.LittleEndian.PutUint64(b[16:], sum)
	var s sql.Sum
	s.Value(b[:])
	s.EndRow()
	return s.Unordered()
}

// add adds what another lane has counted.
func (t *tally) add(o *tally) {
	t.count += o.count
	t.errors += o.errors
	t.rows += o.rows
	t.ns += o.ns
	t.compared += o.compared
	t.comparedRows += o.comparedRows
	t.unordered += o.unordered
	t.ordered += o.ordered
}

// check is the evidence of equal work; "" if no result can be compared.
func (t *tally) check(o *Options) string {
	if t.compared == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s of %d %ss, sum %016x", t.comparedRows, o.Rows, t.compared, o.Item, t.unordered)
}

// groups returns the figures of all groups.
func (g *grouping) groups(kinds []trace.Fingerprint, tallies []tally, l *latencies, texts bool,
	o *Options) []record.Group {
	var all []record.Group
	for i, f := range g.members {
		r := tallies[i].group(fmt.Sprintf("%016X", kinds[f].ID), o)
		r.P50, r.P99 = l.quantile(i, 0.5), l.quantile(i, 0.99)
		if texts {
			r.Text = kinds[f].Text
		}
		all = append(all, r)
	}
	if g.rest {
		all = append(all, tallies[other].group(record.OtherGroup, o))
	}
	return all
}

func (t *tally) group(id string, o *Options) record.Group {
	return record.Group{ID: id, Count: t.count, Errors: t.errors, Rows: int64(t.rows), Seconds: seconds(t.ns),
		Check: t.check(o)}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// maxExact is the number of statements of a trial up to which each latency is kept: 32 MiB of them.
const maxExact = 4 << 20

// latencies are the latencies of all statements of a trial. Up to maxExact of them are kept one by one, with no
// rounding and without anything that two lanes write to. More are counted in histograms, whose quantiles are rounded up
// by less than 1/128.
type latencies struct {
	exact  []int64            // by statement: its group and the latency in ns
	shared []histogram.Shared // by group
	// The next fields are made when all latencies are there.
	from   []int            // by group: where its first one is in exact, which is sorted then
	sorted []int64          // exact, without the groups
	all    histogram.Shared // of all groups
}

// nsBits is the size of a latency in latencies.exact: 200 days. A group has the nine bits above.
const nsBits = 54

func newLatencies(statements int64) *latencies {
	if statements > maxExact {
		return &latencies{shared: make([]histogram.Shared, other+1)}
	}
	l := &latencies{exact: make([]int64, statements)}
	for i := range l.exact {
		l.exact[i] = 1 // makes the page resident
	}
	return l
}

// put keeps the latency of a statement. Each statement has a place of its own.
func (l *latencies) put(place int64, group uint16, ns int64) {
	if l.exact != nil {
		l.exact[place] = int64(group)<<nsBits | ns
		return
	}
	l.shared[group].Record(ns)
}

// sort prepares for quantiles, when all latencies are there.
func (l *latencies) sort() {
	for i := range l.shared {
		l.all.Merge(&l.shared[i])
	}
	slices.Sort(l.exact)
	l.from, l.sorted = make([]int, other+2), slices.Clone(l.exact)
	for i := range l.from {
		l.from[i], _ = slices.BinarySearch(l.exact, int64(i)<<nsBits)
	}
	for i := range l.sorted {
		l.sorted[i] &= 1<<nsBits - 1
	}
	slices.Sort(l.sorted)
}

// quantile returns a quantile of a group's latencies in seconds.
func (l *latencies) quantile(group int, q float64) float64 {
	if l.exact == nil {
		return seconds(l.shared[group].Quantile(q))
	}
	return nearest(l.exact[l.from[group]:l.from[group+1]], q)
}

// overall returns a quantile of all latencies in seconds.
func (l *latencies) overall(q float64) float64 {
	if l.exact == nil {
		return seconds(l.all.Quantile(q))
	}
	return nearest(l.sorted, q)
}

// histogram is that of a group's latencies in ns, or of all if it is below 0.
func (l *latencies) histogram(group int) *histogram.Histogram {
	exact := l.sorted
	switch {
	case l.exact == nil && group < 0:
		return l.all.Histogram()
	case l.exact == nil:
		return l.shared[group].Histogram()
	case group >= 0:
		exact = l.exact[l.from[group]:l.from[group+1]]
	}
	h := new(histogram.Histogram)
	for _, v := range exact {
		h.Record(int64(v & (1<<nsBits - 1)))
	}
	return h
}

// nearest returns the nearest-rank quantile of sorted latencies in seconds, 0 if there are none.
func nearest(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return seconds(sorted[histogram.Rank(q, uint64(len(sorted)))-1] & (1<<nsBits - 1))
}
