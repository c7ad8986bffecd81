package replay

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/setdiff"
)

// total has the sums of all lanes' counts.
type total struct {
	tallies []tally
	all     tally
	sketch  setdiff.Sketch
	errors  map[string]*mistake
	behind  [blames]int64
}

// total adds up what the lanes have counted.
func (r *Replay) total() *total {
	z := &total{tallies: make([]tally, other+1), errors: map[string]*mistake{}}
	for _, l := range r.lanes {
		for i := range l.tallies {
			z.tallies[i].add(&l.tallies[i])
			z.all.add(&l.tallies[i])
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
func (z *total) codes() string {
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
func (z *total) mostly() (code string, m *mistake) {
	for _, c := range slices.Sorted(maps.Keys(z.errors)) {
		if m == nil || z.errors[c].count > m.count {
			code, m = c, z.errors[c]
		}
	}
	return code, m
}

// Report turns what the lanes have counted into figures. site is what the log is of, for a message.
func (r *Replay) Report(b *workload.Bench, site string) error {
	z := r.total()
	if z.all.errors*2 > z.all.count {
		_, m := z.mostly()
		return r.Failed("%d of %d %ss failed, most of them with %s: is the log from this %s?", z.all.errors,
			z.all.count, r.Item, m.text, site)
	}
	p := r.pass
	p.times.sort()
	units := b.Work
	if r.Whole {
		units *= int64(len(p.work.shards))
	}
	mine := float64(p.work.statements) / float64(p.work.all)
	b.Report(r.Item+"s_per_second", mine*float64(p.work.upTo(units))/b.Elapsed.Seconds())
	b.Report("seconds", b.Elapsed.Seconds()/float64(b.Work))
	b.Report("latency_mean", float64(z.all.ns)/float64(z.all.count))
	b.Report("latency_p50", 1e9*p.times.overall(0.5))
	b.Report("latency_p99", 1e9*p.times.overall(0.99))
	if !r.Kept {
		b.Report("connect_p50", 1e9*r.connectTime())
	}
	if r.CPU > 0 {
		b.Report("client_cpu_us_per_"+r.Item, 1e6*r.CPU.Seconds()/float64(p.work.statements))
	}
	b.Groups = p.groups.groups(r.Trace.Fingerprints(), z.tallies, p.times, b.Warmup, r.Options)
	// The evidence of equal work is that of the groups, which have all statements.
	if z.all.compared > 0 {
		b.Sketch = z.sketch.Bytes()
	}
	for _, l := range r.lanes {
		b.Shown = append(b.Shown, l.shown...)
	}
	b.Note(r.Item+"s", fmt.Sprint(z.all.count))
	b.Note("errors", z.codes())
	b.Note(r.Rows, fmt.Sprint(z.all.comparedRows))
	b.Note("sum", fmt.Sprintf("%016x", z.all.unordered))
	b.Note("ordered_sum", fmt.Sprintf("%016x", z.all.ordered))
	r.reportLanes(b)
	if r.Paced() {
		r.reportBehind(b, z)
	}
	if len(b.Parts) > 0 {
		r.pool(b)
	}
	return nil
}

// mostPooled bounds the histograms of groups, in bytes: all results are one frame (wire.MaxPayload).
const mostPooled = 768 << 10

// pool reports the data from which the results of several hosts are merged.
func (r *Replay) pool(b *workload.Bench) {
	p := r.pass
	b.Note(r.Item+"s_of_all", fmt.Sprint(p.work.all))
	b.Note("client_cpu_share", fmt.Sprintf("%.3f",
		min(1, r.CPU.Seconds()/b.Elapsed.Seconds()/float64(min(len(r.lanes), runtime.GOMAXPROCS(0))))))
	b.Pool("latency_", p.times.histogram(-1))
	room := mostPooled
	for i := range p.groups.members {
		if name := record.GroupHistogram + b.Groups[i].ID; b.Groups[i].Count > 0 && room > 0 {
			b.Pool(name, p.times.histogram(i))
			if room -= len(b.Histograms[name]); room < 0 {
				delete(b.Histograms, name)
			}
		}
	}
	if connects := new(histogram.Histogram); !r.Kept {
		for i := range p.work.jobs {
			if ns := p.work.jobs[i].connect; ns > 0 {
				connects.Record(ns)
			}
		}
		b.Pool("connect_", connects)
	}
	if r.Paced() {
		b.Pool("behind_", p.lags.Histogram())
	}
}

// connectTime is the median time of a connection in seconds.
func (r *Replay) connectTime() float64 {
	var all []int64
	for i := range r.pass.work.jobs {
		if ns := r.pass.work.jobs[i].connect; ns > 0 {
			all = append(all, ns)
		}
	}
	slices.Sort(all)
	return nearest(all, 0.5)
}

// longTail is the part of a trial's time from which on the end, at which some lanes have nothing left to do, is told.
const longTail = 0.1

// reportLanes reports the evenness of the lanes' shares of the work.
func (r *Replay) reportLanes(b *workload.Bench) {
	first, last, sum := r.lanes[0].end, int64(0), 0.0
	for _, l := range r.lanes {
		first, last, sum = min(first, l.end), max(last, l.end), sum+float64(l.end)
	}
	tail := float64(last-first) / float64(last)
	b.Note("lanes", fmt.Sprint(len(r.lanes)))
	b.Note("lane_skew", fmt.Sprintf("%.4f", 1-sum/float64(len(r.lanes))/float64(last)))
	b.Note("tail", fmt.Sprintf("%.4f", tail))
	if r.Ordered {
		waited := int64(0)
		for _, l := range r.lanes {
			waited += l.waited
		}
		b.Note("turn_wait_share", fmt.Sprintf("%.4f", float64(waited)/sum))
	}
	if tail > longTail && !r.Paced() {
		b.Warn("replay-skew", fmt.Sprintf("in the last %.0f %% of the time some of the %d lanes had no session left",
			100*tail, len(r.lanes)), "use longer trials, so that the end of a trial is a smaller part of "+
			"it, or fewer lanes")
	}
}

// Being behind schedule is told from these on: a part of the trial's time, and a time in seconds.
const (
	farBehind  = 0.01
	mostBehind = 0.010
)

// reportBehind reports the delay of the replay behind its schedule, and the reasons.
func (r *Replay) reportBehind(b *workload.Bench, z *total) {
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
	b.Warn("replay-behind", fmt.Sprintf("one %s in a hundred was sent %.0f ms or more too late, because of the %s",
		r.Item, 1e3*p99, why), remedy)
}
