package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
	"tare/internal/unit"
)

// FlushesDiffer is the code of cells whose sides flushed different numbers of times, by the counters of the disks or of
// the servers.
const FlushesDiffer = "flushes-differ"

// UnlikeFlushes tells whether the cell's ratio is between sides that flushed differently: it stays where only the user
// knows what the work promises, and ranks nobody.
func (c *Cell) UnlikeFlushes() bool { return hasCode(c.Warnings, FlushesDiffer) }

// UnlikeWrites tells whether the sides promise different things of what they write, by their counters or otherwise.
func (c *Cell) UnlikeWrites() bool {
	return c.UnlikeFlushes() || hasCode(c.Warnings, "durability-differs")
}

const (
	// flushesApart is the least ratio of the flushes of two sides that counts as unlike.
	flushesApart = 3
	// fewestFlushes are needed in a trial: a journal is committed now and then, whatever the work does, ...
	fewestFlushes = 4
	// strayFlushes a second are such commits' and other programs'.
	strayFlushes = 1
	// trialsWithFlushes are needed at least, and of a side's trials flushShare must agree.
	trialsWithFlushes = 3
	flushShare        = 0.75
)

// ownFigures are the figures of a command that do not depend on what it waits for.
var ownFigures = []string{"user_seconds", "system_seconds", "max_rss_bytes", "page_faults"}

// flushed has the counts of flushes of a side's trials, by the disks of its system or by its servers.
type flushed struct {
	target string
	class  string // as durabilityClass
	trials []flushTrial
	rate   float64 // flushes a second, median
	unit   float64 // flushes for each unit of work, median
	lanes  float64
}

type flushTrial struct {
	n, unit, rate, seconds float64
	wrote                  bool // the process that was measured, and its children, wrote to a disk
}

// flushedIn reads the counters of a side; without trials where they do not tell what the work did.
func (wh *withholder) flushedIn(target string, s *series, place workload.Place) *flushed {
	f := &flushed{target: target, lanes: 1}
	if place == workload.InHome {
		if home := wh.opened.home(target); home != nil {
			target = home.Name
		}
	}
	f.class = wh.opened.durabilityClass(target)
	if !wh.opened.countsFlushes(target) {
		return f
	}
	counts, _ := countedIn(s, []string{record.DiskFlushes})
	for _, k := range s.keys {
		if n, ok := counts[k]; ok {
			f.add(s.used[k], n.n, n.work, s.used[k].Account.Counts[record.DeviceWrittenBytes] > 0)
		}
	}
	return f.rated()
}

// add takes in a trial that counted n flushes in so much work; wrote says that the work itself wrote to a disk.
func (f *flushed) add(t *record.Trial, n, work float64, wrote bool) {
	if t.AgentNS <= 0 {
		return
	}
	seconds := float64(t.AgentNS) / 1e9
	f.trials = append(f.trials, flushTrial{n: n, unit: n / work, rate: n / seconds, seconds: seconds, wrote: wrote})
	if t.Account != nil && t.Account.Lanes > f.lanes && !math.IsInf(t.Account.Lanes, 0) {
		f.lanes = t.Account.Lanes
	}
}

// rated returns f with the medians of its trials.
func (f *flushed) rated() *flushed {
	var rates, units []float64
	for _, x := range f.trials {
		rates, units = append(rates, x.rate), append(units, x.unit)
	}
	if len(f.trials) > 0 {
		f.rate, f.unit = medianOf(rates), medianOf(units)
	}
	return f
}

// flushedByServer returns the counts of a side's flushes by a counter of its servers.
func flushedByServer(target string, s *series, counter string) *flushed {
	f := &flushed{target: target, lanes: 1}
	for _, k := range s.keys {
		t := s.used[k]
		if n, err := strconv.ParseFloat(t.State[counter], 64); err == nil && n >= 0 && t.Work > 0 {
			f.add(t, n, float64(t.Work), true)
		}
	}
	return f.rated()
}

// countsFlushes tells whether the counters of a target's disks see the flushes of work there: not where the files are
// on another machine, or on a disk without a cache of its own, which the kernel never asks for a flush.
func (op *opened) countsFlushes(target string) bool {
	target = op.alone(target)
	for i := range op.environments {
		re := &op.environments[i]
		if re.Name != target || re.Error != nil {
			continue
		}
		kind, _, _ := strings.Cut(re.Inside.WorkFS, " ")
		cache := strings.TrimSpace(re.Inside.Extra["work.disk.write_cache"])
		switch {
		case kind == "tmpfs" || kind == "ramfs" || re.Durability != nil && knownClass(re.Durability) == "memory":
			return true
		case re.IsMount() && re.Mount != nil && !onDisk(re.Mount):
			return false
		case cache != "":
			return cache == "write back"
		}
		return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "zfs", "bcachefs"},
			kind) && op.sharesKernel(target)
	}
	return false
}

// most tells whether most trials of a side are so.
func (f *flushed) most(so func(flushTrial) bool) bool {
	n := 0
	for _, x := range f.trials {
		if so(x) {
			n++
		}
	}
	return n >= trialsWithFlushes && float64(n) >= flushShare*float64(len(f.trials))
}

// flushes tells whether the side's work flushes: more than what happens on a machine anyway.
func (f *flushed) flushes() bool {
	return f.most(func(x flushTrial) bool { return x.n >= fewestFlushes+strayFlushes*x.seconds })
}

