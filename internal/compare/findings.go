package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/record"
)

// The severities of a finding.
const (
	Info     = "info"     // good to know
	Attend   = "warning"  // read it before using the figures
	Withhold = "withheld" // the reason why cells have no verdict
)

// suspiciousBelow is the ratio below which a candidate that writes is suspected of not writing.
const suspiciousBelow = 0.9

// writing lists the kinds whose work ends on a medium.
var writing = []string{"fs.seqwrite", "fs.randwrite", "fs.smallfiles"}

// findings tells what a reader must know of the whole run, the gravest first.
func (e *evaluation) findings(r *Result) []Finding {
	var out []Finding
	out = append(out, e.openFindings(r)...)
	out = append(out, clockFindings(r)...)
	out = append(out, withheldFindings(r)...)
	out = append(out, emulatedFindings(r)...)
	out = append(out, e.hostFindings(r)...)
	out = append(out, fasterFindings(r)...)
	out = append(out, e.pagesFindings()...)
	out = append(out, e.runFindings(r)...)
	return out
}

func (e *evaluation) openFindings(r *Result) []Finding {
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Error != nil {
			out = append(out, Finding{
				Code: "target-failed", Severity: Attend, Targets: []string{t.Name},
				Text:   fmt.Sprintf("%s did not open: %s", t.Name, t.Error.Message),
				Remedy: "the evidence is in the bundle's console folder; `tare doctor` says what is missing",
			})
		}
		if n := len(t.Retries); n > 0 {
			out = append(out, Finding{
				Code: "boot-retried", Severity: Info, Targets: []string{t.Name},
				Text:   fmt.Sprintf("%s opened at attempt %d; the first: %s", t.Name, n+1, t.Retries[0].Message),
				Remedy: "the console of each attempt is in the bundle",
			})
		}
	}
	return out
}

func clockFindings(r *Result) []Finding {
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		for _, w := range t.Warnings {
			if w.Code == "clock-wrong" {
				out = append(out, Finding{Code: w.Code, Severity: Attend, Targets: []string{t.Name}, Text: w.Text, Remedy: w.Remedy})
			}
		}
	}
	return out
}

// withheldFindings says for each reason and target which workloads have no verdict.
func withheldFindings(r *Result) []Finding {
	var out []Finding
	at := map[[2]string]int{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Verdict != record.Withheld {
			continue
		}
		for _, w := range c.Warnings {
			if !forbids(w.Code) {
				continue
			}
			k := [2]string{w.Code, c.Target}
			if n, ok := at[k]; ok {
				addWorkload(&out[n], c.Workload)
				continue
			}
			at[k] = len(out)
			out = append(out, Finding{
				Code: w.Code, Severity: Withhold, Targets: []string{c.Target}, Workloads: []string{c.Workload},
				Text: fmt.Sprintf("%s %s has no verdict: %s", c.Target, c.Workload, w.Text), Remedy: w.Remedy,
			})
		}
	}
	return out
}

// forbids tells whether a warning's code is a reason to withhold a verdict.
func forbids(code string) bool {
	return withholding[code] || withholdingOneSided[code] ||
		code == kindRefused || code == "unequal-work" || code == "short-trials" || code == "unequal-access" || code == "clock-wrong" ||
		code == "target-lost" || code == "given-up"
}

func addWorkload(f *Finding, label string) {
	if !slices.Contains(f.Workloads, label) {
		f.Workloads = append(f.Workloads, label)
	}
}

func emulatedFindings(r *Result) []Finding {
	f := Finding{Code: "emulated", Severity: Attend, Remedy: "use accel=kvm (hvf on macOS, whpx on Windows) where the host offers it; `tare doctor` says whether it does"}
	for i := range r.Targets {
		if r.Targets[i].Emulated {
			f.Targets = append(f.Targets, r.Targets[i].Name)
		}
	}
	if len(f.Targets) == 0 {
		return nil
	}
	for i := range r.Cells {
		if r.Cells[i].Emulated {
			addWorkload(&f, r.Cells[i].Workload)
		}
	}
	f.Text = fmt.Sprintf("the CPU of %s is emulated in software", strings.Join(f.Targets, ", "))
	if len(f.Workloads) > 0 {
		f.Text += fmt.Sprintf(": what %s cost there is the price of emulation and says nothing of virtualisation", few(f.Workloads))
	}
	return []Finding{f}
}

// hostFindings tells how well the host repeats itself.
func (e *evaluation) hostFindings(r *Result) []Finding {
	noisy := Finding{Code: "noisy-host", Severity: Attend, Remedy: "close what else runs here, lengthen the trials (--full), or allow more blocks"}
	biased := Finding{Code: "null-control-differs", Severity: Attend, Remedy: "look for what one trial leaves to the next: caches, dirty pages, temperature"}
	worst := 0.0
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Primary {
			continue
		}
		for _, w := range c.Warnings {
			switch w.Code {
			case noisy.Code:
				addWorkload(&noisy, c.Workload)
				worst = max(worst, c.NullSpread)
			case biased.Code:
				addWorkload(&biased, c.Workload)
			}
		}
	}
	var out []Finding
	if len(biased.Workloads) > 0 {
		biased.Text = fmt.Sprintf("%s measured against itself differs by more than the margin in %s: only costs far beyond that are called DIFFERENT there", e.Plan.Baseline, few(biased.Workloads))
		out = append(out, biased)
	}
	if len(noisy.Workloads) > 0 {
		noisy.Text = fmt.Sprintf("the host does not repeat itself within the margin: its null control spreads by up to %s in %s, and the margin is widened to twice that", percent(worst), few(noisy.Workloads))
		out = append(out, noisy)
	}
	return out
}

