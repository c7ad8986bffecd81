package verdict

import (
	"testing"

	"tare/internal/plan"
)

func TestFlushes(t *testing.T) {
	for _, c := range []struct {
		work plan.Workload
		want bool
	}{
		{on("fs.seqwrite", "fsync=none"), false},
		{on("fs.seqwrite", "fsync=datasync-each"), true},
		{on("fs.seqread", "fsync=end"), false},
		{on("fs.smallfiles", "fsync=false"), false},
		{on("fs.smallfiles", "fsync=true"), true},
		{on("fs.matrix", "fsync=false", "preset=none"), false},
		{on("fs.matrix", "fsync=false", "preset=direct4k"), true},
		{on("durability.fsync"), true},
		{on("cpu.prime"), false},
	} {
		p := &plan.Plan{Workloads: []plan.Workload{on("cpu.prime"), c.work}}
		if got := Flushes(p); got != c.want {
			t.Errorf("%s: %v, want %v", c.work.Label, got, c.want)
		}
	}
}
