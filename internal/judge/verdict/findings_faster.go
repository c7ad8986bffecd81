package verdict

import (
	"fmt"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/unit"
)

// suspiciousBelow is the ratio below which a candidate is suspected of not doing what the baseline does.
const suspiciousBelow = 0.9

// storageVerb is the verb for the storage work of a cell: "writes", "reads", or "" when it is neither, or a metric
// beside the one that decides.
func storageVerb(c *Cell, is *workload.Traits, l workload.Lasting) string {
	column, isColumn := is.Columns[c.Metric]
	switch {
	case (c.Primary || isColumn) && l.Of(c.Metric):
		return "writes"
	case c.Primary && is.Moves != nil && is.Moves.Read, column.Read:
		return "reads"
	}
	return ""
}

// fasterFindings points at candidates that write or read faster than the baseline's own medium, each once for all of
// its workloads, by the figure that is furthest off.
func fasterFindings(e *finder, r *Result) []Finding {
	type key struct {
		target, baseline, verb string
		waits                  bool // the work waits for flushes
	}
	var out []Finding
	at := map[key]int{}
	worst := map[key]*Cell{}
	for i := range r.Cells {
		c := &r.Cells[i]
		w, ok := e.Plan.Workload(c.Workload)
		if !ok {
			continue
		}
		l := lasting(w)
		verb := storageVerb(c, is(w), l)
		// Of hundreds of columns a few are below by chance; the verdict has been corrected for that.
		if verb == "" || c.High <= 0 || c.High >= suspiciousBelow || !c.Primary && c.Verdict != record.Different {
			continue
		}
		k := key{c.Target, c.Baseline, verb, l.Flush.Waits()}
		if worst[k] == nil {
			at[k] = len(out)
			out = append(out, Finding{Targets: []string{c.Target}})
		}
		addWorkload(&out[at[k]], c.Workload)
		if worst[k] == nil || c.Ratio.Center < worst[k].Ratio.Center {
			worst[k] = c
		}
	}
	for k, n := range at {
		out[n].Text, out[n].Remedy = fasterText(r, worst[k], k.verb, k.waits, len(out[n].Workloads))
	}
	return out
}

func fasterText(r *Result, c *Cell, verb string, waits bool, workloads int) (text, remedy string) {
	in := c.Workload
	if !c.Primary {
		in += ", " + c.Metric
	}
	figures := fmt.Sprintf("cost %.2f [%.2f, %.2f]", c.Ratio.Center, c.Low, c.High)
	if workloads > 1 {
		in, figures = unit.Plural(workloads, "workload"), fmt.Sprintf("most in %s: %s", in, figures)
	}
	if verb == "reads" {
		return fmt.Sprintf("%s reads faster than %s itself in %s (%s): a cache below it serves the reads, or it "+
				"reads ahead", c.Target, c.Baseline, in, figures),
			"before calling it an advantage, compare with direct=yes, cache=cold or a file larger than all memory, " +
				"and with a disk that is not cached (cache=none)"
	}
	why := "a cache in between or an ignored flush may be the reason"
	how := elides(r.target(c.Target))
	switch {
	case waits && how != "":
		why = "it is faster because it does not wait for the disk: " + how
	case !waits && how == classWords(c.Target, "memory"):
		why = how + ", and the work asks for no flush"
	case !waits:
		why = "a cache in between may be the reason; the work asks for no flush"
	}
	return fmt.Sprintf("%s writes faster than %s in %s (%s): %s", c.Target, c.Baseline, in, figures, why),
		"before calling it an advantage, compare with a setting that writes to the disk (cache=none, fsync=true, a " +
			"volume instead of memory)"
}