// fasterFindings points at candidates that write faster than the baseline's own medium.
func fasterFindings(r *Result) []Finding {
	var out []Finding
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Primary || !slices.Contains(writing, c.Kind) || c.High <= 0 || c.High >= suspiciousBelow {
			continue
		}
		out = append(out, Finding{
			Code: "faster-than-baseline", Severity: Attend, Targets: []string{c.Target}, Workloads: []string{c.Workload},
			Text: fmt.Sprintf("%s writes faster than %s in %s (cost %.2f [%.2f, %.2f]): a cache in between or an elided flush may be why",
				c.Target, c.Baseline, c.Workload, c.Ratio.Center, c.Low, c.High),
			Remedy: "compare with a setting that reaches the medium (cache=none, fsync=true, a volume instead of memory) before calling it an advantage",
		})
	}
	return out
}

// pagesFindings tells where memory was measured with different page sizes.
func (e *evaluation) pagesFindings() []Finding {
	var out []Finding
	for _, c := range e.cells {
		if !c.Primary || !strings.HasPrefix(c.Kind, "memory.") || c.decision == nil {
			continue
		}
		// One difference is enough: a host that gives huge pages gives them to every array.
		for _, key := range pageStates(c) {
			a, b := stateValues(c.candidate, key), stateValues(c.baseline, key)
			if alike(a, b) {
				continue
			}
			out = append(out, Finding{
				Code: "huge-pages-differ", Severity: Attend, Targets: []string{c.Target}, Workloads: []string{c.Workload},
				Text: fmt.Sprintf("%s: %s is %s in %s and %s in %s, which alone changes what memory costs", c.Workload,
					strings.ReplaceAll(key, "_", " "), valuesText(a), c.Target, valuesText(b), c.Baseline),
				Remedy: "set transparent huge pages alike on both sides (/sys/kernel/mm/transparent_hugepage/enabled) to compare memory alone",
			})
			break
		}
	}
	return out
}

// few names workloads as far as a sentence bears it; a finding's Workloads has them all.
func few(labels []string) string {
	const most = 3
	if len(labels) <= most+1 {
		return strings.Join(labels, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(labels[:most], ", "), len(labels)-most)
}

// shareApart is by how many percentage points two shares may differ and still count as alike.
const shareApart = 10

// alike tells whether two sets of state values say the same. Percentages are compared by their median, because the share
// of memory in huge pages is never quite the same twice.
func alike(a, b []string) bool {
	if slices.Equal(a, b) {
		return true
	}
	x, y := medianOf(percentages(a)), medianOf(percentages(b))
	return math.Abs(x-y) <= shareApart // false when one of them has no percentage: NaN
}

func percentages(values []string) []float64 {
	var out []float64
	for _, v := range values {
		if p, err := strconv.ParseFloat(strings.TrimSuffix(v, "%"), 64); err == nil && strings.HasSuffix(v, "%") {
			out = append(out, p)
		}
	}
	return out
}

// pageStates lists the states of a cell's trials that tell of huge pages.
func pageStates(c *work) []string {
	var keys []string
	for _, s := range []*series{c.candidate, c.baseline} {
		for _, k := range s.keys {
			for name := range s.used[k].State {
				if strings.Contains(name, "huge") && !slices.Contains(keys, name) {
					keys = append(keys, name)
				}
			}
		}
	}
	slices.Sort(keys)
	return keys
}

func (e *evaluation) runFindings(r *Result) []Finding {
	var out []Finding
	if r.Run.Discarded > 0 {
		var rules, labels []string
		for label, blocks := range e.rules {
			labels = append(labels, label)
			for _, rule := range blocks {
				if !slices.Contains(rules, rule) {
					rules = append(rules, rule)
				}
			}
		}
		slices.Sort(rules)
		slices.Sort(labels)
		out = append(out, Finding{
			Code: "blocks-discarded", Severity: Info, Workloads: labels,
			Text:   fmt.Sprintf("%s discarded: %s; what was measured is kept in the bundle, and each cell says what it would change", plural(r.Run.Discarded, "block"), strings.Join(rules, "; ")),
			Remedy: "a quieter host, if they are many",
		})
	}
	if r.Run.Failed > 0 {
		f := Finding{
			Code: "trials-failed", Severity: Attend,
			Text:   plural(r.Run.Failed, "trial") + " gave no figures",
			Remedy: "each failed trial says why in trials.ndjson; the evidence is in the console folder",
		}
		for i := range r.Cells {
			if c := &r.Cells[i]; c.Primary && c.Verdict == record.Failed {
				addWorkload(&f, c.Workload)
				if !slices.Contains(f.Targets, c.Target) {
					f.Targets = append(f.Targets, c.Target)
				}
			}
		}
		out = append(out, f)
	}
	return out
}

// plural counts things: "1 trial", "3 trials".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
