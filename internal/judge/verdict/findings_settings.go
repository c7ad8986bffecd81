package verdict

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/lab/mount"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/shell"
	"tare/internal/unit"
)

// settingFindings tells which settings differ between a target and what it is compared with, as far as they can explain
// a ratio that is DIFFERENT. It claims no cause: that takes a run in which nothing else differs.
func settingFindings(e *finder, r *Result) []Finding {
	rows := explaining()
	var out []Finding
	for i := range r.Targets {
		t := &r.Targets[i]
		base := r.target(e.Plan.Against(t.Name))
		if base == nil || base == t {
			continue
		}
		different := map[string][]string{} // workloads by family
		for j := range r.Cells {
			c := &r.Cells[j]
			if c.Primary && c.Target == t.Name && c.Baseline == base.Name && c.Verdict == record.Different &&
				!slices.Contains(different[c.Family], c.Workload) {
				different[c.Family] = append(different[c.Family], c.Workload)
			}
		}
		var own *Target // the environment of a mount says for all of its mounts what it has
		if t.IsMount() && t.Of != base.Name {
			own = r.target(t.Of)
		}
		if f, ok := explain(rows, t, base, own, different); ok {
			f.Remedy = whichOne(e, r, t, f.Workloads)
			out = append(out, f)
		}
	}
	return out
}

// mostSettings bounds the settings in one sentence; the facts side by side show the others.
const mostSettings = 5

// longestSetting bounds a setting's value in a finding, in characters: a list of mitigations is long.
const longestSetting = 40

// whatDiffers leaves out of two lists with commas the items that both have, so that a long one is not cut before the
// item that differs. Where one has nothing else, both stay as they are.
func whatDiffers(a, b string) (string, string) {
	inA, inB := strings.Split(a, ","), strings.Split(b, ",")
	x := slices.DeleteFunc(slices.Clone(inA), func(item string) bool { return slices.Contains(inB, item) })
	y := slices.DeleteFunc(slices.Clone(inB), func(item string) bool { return slices.Contains(inA, item) })
	if len(x) == 0 || len(y) == 0 {
		return a, b
	}
	return strings.TrimSpace(strings.Join(x, ",")), strings.TrimSpace(strings.Join(y, ","))
}

// explain makes one finding of all settings that differ between two targets.
func explain(rows []setting, t, base, own *Target, different map[string][]string) (f Finding, ok bool) {
	f = Finding{Targets: []string{t.Name}}
	var texts []string
	for _, s := range rows {
		a, b := s.value(t), s.value(base)
		if a == "" || b == "" || a == b || !bears(s, different) || own != nil && own.Error == nil && s.value(own) == a {
			continue
		}
		a, b = whatDiffers(a, b)
		texts = append(texts, fmt.Sprintf("%s %s instead of %s (%s)", s.name, unit.Cut(a, longestSetting),
			unit.Cut(b, longestSetting), s.why))
		for _, family := range sortedFamilies(different) {
			if len(s.families) == 0 || slices.Contains(s.families, family) {
				for _, w := range different[family] {
					addWorkload(&f, w)
				}
			}
		}
	}
	if len(texts) == 0 {
		return f, false
	}
	more := ""
	if n := len(texts) - mostSettings; n > 0 {
		texts, more = texts[:mostSettings], fmt.Sprintf("; and %s more", unit.Plural(n, "setting"))
	}
	f.Text = fmt.Sprintf("these settings may explain why %s differs from %s in %s: %s%s", t.Name, base.Name,
		few(f.Workloads), strings.Join(texts, "; "), more)
	return f, true
}

// Swept returns the drivers and the kinds of mounts some of whose settings tare sweep tries by itself.
var Swept = sync.OnceValue(func() (names []string) {
	tried := func(s env.Setting) bool { return len(s.Try) > 0 }
	for _, d := range drivers.Known().All() {
		if slices.ContainsFunc(d.Settings, tried) {
			names = append(names, d.Name)
		}
	}
	for _, k := range mount.Kinds() {
		if slices.ContainsFunc(k.Settings, tried) {
			names = append(names, k.Name)
		}
	}
	return names
})

// whichOne returns the advice for finding the setting that makes the difference: the sweep that would tell, where there
// is one, or else one more environment.
func whichOne(e *finder, r *Result, t *Target, workloads []string) string {
	const other = "add an environment that differs only in that setting"
	driver, _, _ := strings.Cut(t.Spec, "?")
	driver, _, _ = strings.Cut(driver, ":")
	if !slices.Contains(Swept(), driver) || e.Kinds == nil {
		return "to find out which one it is, " + other
	}
	words := []string{"tare", "sweep", "-e", t.Name + "=" + t.Spec}
	if of := r.target(t.Of); of != nil {
		words = []string{"tare", "sweep", "-e", of.Name + "=" + of.Spec, "-m", t.Name + "=" + t.Spec}
	}
	for i := range e.Plan.Workloads {
		if w := &e.Plan.Workloads[i]; w.Label == workloads[0] {
			k, ok := e.Kinds(w.Kind)
			// Those from or to which a load goes are not in the command.
			if !ok || w.Params[workload.FromParam]+w.Params[workload.ToParam] != "" {
				return "to find out which one it is, " + other
			}
			words = append(words, "-w", e.Plan.AsArgument(k, w))
		}
	}
	return fmt.Sprintf("to find out which one it is, `%s` tries settings of %s one by one; to try another, %s",
		shell.Quote(words...), t.Name, other)
}

// bears tells whether a setting can explain any of the ratios that differ.
func bears(s setting, different map[string][]string) bool {
	if len(s.families) == 0 {
		return len(different) > 0
	}
	return slices.ContainsFunc(s.families, func(f string) bool { return len(different[f]) > 0 })
}

func sortedFamilies(m map[string][]string) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
