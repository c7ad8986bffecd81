package gallery

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tare/internal/bundle"
	"tare/internal/judge/history"
	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Bounds of a result's texts in lists.
const (
	mostFacets   = 8   // names of one sort: environments, workloads, processors, kernels
	longestFacet = 60  // characters
	mostCells    = 400 // that are ranked
)

// oneLine makes foreign text fit for a page: one line of at most n characters, nothing that is obeyed.
func oneLine(s string, n int) string {
	if len(s) > 8*n {
		s = s[:8*n]
	}
	return unit.Cut(proc.Line(s), n)
}

// facet adds a name, once.
func facet(list []string, name string) []string {
	if name = oneLine(name, longestFacet); name == "" || slices.Contains(list, name) || len(list) >= mostFacets {
		return list
	}
	return append(list, name)
}

// driverOf is the driver of a target, with its mount: "docker", "9p mount". One with a neighbour at work is none of
// those that are alone.
func driverOf(t *plan.Target) string {
	name := oneLine(t.Spec.Driver, longestFacet-30)
	switch {
	case t.IsMount():
		name += " mount"
	case t.IsHost():
		name = env.Host
	}
	if t.Beside != "" {
		name += " beside a neighbour"
	}
	if t.Copies > 0 {
		name += " in " + strconv.Itoa(t.Copies) + " copies"
	}
	return name
}

var releaseRE = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?`)

// systems are the names of systems whose GOOS is none.
var systems = map[string]string{"linux": "Linux", "darwin": "macOS", "windows": "Windows", "freebsd": "FreeBSD"}

// kernelName is a kernel without the parts that differ from build to build: "Linux 6.1".
func kernelName(f *record.Facts) string {
	release := oneLine(f.Kernel, longestFacet)
	if m := releaseRE.FindString(release); m != "" {
		release = m
	}
	name := systems[f.OS]
	if name == "" {
		name = oneLine(f.OS, 20)
	}
	return strings.TrimSpace(name + " " + release)
}

// workOf is a digest of a piece of work and the figure that decides of it.
func workOf(text, metric string) string {
	sum := sha256.Sum256([]byte(text + "\n" + metric))
	return hex.EncodeToString(sum[:8])
}

// addCells adds the costs that are ranked and drawn over time.
func (r *result) addCells(x *bundle.Bundle, v *verdict.Result, brief *report.Brief) {
	texts := history.WorkTexts(x.Plan)
	machine := history.Machine(history.HostFacts(v, x.Plan))
	driver := map[string]string{}
	for i := range x.Plan.Targets {
		driver[x.Plan.Targets[i].Name] = driverOf(&x.Plan.Targets[i])
	}
	for i := range brief.Work {
		for j := range brief.Work[i].Cells {
			c := &brief.Work[i].Cells[j]
			r.Verdicts[counted(c)]++
			if len(r.Cells) >= mostCells {
				continue
			}
			r.Cells = append(r.Cells, cell{Work: workOf(texts[c.Workload], c.Metric),
				Workload: oneLine(c.Workload, 100), Kind: oneLine(c.Kind, 60), Metric: oneLine(c.Metric, 60),
				Target: oneLine(c.Target, 60), Driver: driver[c.Cell.Target], Against: oneLine(c.Against, 60),
				AgainstBy: driver[c.Cell.Baseline], Machine: machine, Verdict: c.Verdict, Class: c.Class, Sign: c.Sign,
				Word: c.Word, Ratio: c.Center, Low: c.Low, High: c.High, Margin: c.SameMargin, Emulated: c.Emulated})
		}
	}
}
