package report

import (
	"fmt"
	"strings"

	"tare/internal/unit"
)

// details tells what the targets are and every warning of every cell, each text once.
func (t *terminal) details() {
	t.line("")
	for i := range t.Targets {
		x := &t.Targets[i]
		f := &x.Inside
		parts := []string{clean(x.Spec)}
		for _, s := range []string{f.Distro, f.Kernel, f.Arch, f.CPU, f.Hypervisor, f.WorkFS} {
			if s != "" {
				parts = append(parts, clean(s))
			}
		}
		if f.Threads > 0 {
			parts = append(parts, plural(f.Threads, "CPU"))
		}
		if f.MemoryBytes > 0 {
			parts = append(parts, unit.Format(float64(f.MemoryBytes), "B"))
		}
		if x.OpenS > 0 {
			parts = append(parts, "opened in "+durationText(x.OpenS))
		}
		if x.Emulated {
			parts = append(parts, "emulated CPU")
		}
		t.para(clean(x.Name)+": ", strings.Join(parts, "; "))
	}
	type key struct{ text, remedy string }
	seen := map[key]bool{}
	for i := range t.Cells {
		c := &t.Cells[i]
		for _, w := range c.Warnings {
			k := key{w.Text, w.Remedy}
			if seen[k] {
				continue
			}
			seen[k] = true
			text := fmt.Sprintf("%s %s: %s", clean(c.Target), clean(c.Workload), clean(w.Text))
			if w.Remedy != "" {
				text += "; " + clean(w.Remedy)
			}
			t.para("* ", text)
		}
	}
}
