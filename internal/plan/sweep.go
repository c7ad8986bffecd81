package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// maxSweep bounds the values of one parameter.
const maxSweep = 64

// sweep makes a workload for each combination of the values of parameters that are lists or ranges. A combination that
// the kind refuses, such as a record larger than its file, is left out where others remain.
func (r *reader) sweep(w Workload, k *workload.Kind, list []given, at pos) []Workload {
	one := func(texts map[string]string) (Workload, bool) {
		these := slices.Clone(list)
		for i := range these {
			these[i].text = texts[these[i].name]
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if !slices.ContainsFunc(list, func(g given) bool { return g.name == name }) { // of a preset
				these = append(these, given{name: name, text: texts[name], at: at, value: at})
			}
		}
		p, ok := r.params(k, these, at)
		w.Params = p
		return w, ok
	}
	texts, lists := map[string]string{}, map[string][]string{}
	for _, g := range list {
		texts[g.name] = g.text
		if g.items != nil {
			lists[g.name] = g.items
		}
	}
	if k == nil {
		w, ok := one(texts)
		if !ok {
			return nil
		}
		return []Workload{w}
	}
	combinations, err := combine(k, texts, lists)
	if err != nil {
		r.p.add(at, "%s: %v", k.Name, err)
		return nil
	}
	if len(combinations) > 1 {
		fitting := slices.DeleteFunc(slices.Clone(combinations), func(c map[string]string) bool {
			p, err := k.Resolve(c)
			return err == nil && together(k, p) != nil
		})
		if len(fitting) > 0 {
			combinations = fitting
		}
	}
	var all []Workload
	for _, c := range combinations {
		each, ok := one(c)
		if !ok {
			break // one mistake is told once, not for each combination
		}
		all = append(all, each)
	}
	tellApart(k, all)
	return all
}

// tellApart adds to the common label of a sweep's workloads the values in which they differ.
func tellApart(k *workload.Kind, all []Workload) {
	if len(all) < 2 || all[0].Label == "" {
		return
	}
	for _, p := range k.Params {
		if !slices.ContainsFunc(all, func(w Workload) bool { return w.Params[p.Name] != all[0].Params[p.Name] }) {
			continue
		}
		for i := range all {
			all[i].Label += " " + p.Name + "=" + shortText(all[i].Params[p.Name])
		}
	}
}

// combine returns every combination of the parameters' values: those of lists, of texts that are ranges of sizes, and
// of names that the kind knows to mean several. More than a plan holds are an error.
func combine(k *workload.Kind, texts map[string]string, lists map[string][]string) ([]map[string]string, error) {
	tooMany := func(n int) error {
		return fmt.Errorf("the lists and ranges of parameters give %d workloads and more; at most %d fit a plan", n,
			maxWorkloads)
	}
	out := []map[string]string{maps.Clone(texts)}
	if out[0] == nil {
		out[0] = map[string]string{}
	}
	for _, p := range k.Params { // in the table's order, so that the last parameter varies fastest
		values := lists[p.Name]
		if values == nil {
			values = doubling(&p, texts[p.Name])
		}
		if values == nil {
			continue
		}
		if n := len(out) * len(values); n > maxWorkloads {
			return nil, tooMany(n)
		}
		var next []map[string]string
		for _, c := range out {
			for _, v := range values {
				n := maps.Clone(c)
				n[p.Name] = v
				next = append(next, n)
			}
		}
		out = next
	}
	if k.Expand == nil {
		return out, nil
	}
	var all []map[string]string
	for _, c := range out {
		if all = append(all, k.Expand(c)...); len(all) > maxWorkloads {
			return nil, tooMany(len(all))
		}
	}
	return all, nil
}

// doubling reads a range of sizes such as 4KiB..1MiB: each size is twice the one before. It returns nil for what is
// none.
func doubling(p *workload.Param, text string) []string {
	low, high, ok := strings.Cut(text, "..")
	if !ok || p.Type != workload.Size {
		return nil
	}
	a, err1 := unit.ParseSize(strings.TrimSpace(low))
	b, err2 := unit.ParseSize(strings.TrimSpace(high))
	if err1 != nil || err2 != nil || a <= 0 || b < a {
		return nil
	}
	var out []string
	for v := a; v <= b && len(out) < maxSweep; v *= 2 {
		out = append(out, unit.FormatSize(v))
	}
	return out
}
