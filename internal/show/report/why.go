package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// A count for each unit of work is told in the terminal if it is not tiny and differs by some of itself.
const (
	leastCount     = 0.01
	leastBytes     = 16 // reading the account itself is some hundred bytes for a trial
	leastNS        = 1
	leastCountDiff = 0.05
)

// countTexts name the counts of an account.
var countTexts = map[string]string{
	record.StolenNS:         "stolen from its processors by a hypervisor",
	record.IOStalledNS:      "in which some task of its system waited for a disk",
	record.InstructionsUser: "instructions in user code", record.InstructionsKernel: "instructions in the kernel",
	record.CyclesUser: "cycles in user code", record.CyclesKernel: "cycles in the kernel",
	record.CacheMissesUser: "cache misses in user code", record.CacheMissesKernel: "cache misses in the kernel",
	record.BranchMissesUser:   "mispredicted branches in user code",
	record.BranchMissesKernel: "mispredicted branches in the kernel",
	record.TLBMissesUser:      "TLB misses in user code", record.TLBMissesKernel: "TLB misses in the kernel",
	record.SwitchesVoluntary: "voluntary context switches", record.SwitchesInvoluntary: "involuntary context switches",
	record.FaultsMinor: "minor page faults", record.FaultsMajor: "major page faults",
	record.ReadBytes: "read by system calls", record.WrittenBytes: "written by system calls",
	record.DeviceReadBytes: "read from a device", record.DeviceWrittenBytes: "written to a device",
	record.DiskReads: "reads by the system's disks", record.DisksReadBytes: "read by the system's disks",
	record.DiskWrites: "writes by the system's disks", record.DisksWrittenBytes: "written by the system's disks",
	record.DiskFlushes: "flushes of the system's disks",
}

// whyLines takes each ratio apart, where the reader asked for that.
func (t *terminal) whyLines() []string {
	if !t.Text.Why {
		return nil
	}
	prose := min(t.width, readable)
	if len(t.Why) == 0 {
		return append([]string{""}, wrap("", "Why: "+WhyNoRatio(t.Result)+".", prose)...)
	}
	var lines, uncounted []string
	for i := range t.Why {
		w := &t.Why[i]
		lines = append(lines, "")
		lines = append(lines, wrap("", fmt.Sprintf("Why %s in %s: %s.", clean(w.Workload), clean(w.Target),
			clean(w.Text)), prose)...)
		lines = append(lines, whyTable(w)...)
		switch p := w.Product; {
		case p == nil:
		case len(p.Factors) > 0:
			lines = append(lines, wrap("  ", "as a product: "+clean(p.Text), prose)...)
		case !slices.Contains(uncounted, clean(p.Text)):
			uncounted = append(uncounted, clean(p.Text))
		}
		var rest []string
		for _, c := range w.Counts {
			if text := countedText(&c); text != "" {
				rest = append(rest, text)
			}
		}
		if len(rest) > 0 {
			lines = append(lines, wrap("  ", fmt.Sprintf("for each %s, %s and %s: %s", w.Unit, clean(w.Baseline),
				clean(w.Target), strings.Join(rest, ", ")), prose)...)
		}
		if text := servingText(w); text != "" {
			lines = append(lines, wrap("  ", text, prose)...)
		}
		if text := exitsText(w); text != "" {
			lines = append(lines, wrap("  ", text, prose)...)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Unmeasured)) {
			lines = append(lines, wrap("  ", "not measured: "+unmeasuredTexts[name]+" ("+clean(w.Unmeasured[name])+")",
				prose)...)
		}
	}
	if len(uncounted) > 0 { // told once: a counter that a machine lacks it lacks for all workloads
		lines = append(lines, "")
		lines = append(lines, wrap("", "The ratios as products of instructions, cycles and clock are "+
			strings.Join(uncounted, "; ")+".", prose)...)
	}
	return lines
}

