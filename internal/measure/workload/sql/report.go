package sql

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/sys/setdiff"
)

// result is what all lanes have counted.
type result struct {
	tallies []tally
	total   tally
	sketch  setdiff.Sketch
	errors  map[string]*mistake
	behind  [blames]int64
}

// result adds up what the lanes have counted.
func (r *replay) result() *result {
	z := &result{tallies: make([]tally, other+1), errors: map[string]*mistake{}}
	for _, l := range r.lanes {
		for i := range l.tallies {
			z.tallies[i].add(&l.tallies[i])
			z.total.add(&l.tallies[i])
		}
		z.sketch.Merge(&l.sketch)
		for code, m := range l.errors {
			if all := z.errors[code]; all != nil {
				all.count += m.count
			} else {
				z.errors[code] = &mistake{m.count, m.text}
			}
		}
		for i, ns := range l.sums {
			z.behind[i] += ns
		}
	}
	return z
}

// codes lists the errors by code.
func (z *result) codes() string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(z.errors)) {
		all = append(all, fmt.Sprintf("%s: %d", code, z.errors[code].count))
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

// mostly returns the code of most errors.
func (z *result) mostly() (code string, m *mistake) {
	for _, c := range slices.Sorted(maps.Keys(z.errors)) {
		if m == nil || z.errors[c].count > m.count {
			code, m = c, z.errors[c]
		}
	}
	return code, m
}

// Report turns what the lanes have counted into figures.
func (r *replay) Report(b *workload.Bench) error {
	z := r.result()
	if z.total.errors*2 > z.total.count {
		code, m := z.mostly()
		return failed("%d of %d statements failed, most of them with error %s: %s: is this the database that the log "+
			"is of?", z.total.errors, z.total.count, code, m.text)
	}
	p := r.pass
	p.times.sort()
	units := b.Work
	if r.whole {
		units *= int64(len(p.work.shards))
	}
	b.Report("statements_per_second", float64(p.work.upTo(units))/b.Elapsed.Seconds())
	b.Report("seconds", b.Elapsed.Seconds()/float64(b.Work))
	b.Report("latency_mean", float64(z.total.ns)/float64(z.total.count))
	b.Report("latency_p50", 1e9*p.times.overall(0.5))
	b.Report("latency_p99", 1e9*p.times.overall(0.99))
	if !r.keep {
		b.Report("connect_p50", 1e9*r.connectTime())
	}
	b.Groups = p.groups.groups(r.trace.Fingerprints(), z.tallies, p.times, b.Warmup)
	// The evidence of equal work is that of the groups, which have all statements.
	if z.total.compared > 0 {
		b.Sketch = z.sketch.Bytes()
	}
	b.Note("statements", fmt.Sprint(z.total.count))
	if r.target.Database != "" {
		b.Note("database", r.target.Database)
	}
	b.Note("errors", z.codes())
	b.Note("rows", fmt.Sprint(z.total.comparedRows))
	b.Note("sum", fmt.Sprintf("%016x", z.total.unordered))
	b.Note("ordered_sum", fmt.Sprintf("%016x", z.total.ordered))
	r.reportServer(b)
	r.reportLanes(b)
	if r.paced() {
		r.reportBehind(b, z)
	}
	return nil
}

// connectTime is the median time of a connection in seconds.
func (r *replay) connectTime() float64 {
	var all []uint64
	for i := range r.pass.work.jobs {
		if ns := r.pass.work.jobs[i].connect; ns > 0 {
			all = append(all, uint64(ns))
		}
	}
	slices.Sort(all)
	return nearest(all, 0.5)
}

// What is told of client and server.
const (
	cold        = 0.001 // share of pages that were not in the server's memory
	clientBound = 0.5   // share of the CPU time of client and server that the client has
)

// reportServer tells what client and server did.
func (r *replay) reportServer(b *workload.Bench) {
	did := r.target.did(b, r.before, r.aside, r.kept())
	b.Note("server_version", r.target.Version)
	n := float64(r.pass.work.statements)
	if r.cpu > 0 {
		b.Report("client_cpu_us_per_statement", 1e6*r.cpu.Seconds()/n)
	}
	if did.cpu > 0 {
		b.Report("server_cpu_us_per_statement", 1e6*did.cpu.Seconds()/n)
	}
	if share := did.missShare(); share > cold && !b.Warmup {
		_, missed := did.pages()
		b.Warn("sql-cold", fmt.Sprintf("%.2f %% of the pages that the server read, %d, were not in its memory",
			100*share, missed), "give the server more memory (innodb_buffer_pool_size, shared_buffers); if the data "+
			"is larger than the memory, this is the result")
	}
	if share := r.cpu.Seconds() / (r.cpu + did.cpu).Seconds(); did.cpu > 0 && share > clientBound {
		b.Warn("sql-client-bound", fmt.Sprintf("the client took %.0f %% of the CPU time", 100*share),
			"the figures are mostly those of the client: replay a log with statements that are more work")
	}
}

// longTail is the part of a trial's time from which on the end, at which some lanes have nothing left to do, is told.
const longTail = 0.1

// reportLanes tells how well the lanes shared the work.
func (r *replay) reportLanes(b *workload.Bench) {
	first, last, sum := r.lanes[0].end, int64(0), 0.0
	for _, l := range r.lanes {
		first, last, sum = min(first, l.end), max(last, l.end), sum+float64(l.end)
	}
	tail := float64(last-first) / float64(last)
	b.Note("lanes", fmt.Sprint(len(r.lanes)))
	b.Note("lane_skew", fmt.Sprintf("%.4f", 1-sum/float64(len(r.lanes))/float64(last)))
	b.Note("tail", fmt.Sprintf("%.4f", tail))
	if r.ordered {
		waited := int64(0)
		for _, l := range r.lanes {
			waited += l.waited
		}
		b.Note("turn_wait_share", fmt.Sprintf("%.4f", float64(waited)/sum))
	}
	if tail > longTail && !r.paced() {
		b.Warn("sql-skew", fmt.Sprintf("in the last %.0f %% of the time some of the %d lanes had no session left",
			100*tail, len(r.lanes)), "use longer trials, so that the end of a trial is a smaller part of "+
			"it, or fewer lanes")
	}
}

// Being behind schedule is told from these on: a part of the trial's time, and a time in seconds.
const (
	farBehind  = 0.01
	mostBehind = 0.010
)

// reportBehind tells how far the replay was behind its schedule, and why.
func (r *replay) reportBehind(b *workload.Bench, z *result) {
	p99 := max(seconds(r.pass.lags.Quantile(0.99)), 1e-9) // a figure is not zero
	b.Report("behind_p99", 1e9*p99)
	why, all := ofServer, int64(1)
	for i, ns := range z.behind {
		all += ns
		if ns > z.behind[why] {
			why = blame(i)
		}
	}
	b.Note("behind_because", fmt.Sprintf("%s (%.0f %%)", why, 100*float64(z.behind[why])/float64(all)))
	if p99 <= max(mostBehind, farBehind*b.Elapsed.Seconds()) {
		return
	}
	remedy := map[blame]string{
		ofServer: "the server does not keep up with the log: that is the result; for the server's own speed use " +
			"pace=flat",
		ofLanes:  "use more lanes, or lanes=session",
		ofClient: "the client did not get a processor in time: use fewer lanes, or a pace that is less fast",
	}[why]
	b.Warn("sql-behind", fmt.Sprintf("one statement in a hundred was sent %.0f ms or more too late, because of the %s",
		1e3*p99, why), remedy)
}
