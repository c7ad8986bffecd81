package verdict

import (
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/sql/promise"
)

// flushes is the durability class of a target whose flushes go on their way to the disk.
const flushes = "flushes"

// notWaiting are the durability classes in which a flush returns without waiting for a disk.
var notWaiting = map[string]bool{"ignores-flushes": true, "memory": true}

// lasting is a workload's declaration of the data that it makes to last; the zero value for an unknown workload.
func lasting(w *plan.Workload) workload.Lasting { return all.Named(w.Kind).Lasts(w.Params) }

// is returns the traits of a workload's kind.
func is(w *plan.Workload) *workload.Traits { return &all.Named(w.Kind).Is }

// writes tells whether a metric of a workload depends on the effect of a flush.
func writes(w *plan.Workload, metric string) bool { return lasting(w).Ranked(metric) }

// withholdDurability withholds the verdict on writes of targets in different durability classes, or of servers that
// promise different things, and the ratio with it: a flush that is acknowledged without one is no faster flush. What is
// not known forbids nothing.
func (wh *withholder) withholdDurability(c *cellBuilder) {
	w, ok := wh.plan.Workload(c.Workload)
	if !ok || !writes(w, c.Metric) {
		return
	}
	l := lasting(w)
	wh.withholdClasses(c, l)
	withholdPromises(c, l)
}

// withholdClasses compares what a flush does in the places where two targets write.
func (wh *withholder) withholdClasses(c *cellBuilder, l workload.Lasting) {
	if l.Place == workload.Elsewhere && !(onTarget(c.candidate) && onTarget(c.baseline)) {
		return // a disk of which nothing is known
	}
	class := func(target string) string {
		if l.Place == workload.InHome {
			if home := wh.opened.home(target); home != nil {
				target = home.Name
			}
		}
		return wh.opened.durabilityClass(target)
	}
	a, b := class(c.Target), class(c.Baseline)
	if a == "" || b == "" || a == b {
		return
	}
	text := fmt.Sprintf("%s, and %s: their writes cannot be ranked against each other", classWords(c.Target, a),
		classWords(c.Baseline, b))
	if l.Flush.Waits() {
		text += because(c, notWaiting[a] && b == flushes, notWaiting[b] && a == flushes)
	}
	c.incomparable = true
	c.withhold("durability-differs", text, "compare targets that flush in the same way: choose another cache mode "+
		"(cache=none instead of unsafe), a disk instead of memory, or the same setting on both sides")
}

// onTarget tells whether a server that tare did not start had its data on the target's disk in a series of trials.
func onTarget(s *series) bool {
	at := stateValues(s, promise.DiskState)
	return len(at) == 1 && at[0] == promise.OnTarget
}

// withholdPromises compares what the servers behind two targets promise by their settings.
func withholdPromises(c *cellBuilder, l workload.Lasting) {
	d, ok := promisesDiffer(c.candidate, c.baseline)
	if !ok {
		return
	}
	less := c.Target
	if d.Less > 0 {
		less = c.Baseline
	}
	text := fmt.Sprintf("%s is %s in %s and %s in %s, so %s promises less: %s; their writes cannot be ranked against "+
		"each other", d.Name, d.A, c.Target, d.B, c.Baseline, less, d.Loses)
	if d.Waits && l.Flush.Waits() {
		text += because(c, d.Less < 0, d.Less > 0)
	}
	c.incomparable = true
	c.withhold("durability-differs", text, fmt.Sprintf("set %s to the same value on both sides", d.Name))
}

// promisesDiffer returns the most telling setting by which the servers of two sides promise different things. Settings
// may have changed while the trials ran.
func promisesDiffer(a, b *series) (d promise.Difference, differ bool) {
	for _, of := range stateValues(a, promise.State) {
		for _, other := range stateValues(b, promise.State) {
			x, err := promise.Parse(of)
			y, err2 := promise.Parse(other)
			if err != nil || err2 != nil {
				continue
			}
			if all := promise.Compare(x, y); len(all) > 0 {
				return all[0], true
			}
		}
	}
	return d, false
}

// UnlikeWrites returns the reason why a figure of a workload in a target cannot be ranked between two runs, given as
// their results and the trials that count: a flush has another effect there, or the server promises another durability.
// "" where that is not so, or not known.
func UnlikeWrites(w *plan.Workload, metric, target string, runs [2]*Result, trials [2][]*record.Trial) string {
	l := lasting(w)
	if !l.Ranked(metric) {
		return ""
	}
	var of [2]*series
	var class [2]string
	for i, r := range runs {
		of[i] = &series{used: map[blockKey]*record.Trial{}}
		for _, t := range trials[i] {
			k := blockKey{t.Session, t.Block}
			of[i].keys, of[i].used[k] = append(of[i].keys, k), t
		}
		t := r.target(target)
		if t != nil && t.Like != "" {
			t = r.target(t.Like)
		}
		if t != nil && l.Place == workload.InHome && t.Of != "" {
			t = r.target(t.Of)
		}
		if t != nil && t.Durability != nil {
			class[i] = knownClass(t.Durability)
		}
	}
	if d, ok := promisesDiffer(of[0], of[1]); ok {
		return fmt.Sprintf("%s is %s in the first result and %s in the second: %s", d.Name, d.A, d.B, d.Loses)
	}
	if class[0] == "" || class[1] == "" || class[0] == class[1] ||
		l.Place == workload.Elsewhere && !(onTarget(of[0]) && onTarget(of[1])) {
		return ""
	}
	return fmt.Sprintf("%s in the first result, and %s in the second", classWords(target, class[0]),
		classWords("it", class[1]))
}

// because says which side is faster because it does not wait for the disk, of those that may be; "" where that does not
// follow.
func because(c *cellBuilder, candidate, baseline bool) string {
	d := c.decision
	switch {
	case !d.HasInterval():
	case d.High < 1 && candidate:
		return "; " + becauseText(c.Target, c.Center, c.Baseline, c.BaselineCenter, c.Unit)
	case d.Low > 1 && baseline:
		return "; " + becauseText(c.Baseline, c.BaselineCenter, c.Target, c.Center, c.Unit)
	}
	return ""
}

func becauseText(fast string, fastAt float64, slow string, slowAt float64, unit string) string {
	return fmt.Sprintf("%s is faster (%s against %s %s in %s) because it does not wait for the disk", fast,
		figure(fastAt), figure(slowAt), unit, slow)
}

func knownClass(d *record.Durability) string {
	if d.Class == flushes || notWaiting[d.Class] {
		return d.Class
	}
	return ""
}

// classWords says a durability class of a target in words.
func classWords(target, class string) string {
	switch class {
	case flushes:
		return target + " passes flushes on to the disk"
	case "ignores-flushes":
		return target + " ignores flushes"
	case "memory":
		return target + " keeps its files in memory"
	}
	return "what a flush does in " + target + " is not known"
}