// WhyNoRatio says why no ratio of a result is taken apart.
func WhyNoRatio(r *verdict.Result) string {
	compared, figured, allowed := 0, 0, 0
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary && c.Target != c.Baseline {
			compared++
			if c.Ratio.Center > 0 {
				figured++
			}
			if c.Ratio.Center > 0 && c.Verdict != record.Withheld {
				allowed++
			}
		}
	}
	switch {
	case len(r.Targets) < 2:
		return "a ratio is of two targets, and this run has only " + clean(r.Run.Baseline) + ": add another with -e"
	case compared == 0:
		return "no workload was compared in two targets"
	case figured == 0:
		return "no cell has a ratio; the findings say what failed"
	case allowed == 0:
		return "every verdict is withheld; the findings say why"
	}
	return "the trials have no accounts of their time: an older tare measured them, or several hosts offered the load"
}

var unmeasuredTexts = map[string]string{
	record.UserNS: "user code", record.KernelNS: "kernel", record.ReadyNS: "waiting for a processor",
	record.DiskNS: "waiting for a disk", record.OtherNS: "the remainder", "exits": "exits of virtual processors",
	record.HostCPU: "what works for it on this machine",
}

// whyTable has a line for each part: both sides in units of the baseline's total, the difference and its interval.
func whyTable(w *verdict.Why) []string {
	if len(w.Parts) == 0 {
		return nil
	}
	rows := [][5]string{{"", clean(w.Baseline), clean(w.Target), "difference", ""}}
	number := func(v float64) string { return strings.TrimPrefix(w.Signed(v), "+") }
	for i, candidate := range w.Rounded() {
		p := &w.Parts[i]
		interval := ""
		if p.Low != 0 || p.High != 0 {
			interval = w.Signed(p.Low) + " to " + w.Signed(p.High)
		}
		if !p.Shown {
			interval = strings.TrimSpace(interval + "  not shown")
		}
		rows = append(rows, [5]string{p.What, number(p.Base), number(candidate), w.Signed(p.Extra), interval})
	}
	var wide [5]int
	for _, r := range rows {
		for i := range wide {
			wide[i] = max(wide[i], width(r[i]))
		}
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.TrimRight("  "+padRight(r[0], wide[0])+"  "+padLeft(r[1], wide[1])+"  "+
			padLeft(r[2], wide[2])+"  "+padLeft(r[3], wide[3])+"  "+r[4], " "))
	}
	return lines
}

// countedText has a count of both sides; "" where it explains nothing.
func countedText(c *verdict.Counted) string {
	most, least := math.Max(c.Base, c.Candidate), leastCount
	of := unit.Number
	switch {
	case strings.HasSuffix(c.Name, "_bytes"):
		least, of = leastBytes, func(v float64) string { return unit.Format(v, "B") }
	case strings.HasSuffix(c.Name, "_ns"):
		least, of = leastNS, func(v float64) string { return unit.Format(v, "ns") }
	}
	if most < least || math.Abs(c.Candidate-c.Base) < leastCountDiff*most || countTexts[c.Name] == "" {
		return ""
	}
	return fmt.Sprintf("%s and %s %s", of(c.Base), of(c.Candidate), countTexts[c.Name])
}

// servingText names the threads of the controller's machine that used processors for the candidate.
func servingText(w *verdict.Why) string {
	var parts []string
	for _, s := range w.Serving {
		parts = append(parts, fmt.Sprintf("%s %.2f", clean(s.Name), s.Processors))
	}
	if parts == nil {
		return ""
	}
	return "processors of this machine busy for " + clean(w.Target) + ": " + strings.Join(parts, ", ")
}

// exitsText has the number of exits of the candidate's virtual processors, by reason.
func exitsText(w *verdict.Why) string {
	var parts []string
	for _, e := range w.Exits {
		if e.PerUnit >= leastCount {
			parts = append(parts, unit.Number(e.PerUnit)+" "+strings.ReplaceAll(clean(e.Name), "_", " "))
		}
	}
	if parts == nil {
		return ""
	}
	return fmt.Sprintf("exits of virtual processors of %s for each %s: %s", clean(w.Target), w.Unit,
		strings.Join(parts, ", "))
}