// moreThan tells whether a side flushed so much more than another that they did not promise the same. What others
// flush meanwhile is in both counts, and in the slower side's for longer: where both flush as often in a second, the
// work must have written to a disk itself.
func (f *flushed) moreThan(o *flushed, apart float64) bool {
	return f.flushes() && len(o.trials) >= trialsWithFlushes &&
		f.most(func(x flushTrial) bool {
			return x.unit >= apart*o.unit && (x.wrote || x.rate >= flushesApart*o.rate)
		}) && o.most(func(x flushTrial) bool { return f.unit >= apart*x.unit })
}

// withholdFlushes compares what both sides flushed, whatever the work declares, by the counters of their disks and of
// the servers.
func (wh *withholder) withholdFlushes(c *cellBuilder) {
	w, ok := wh.plan.Workload(c.Workload)
	if !ok || hasCode(c.Warnings, "durability-differs") {
		return
	}
	l := lasting(w)
	byUser := l.Flush == workload.FlushByUser && !slices.Contains(ownFigures, c.Metric)
	if c.Target == c.Baseline || !byUser && !(l.Flush.Waits() && l.Of(c.Metric)) {
		return
	}
	text, by := "", ", by the counters of the disks"
	if l.Place != workload.Elsewhere || onTarget(c.candidate) && onTarget(c.baseline) {
		text = unlikeFlushes(c, wh.flushedIn(c.Target, c.candidate, l.Place),
			wh.flushedIn(c.Baseline, c.baseline, l.Place), byUser)
	}
	if text == "" && !byUser && sameCalls(c.candidate, c.baseline) {
		by = ", by what the servers counted"
		for _, counter := range promise.FlushCounters {
			a := flushedByServer(c.Target, c.candidate, counter)
			b := flushedByServer(c.Baseline, c.baseline, counter)
			if len(a.trials) > 0 && len(b.trials) > 0 {
				text = unlikeFlushes(c, a, b, false)
				break // the others count more than the log
			}
		}
	}
	if text == "" {
		return
	}
	text += by
	remedy := "compare places and settings that flush alike: a disk instead of memory, the same options for flushes " +
		"on both sides"
	if byUser {
		c.warn(FlushesDiffer, text+": what is not flushed may be lost, so the ratio is no advantage", remedy+
			"; fsync=yes says that the command's figures depend on flushes, and withholds the ratio")
		return
	}
	c.incomparable = true
	c.withhold(FlushesDiffer, text+": their writes cannot be ranked against each other", remedy)
}

// sameCalls tells whether the servers of two sides flush with the same system calls, as far as they told.
func sameCalls(a, b *series) bool {
	for _, of := range stateValues(a, promise.State) {
		for _, other := range stateValues(b, promise.State) {
			x, err := promise.Parse(of)
			y, err2 := promise.Parse(other)
			if err != nil || err2 != nil || !promise.SameCalls(x, y) {
				return false
			}
		}
	}
	return true
}

// unlikeFlushes describes the difference between the flushes of two sides; "" if there is none.
func unlikeFlushes(c *cellBuilder, a, b *flushed, byUser bool) string {
	apart := float64(flushesApart)
	if !byUser { // lanes may share a flush, and do so the more the slower it is
		apart *= math.Ceil(max(a.lanes, b.lanes))
	}
	more, less := b, a
	if a.flushes() && a.unit > b.unit || !b.flushes() {
		more, less = a, b
	}
	of := cmp.Or(all.Named(c.Kind).WorkUnit, "unit of work")
	switch {
	case more.moreThan(less, apart):
		return fmt.Sprintf("%s for each %s in %s, %s in %s", flushesText(more.unit), of, more.target,
			cmp.Or(strings.TrimSuffix(figure(less.unit), ".0"), "0"), less.target)
	case byUser && a.class == flushes && notWaiting[b.class] && a.flushes():
		return fmt.Sprintf("%s for each %s in %s, and %s", flushesText(a.unit), of, a.target,
			classWords(b.target, b.class))
	case byUser && b.class == flushes && notWaiting[a.class] && b.flushes():
		return fmt.Sprintf("%s for each %s in %s, and %s", flushesText(b.unit), of, b.target,
			classWords(a.target, a.class))
	}
	return ""
}

func flushesText(n float64) string {
	if n == 1 {
		return "1 flush"
	}
	return figure(n) + " flushes"
}

// flushesFindings tells of ratios that stand although the sides flushed differently, and of those that do not.
func flushesFindings(_ *finder, r *Result) []Finding {
	out := withheldFindings(r, FlushesDiffer)
	at := map[[2]string]int{}
	for i := range r.Cells {
		c := &r.Cells[i]
		k := slices.IndexFunc(c.Warnings, func(w record.Warning) bool { return w.Code == FlushesDiffer })
		if k < 0 || !c.Primary || c.Verdict == record.Withheld {
			continue
		}
		w, of := c.Warnings[k], [2]string{c.Target, c.Baseline}
		if n, ok := at[of]; ok {
			addWorkload(&out[n], c.Workload)
			continue
		}
		at[of] = len(out)
		out = append(out, Finding{Targets: []string{c.Target}, Workloads: []string{c.Workload},
			Text: fmt.Sprintf("%s %s: %s", c.Target, c.Workload, w.Text), Remedy: w.Remedy})
	}
	for _, n := range at {
		if more := len(out[n].Workloads) - 1; more > 0 {
			out[n].Text += fmt.Sprintf("; so it is in %s", unit.Plural(more, "other workload"))
		}
	}
	return out
}
