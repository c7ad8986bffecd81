package verdict

import (
	"strings"
	"testing"

	"tare/internal/plan"
	"tare/internal/record"
)

func TestUnlikeFlushesAreNotRanked(t *testing.T) {
	fsync := on("fs.smallfiles", "fsync=true")
	for _, c := range []struct {
		name     string
		work     plan.Workload
		metric   string // "" : the deciding one
		host, vm string
		withheld bool
	}{
		{"elided", on("fs.seqwrite", "fsync=each"), "", flushes, "ignores-flushes", true},
		{"memory", on("fs.seqwrite", "fsync=end"), "", flushes, "memory", true},
		{"written and not flushed", on("fs.seqwrite", "fsync=none"), "", flushes, "memory", true},
		{"the baseline elides", on("fs.seqwrite"), "", "ignores-flushes", flushes, true},
		{"neither waits, for different reasons", on("fs.seqwrite"), "", "memory", "ignores-flushes", true},
		{"both flush", on("fs.seqwrite"), "", flushes, flushes, false},
		{"unknown", on("fs.seqwrite"), "", flushes, "unknown", false},
		{"a class of a newer tare", on("fs.seqwrite"), "", flushes, "elastic", false},
		{"nothing is known", on("fs.seqwrite"), "", flushes, "", false},
		{"reads", on("fs.seqread"), "", flushes, "ignores-flushes", false},
		{"a CPU", on("cpu.prime"), "", flushes, "memory", false},
		{"files that are flushed", fsync, "", flushes, "memory", true},
		{"looking at files that were flushed", fsync, "stat_per_second", flushes, "memory", false},
		{"files that are not flushed", on("fs.smallfiles", "fsync=false"), "", flushes, "memory", false},
		{"a column that writes", on("fs.matrix", "fsync=true"), "write", flushes, "memory", true},
		{"a row that only reads", on("fs.matrix", "ops=read reread"), "", flushes, "memory", false},
		{"a column that reads", on("fs.matrix"), "read", flushes, "memory", false},
		{"commits", on("dev.journal", "fsync=true"), "", flushes, "memory", true},
		{"commits without a flush", on("dev.journal", "fsync=false"), "", flushes, "memory", false},
		{"a command that says so", on("command", "command=x", "fsync=true"), "", flushes, "ignores-flushes", true},
		{"a command", on("command", "command=x", "fsync=false"), "", flushes, "ignores-flushes", false},
	} {
		r := two(c.work).costs(map[string]float64{c.work.Label + " vm": 0.5}).envs(func(re *record.Environment) {
			class := map[string]string{"host": c.host, "vm": c.vm}[re.Name]
			if class != "" {
				re.Durability = &record.Durability{Class: class}
			}
		}).evaluate()
		got := cell(t, r, c.work.Label, c.metric, "vm")
		w := warning(got, "durability-differs")
		if c.withheld != (w != nil) || c.withheld != (got.Verdict == record.Withheld) ||
			c.withheld != (got.Ratio.Center == 0) {
			t.Errorf("%s: %s, ratio %g, %v", c.name, got.Verdict, got.Ratio.Center, got.Warnings)
		}
		if got.Center == 0 {
			t.Errorf("%s: the figure itself is lost", c.name)
		}
		// vm is twice as fast. That it does not wait is the reason only where the other side does, and flushes.
		because := w != nil && strings.Contains(w.Text, "vm is faster") && strings.Contains(w.Text, "does not wait")
		if want := c.withheld && c.host == flushes && c.name != "written and not flushed"; because != want {
			t.Errorf("%s: %+v", c.name, w)
		}
		if len(r.Families) != 0 && c.withheld && got.Primary {
			t.Errorf("%s: it counts in the mean of its family: %+v", c.name, r.Families)
		}
	}
}

// TestSlowerWithoutWaiting holds that no reason is given for what is not there.
func TestSlowerWithoutWaiting(t *testing.T) {
	costs := map[string]float64{"durability.fsync vm": 2}
	r := two(on("durability.fsync")).costs(costs).envs(durable("ignores-flushes")).evaluate()
	if w := warning(cell(t, r, "durability.fsync", "", "vm"), "durability-differs"); w == nil ||
		strings.Contains(w.Text, "faster") {
		t.Errorf("%+v", w)
	}
	r = two(on("durability.fsync")).costs(costs).envs(func(re *record.Environment) {
		re.Durability = &record.Durability{Class: map[string]string{"host": "memory", "vm": flushes}[re.Name]}
	}).evaluate()
	if w := warning(cell(t, r, "durability.fsync", "", "vm"), "durability-differs"); w == nil ||
		!strings.Contains(w.Text, "host is faster (") {
		t.Errorf("%+v", w)
	}
}
