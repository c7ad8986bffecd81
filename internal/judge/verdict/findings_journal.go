package verdict

import (
	"fmt"
	"time"

	"tare/internal/unit"
)

// slowedBy is the least ratio of the time of a unit of work in the slowest trial to that in the fastest one at which
// work that makes files counts as slowed by files that were deleted before.
const slowedBy = 2.0

// journalFindings tells of targets whose ext4 has no journal, where making files became slower the more were deleted:
// the kernel takes no inode again that was deleted within the last minutes, and looks at each of them for every new
// file. Where work that makes many files and removes them slows down, inodes are to blame. The warm-up counts, because
// fewest had been deleted then; what was slow before the fastest trial does not.
func journalFindings(e *finder, r *Result) []Finding {
	type cell struct{ workload, target string }
	type pace struct{ least, most time.Duration }
	paces := map[cell]*pace{}
	for i := range e.Trials {
		t := &e.Trials[i]
		if t.Error != nil || t.Work <= 0 || t.ControllerNS <= 0 || t.State["journal"] != "none" {
			continue
		}
		each := time.Duration(t.ControllerNS / t.Work)
		if p := paces[cell{t.Workload, t.Target}]; p == nil || each < p.least {
			paces[cell{t.Workload, t.Target}] = &pace{each, each}
		} else {
			p.most = max(p.most, each)
		}
	}
	var out []Finding
	for i := range r.Targets {
		name := r.Targets[i].Name
		var f *Finding
		for j := range e.Plan.Workloads {
			w := &e.Plan.Workloads[j]
			p := paces[cell{w.Label, name}]
			if p == nil || !is(w).ManyFiles || float64(p.most) < slowedBy*float64(p.least) {
				continue
			}
			if f == nil {
				f = &Finding{
					Targets: []string{name},
					Text: fmt.Sprintf("the ext4 of %s has no journal: there the kernel skips every inode that "+
						"was deleted within the last minutes, so creating files becomes slow after many deletions; "+
						"a unit of %s took from %s to %s", name, w.Label, paceText(p.least), paceText(p.most)),
					Remedy: "give the environment a directory on a file system with a journal, or on tmpfs (-e " +
						"'host=local?dir=PATH', -m host:NAME=dir:PATH); now the figure depends on what was deleted " +
						"before, also in a container on the same file system",
				}
			}
			addWorkload(f, w.Label)
		}
		if f != nil {
			out = append(out, *f)
		}
	}
	return out
}

func paceText(d time.Duration) string { return unit.Format(d.Seconds(), "s") }
