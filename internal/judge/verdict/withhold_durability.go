package verdict

import (
	"fmt"
	"slices"
	"strings"

	"tare/internal/plan"
	"tare/internal/record"
)

// flushes is the durability class of a target whose flushes go on their way to the disk.
const flushes = "flushes"

// notWaiting are the durability classes in which a flush returns without waiting for a disk.
var notWaiting = map[string]bool{"ignores-flushes": true, "memory": true}

// writesByKind tells which figures end on a medium, and so depend on whether somebody waits for it. A kind that is not
// listed does not write, or not to be kept.
var writesByKind = map[string]struct {
	metrics []string // the metrics that write; nil: all
	synced  bool     // only where its parameter fsync is on: else nothing is flushed inside the time
}{
	"fs.seqwrite":   {},
	"fs.randwrite":  {},
	"fs.mixed":      {},
	"fs.smallfiles": {metrics: []string{"files_per_second", "create_per_second"}, synced: true},
	"fs.matrix":     {metrics: append([]string{"row_seconds"}, matrixWrites...)},
	"dev.journal":   {synced: true},
	"dev.edit":      {synced: true},
	"command":       {synced: true}, // by the user's word
}

// writes tells whether a metric of a workload depends on what a flush does.
func writes(w *plan.Workload, metric string) bool {
	if strings.HasPrefix(w.Kind, "durability.") {
		return true
	}
	k, ok := writesByKind[w.Kind]
	return ok && (k.metrics == nil || slices.Contains(k.metrics, metric)) && (!k.synced || w.Params.Bool("fsync"))
}

// withholdDurability withholds the verdict on writes of targets in different durability classes, and the ratio with it:
// a flush that is acknowledged without one is no faster flush. A class that is not known forbids nothing.
func (wh *withholder) withholdDurability(c *cellBuilder) {
	if w, ok := wh.plan.Workload(c.Workload); !ok || !writes(w, c.Metric) {
		return
	}
	a, b := wh.opened.durabilityClass(c.Target), wh.opened.durabilityClass(c.Baseline)
	if a == "" || b == "" || a == b {
		return
	}
	text := fmt.Sprintf("%s, and %s: their writes cannot be ranked against each other", classWords(c.Target, a),
		classWords(c.Baseline, b))
	if why := waits(c, a, b); why != "" {
		text += "; " + why
	}
	c.incomparable = true
	c.withhold("durability-differs", text, "compare targets that flush in the same way: choose another cache mode "+
		"(cache=none instead of unsafe), a disk instead of memory, or the same setting on both sides")
}

// waits says which side is faster because it does not wait for the disk; "" where that does not follow.
func waits(c *cellBuilder, candidate, baseline string) string {
	d := c.decision
	switch {
	case !d.HasInterval():
		return ""
	case d.High < 1 && notWaiting[candidate] && baseline == flushes:
		return becauseText(c.Target, c.Center, c.Baseline, c.BaselineCenter, c.Unit)
	case d.Low > 1 && notWaiting[baseline] && candidate == flushes:
		return becauseText(c.Baseline, c.BaselineCenter, c.Target, c.Center, c.Unit)
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
