package verdict

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// The severities of a finding.
const (
	Info     = "info"     // good to know
	Attend   = "warning"  // read it before using the figures
	Withhold = "withheld" // the reason why cells have no verdict
)

// damageFindings stand before all others: a report is passed on without what stood on standard error when it was made.
func damageFindings(e *finder, _ *Result) []Finding {
	var out []Finding
	for _, text := range e.Damage {
		out = append(out, Finding{
			Text:   "this report does not cover the whole bundle, or the bundle was changed: " + text,
			Remedy: "get the original bundle, or measure again",
		})
	}
	return out
}

// openFindings finds the environments and mounts that did not open. A mount that failed for a reason with a rule of its
// own is left to that, and one whose environment failed is named with it.
func openFindings(e *finder, r *Result) []Finding {
	var out []Finding
	at := map[string]int{}
	add := func(t *Target) {
		if t.Error == nil || lacksNFSUDP(t) {
			return
		}
		pe, ok := e.Plan.Target(t.Name)
		needs := ""
		switch {
		case ok && pe.Like != "":
			needs = e.neededBy(pe)
		case ok && pe.IsMount():
			needs = pe.Of
		}
		if n, dead := at[needs]; dead {
			out[n].Targets = append(out[n].Targets, t.Name)
			return
		}
		at[t.Name] = len(out)
		out = append(out, Finding{
			Targets: []string{t.Name},
			Text:    fmt.Sprintf("%s did not open: %s", t.Name, strings.TrimPrefix(t.Error.Message, t.Name+": ")),
			Remedy:  "the evidence is in the bundle's console folder; `tare doctor` says what is missing",
		})
	}
	for _, like := range []bool{false, true} { // those with a neighbour need what may stand behind them
		for i := range r.Targets {
			if t := &r.Targets[i]; (t.Like != "") == like {
				add(t)
			}
		}
	}
	return out
}

// neededBy names the target without which one with a neighbour or of copies cannot open: the one that it is otherwise,
// the place of its neighbour, or the smaller number of copies.
func (e *finder) neededBy(t *plan.Target) string {
	for i := range e.Environments {
		if re := &e.Environments[i]; re.Name == t.Like && re.Error != nil {
			return t.Like
		}
	}
	if n, ok := e.Plan.Neighbour(t.Beside); ok {
		return n.In[t.Like]
	}
	for i := range e.Environments {
		if re := &e.Environments[i]; t.Copies > 0 && re.Like == t.Like && re.Error != nil && re.Name != t.Name {
			return re.Name // they are on record in ascending order
		}
	}
	return t.Like
}

func retryFindings(_ *finder, r *Result) []Finding {
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		if n := len(t.Retries); n > 0 {
			out = append(out, Finding{
				Targets: []string{t.Name},
				Text: fmt.Sprintf("%s opened at attempt %d; the first one failed: %s", t.Name, n+1,
					t.Retries[0].Message),
				Remedy: "the console of each attempt is in the bundle",
			})
		}
	}
	return out
}

// clockFindings tells of wrong clocks, and of the cells whose figures cannot be restated.
func clockFindings(_ *finder, r *Result) []Finding {
	const code = "clock-wrong"
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		for _, w := range t.Warnings {
			if w.Code == code {
				out = append(out, Finding{Targets: []string{t.Name}, Text: w.Text, Remedy: w.Remedy})
			}
		}
	}
	return append(out, withheldFindings(r, code)...)
}

// withheldFindings says for each target which workloads have a withheld verdict.
func withheldFindings(r *Result, code string) []Finding {
	var out []Finding
	at := map[string]int{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Verdict != record.Withheld {
			continue
		}
		for _, w := range c.Warnings {
			if w.Code != code {
				continue
			}
			if n, ok := at[c.Target]; ok {
				addWorkload(&out[n], c.Workload)
				continue
			}
			at[c.Target] = len(out)
			out = append(out, Finding{
				Severity: Withhold, Targets: []string{c.Target}, Workloads: []string{c.Workload},
				Text: fmt.Sprintf("%s %s has no verdict: %s", c.Target, c.Workload, w.Text), Remedy: w.Remedy,
			})
		}
	}
	return out
}

func levelFindings(_ *finder, r *Result) []Finding { return withheldFindings(r, "level-changed") }

// modesFindings tells of primary figures that lie between two groups.
func modesFindings(_ *finder, r *Result) []Finding {
	var out []Finding
	for i := range r.Cells {
		c := &r.Cells[i]
		for _, w := range c.Warnings {
			if c.Primary && w.Code == "two-modes" {
				out = append(out, Finding{Targets: []string{c.Target}, Workloads: []string{c.Workload},
					Text: fmt.Sprintf("%s: %s", c.Workload, w.Text), Remedy: w.Remedy})
			}
		}
	}
	return out
}

func addWorkload(f *Finding, label string) {
	if !slices.Contains(f.Workloads, label) {
		f.Workloads = append(f.Workloads, label)
	}
}

func emulatedFindings(_ *finder, r *Result) []Finding {
	var f Finding
	var others bool
	var remedies []string
	for i := range r.Targets {
		t := &r.Targets[i]
		if !t.Emulated || t.Like != "" {
			continue
		}
		f.Targets = append(f.Targets, t.Name)
		by, _, _ := strings.Cut(t.Outside.Hypervisor, " ")
		switch help := drivers.Known().Nature(by).Speedup; {
		case help == "":
			others = true
		case !slices.Contains(remedies, help):
			remedies = append(remedies, help)
		}
	}
	if len(f.Targets) == 0 {
		return nil
	}
	ask := "whether it does"
	if len(remedies) > 0 {
		ask = "what is there"
	}
	if others {
		remedies = slices.Insert(remedies, 0, "use accel=kvm (hvf on macOS, whpx on Windows) if the host offers it")
	}
	f.Remedy = strings.Join(remedies, ", and ") + "; `tare doctor` says " + ask
	for i := range r.Cells {
		if r.Cells[i].Emulated {
			addWorkload(&f, r.Cells[i].Workload)
		}
	}
	f.Text = fmt.Sprintf("the CPU of %s is emulated in software", strings.Join(withMounts(r, f.Targets), ", "))
	if len(f.Workloads) > 0 {
		f.Text += fmt.Sprintf(": the cost of %s there is the cost of emulation and says nothing about virtualisation",
			few(f.Workloads))
	}
	return []Finding{f}
}

