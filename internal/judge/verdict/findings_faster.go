package verdict

import (
	"fmt"
	"slices"

	"tare/internal/record"
	"tare/internal/unit"
)

// suspiciousBelow is the ratio below which a candidate is suspected of not doing what the baseline does.
const suspiciousBelow = 0.9

// storageWork tells what a workload does to a medium, by the metrics that tell of it.
var storageWork = map[string]struct {
	writes, reads []string // metrics; nil: none
	whole         string   // what its primary metric is of: writes or reads
}{
	"fs.seqwrite":      {whole: "writes"},
	"fs.randwrite":     {whole: "writes"},
	"fs.mixed":         {whole: "writes"},
	"fs.smallfiles":    {whole: "writes"},
	"fs.seqread":       {whole: "reads"},
	"fs.randread":      {whole: "reads"},
	"fs.matrix":        {whole: "writes", writes: matrixWrites, reads: matrixReads},
	"fs.dd":            {whole: "writes", writes: []string{"write"}, reads: []string{"read"}},
	"durability.fsync": {whole: "writes"},
	"restore":          {whole: "writes"},
	"dev.unpack":       {whole: "writes"},
	"dev.remove":       {whole: "writes"},
	"dev.edit":         {whole: "writes"},
	"dev.journal":      {whole: "writes"},
}

// The columns of fs.matrix by what they do.
var (
	matrixWrites = []string{"write", "rewrite", "randwrite", "recrewrite", "fwrite", "frewrite"}
	matrixReads  = []string{"read", "reread", "randread", "bkwdread", "strideread", "fread", "freread"}
)

// storageVerb is what a cell says that its target does faster or slower: "writes", "reads", or "" when it is neither,
// or a metric beside the one that decides.
func storageVerb(c *Cell) string {
	k := storageWork[c.Kind]
	switch {
	case c.Primary:
		return k.whole
	case slices.Contains(k.writes, c.Metric):
		return "writes"
	case slices.Contains(k.reads, c.Metric):
		return "reads"
	}
	return ""
}

// fasterFindings points at candidates that write or read faster than the baseline's own medium, each once for all of
// its workloads, by the figure that is furthest off.
func fasterFindings(_ *finder, r *Result) []Finding {
	type key struct{ target, baseline, verb string }
	var out []Finding
	at := map[key]int{}
	worst := map[key]*Cell{}
	for i := range r.Cells {
		c := &r.Cells[i]
		verb := storageVerb(c)
		// Of hundreds of columns a few are below by chance; the verdict has been corrected for that.
		if verb == "" || c.High <= 0 || c.High >= suspiciousBelow || !c.Primary && c.Verdict != record.Different {
			continue
		}
		k := key{c.Target, c.Baseline, verb}
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
		out[n].Text, out[n].Remedy = fasterText(r, worst[k], k.verb, len(out[n].Workloads))
	}
	return out
}

func fasterText(r *Result, c *Cell, verb string, workloads int) (text, remedy string) {
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
	if how := elides(r.target(c.Target)); how != "" {
		why = "it is faster because it does not wait for the disk: " + how
	}
	return fmt.Sprintf("%s writes faster than %s in %s (%s): %s", c.Target, c.Baseline, in, figures, why),
		"before calling it an advantage, compare with a setting that writes to the disk (cache=none, fsync=true, a " +
			"volume instead of memory)"
}