// manyMounts is from how many mounts of one environment on their names are a number.
const manyMounts = 4

// withMounts shortens a list of targets: an environment in it stands for all of its mounts where they are many.
func withMounts(r *Result, names []string) []string {
	mounts := map[string]int{}
	for i := range r.Targets {
		if t := &r.Targets[i]; t.IsMount() && slices.Contains(names, t.Of) && slices.Contains(names, t.Name) {
			mounts[t.Of]++
		}
	}
	var out []string
	for _, name := range names {
		i := slices.IndexFunc(r.Targets, func(t Target) bool { return t.Name == name })
		switch {
		case i >= 0 && mounts[r.Targets[i].Of] >= manyMounts:
		case mounts[name] >= manyMounts:
			out = append(out, fmt.Sprintf("%s and its %d mounts", name, mounts[name]))
		default:
			out = append(out, name)
		}
	}
	return out
}

// biasedFindings finds the workloads in which the host differs from itself, by the null control.
func biasedFindings(e *finder, r *Result) []Finding {
	f := Finding{Remedy: "look for what one trial leaves behind for the next: caches, dirty pages, temperature"}
	warned(r, "null-control-differs", &f)
	if len(f.Workloads) == 0 {
		return nil
	}
	f.Text = fmt.Sprintf("%s measured against itself differs by more than the margin in %s: only much larger "+
		"differences are called DIFFERENT there", e.Plan.Baseline, few(f.Workloads))
	return []Finding{f}
}

// noisyFindings finds the workloads in which the host does not repeat itself.
func noisyFindings(_ *finder, r *Result) []Finding {
	f := Finding{Remedy: "stop other programs on this host, lengthen the trials (--full), or allow more blocks"}
	worst := warned(r, "noisy-host", &f)
	if len(f.Workloads) == 0 {
		return nil
	}
	f.Text = fmt.Sprintf("the host does not repeat itself within the margin: its null control spreads by up to %s "+
		"in %s, and the margin is widened to twice that", percent(worst), few(f.Workloads))
	return []Finding{f}
}

// warned adds the workloads whose deciding cells carry a warning, and returns the largest spread of the null control
// among them.
func warned(r *Result, code string, f *Finding) float64 {
	worst := 0.0
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Primary && slices.ContainsFunc(c.Warnings, func(w record.Warning) bool { return w.Code == code }) {
			addWorkload(f, c.Workload)
			worst = max(worst, c.NullSpread)
		}
	}
	return worst
}

// pagesFindings finds the cells whose sides measured memory with different page sizes.
func pagesFindings(e *finder, _ *Result) []Finding {
	var out []Finding
	for _, c := range e.cells {
		if !c.Primary || all.Named(c.Kind).Family != workload.FamilyMemory || c.decision == nil {
			continue
		}
		// One difference is enough: a host that gives huge pages gives them to every array.
		for _, key := range pageStates(c) {
			a, b := stateValues(c.candidate, key), stateValues(c.baseline, key)
			if alike(a, b) {
				continue
			}
			out = append(out, Finding{
				Targets: []string{c.Target}, Workloads: []string{c.Workload},
				Text: fmt.Sprintf("%s: %s is %s in %s and %s in %s; that alone changes the cost of memory access",
					c.Workload,
					strings.ReplaceAll(key, "_", " "), valuesText(a), c.Target, valuesText(b), c.Baseline),
				Remedy: "set transparent huge pages to the same value on both sides " +
					"(/sys/kernel/mm/transparent_hugepage/enabled)",
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

// alike tells whether two sets of state values say the same. Percentages are compared by their median, because the
// share of memory in huge pages is never quite the same twice.
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
func pageStates(c *cellBuilder) []string {
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

func discardFindings(e *finder, r *Result) []Finding {
	if r.Run.Discarded == 0 {
		return nil
	}
	var rules, labels []string
	for label, blocks := range e.index.rules {
		labels = append(labels, label)
		for _, rule := range blocks {
			if !slices.Contains(rules, rule) {
				rules = append(rules, rule)
			}
		}
	}
	slices.Sort(rules)
	slices.Sort(labels)
	return []Finding{{
		Workloads: labels,
		Text: fmt.Sprintf("%s discarded: %s; the bundle keeps the trials, and each cell says what its ratio "+
			"would be with them", unit.Plural(r.Run.Discarded, "block"), strings.Join(rules, "; ")),
		Remedy: "if there are many, use a quieter host",
	}}
}

func failedFindings(_ *finder, r *Result) []Finding {
	if r.Run.Failed == 0 {
		return nil
	}
	f := Finding{
		Text:   unit.Plural(r.Run.Failed, "trial") + " gave no figures",
		Remedy: "the reason is with each failed trial in trials.ndjson; the evidence is in the bundle's console folder",
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary && c.Verdict == record.Failed {
			addWorkload(&f, c.Workload)
			if !slices.Contains(f.Targets, c.Target) {
				f.Targets = append(f.Targets, c.Target)
			}
		}
	}
	return []Finding{f}
}
