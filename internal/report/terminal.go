package report

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"tare/internal/compare"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// terminal is one rendering.
type terminal struct {
	*Model
	out      bytes.Buffer
	width    int
	narrow   bool // intervals are half-widths
	usedSign [signs]bool
	usedMark [marks]bool
	margin   float64            // the largest margin behind a "same"
	pointed  map[[2]string]bool // target and workload that a finding speaks of
}

// Terminal writes the table with its legend, the findings, and what the reader must know to judge and to repeat it. The
// settings are in m.Text. The table fits m.Text.Width when it can: first the intervals become half-widths, then the
// candidates stand below each other.
func Terminal(w io.Writer, m *Model) error {
	t := &terminal{Model: m, width: m.Text.Width, pointed: map[[2]string]bool{}}
	if t.width <= 0 {
		t.width = 80
	}
	t.width = max(t.width, 20)
	t.point()
	t.header()
	t.table()
	t.legend()
	t.findings()
	t.failures()
	t.open()
	if m.Text.Details {
		t.details()
	}
	t.footer()
	text := t.out.String()
	if m.Text.ASCII {
		text = ascii.Replace(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// ascii replaces what the report itself writes beyond ASCII; names that the user gave stay as they are.
var ascii = strings.NewReplacer(" µs", " us", "±", "+-", "×", "x")

func (t *terminal) glyph(s sign) string {
	if t.Text.ASCII {
		return glyphs[s].ascii
	}
	return glyphs[s].unicode
}

// line writes one line; of several empty ones only the first.
func (t *terminal) line(format string, args ...any) {
	l := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if l == "" && (t.out.Len() == 0 || bytes.HasSuffix(t.out.Bytes(), []byte("\n\n"))) {
		return
	}
	t.out.WriteString(l + "\n")
}

func (t *terminal) para(prefix, text string) {
	for _, l := range wrap(prefix, text, t.width) {
		t.line("%s", l)
	}
}

// items writes short pieces side by side, as many on a line as fit.
func (t *terminal) items(gap string, items []string) {
	line := ""
	for _, item := range items {
		if line != "" && width(line)+width(gap)+width(item) > t.width {
			t.line("%s", line)
			line = ""
		}
		if line == "" && width(item) > t.width {
			t.para("", item)
			continue
		}
		if line != "" {
			line += gap
		}
		line += item
	}
	if line != "" {
		t.line("%s", line)
	}
}

func (t *terminal) header() {
	blocks := plural(t.Run.Blocks, "block")
	if n := len(t.Targets); n > 1 {
		blocks += fmt.Sprintf(" of %d targets", n)
	}
	items := []string{"tare " + clean(t.Run.Version), "baseline " + clean(t.Run.Baseline), blocks + ", " + clean(t.Run.Scope), durationText(t.Run.Seconds)}
	if t.Run.Name != "" {
		items = append(items, clean(t.Run.Name))
	}
	if t.Bundle != "" {
		items = append(items, "bundle "+clean(t.Bundle))
	}
	t.items("   ", items)
	if !t.Run.Finished {
		t.para("", "This run has not ended: the figures are those so far.")
	}
	t.line("")
}

// point notes which cells a finding speaks of. An emulated CPU has a mark of its own.
func (t *terminal) point() {
	for i := range t.Findings {
		f := &t.Findings[i]
		if f.Severity == compare.Info || f.Code == "emulated" {
			continue
		}
		for j := range t.Cells {
			c := &t.Cells[j]
			if names(f.Targets, c.Target) && names(f.Workloads, c.Workload) && len(f.Targets)+len(f.Workloads) > 0 {
				t.pointed[[2]string{c.Target, c.Workload}] = true
			}
		}
	}
}

// names tells whether a finding's list has the name; an empty list means all.
func names(list []string, name string) bool {
	for _, n := range list {
		if n == name {
			return true
		}
	}
	return len(list) == 0
}

func (t *terminal) legend() {
	var items []string
	for s := range glyphs {
		if !t.usedSign[s] {
			continue
		}
		text := t.glyph(sign(s)) + " " + glyphs[s].legend
		if sign(s) == same {
			text += " " + percentText(t.margin)
		}
		items = append(items, text)
	}
	for f := range markTexts {
		if t.usedMark[f] {
			items = append(items, markTexts[f].mark+" "+markTexts[f].legend)
		}
	}
	if t.narrow {
		items = append(items, "± half the interval")
	}
	t.items("  ", items)
}

func (t *terminal) findings() {
	first := true
	for i := range t.Findings {
		f := &t.Findings[i]
		if first {
			t.line("")
			first = false
		}
		prefix := "! "
		if f.Severity == compare.Info {
			prefix = "- "
		}
		text := clean(f.Text)
		if !strings.HasSuffix(text, ".") {
			text += "."
		}
		if f.Remedy != "" {
			text += " Remedy: " + strings.TrimSuffix(clean(f.Remedy), ".") + "."
		}
		t.para(prefix, text)
	}
}

// failures tells why cells failed, each reason once, except where a finding says it of the whole target.
func (t *terminal) failures() {
	type key struct{ target, message string }
	dead := map[string]bool{}
	for i := range t.Targets {
		dead[t.Targets[i].Name] = t.Targets[i].Error != nil
	}
	var order []key
	workloads := map[key][]string{}
	for i := range t.Cells {
		c := &t.Cells[i]
		if c.Verdict != record.Failed || c.Failure == nil || !c.Primary || dead[c.Target] {
			continue
		}
		k := key{c.Target, c.Failure.Message}
		if workloads[k] == nil {
			order = append(order, k)
		}
		workloads[k] = append(workloads[k], clean(c.Workload))
	}
	if len(order) > 0 {
		t.line("")
	}
	for _, k := range order {
		t.para(t.glyph(failed)+" ", fmt.Sprintf("%s %s: %s", clean(k.target), strings.Join(workloads[k], ", "), clean(k.message)))
	}
}

// open says what the run left open and what would settle it.
func (t *terminal) open() {
	undecided, need, missing := 0, 0, 0
	for i := range t.Cells {
		c := &t.Cells[i]
		if !c.Primary || c.Verdict != record.Inconclusive && c.Verdict != "" {
			continue
		}
		if c.Blocks == 0 {
			missing++
			continue
		}
		undecided++
		need = max(need, c.BlocksNeeded)
	}
	if undecided+missing > 0 {
		t.line("")
	}
	if undecided > 0 {
		text := plural(undecided, "cell") + " cannot be told yet"
		switch {
		case need > plan.MostBlocks:
			text += fmt.Sprintf("; not even %d blocks would settle the worst of them: lengthen the trials (--full), quiet the machine, or accept a larger margin", plan.MostBlocks)
		case need > 0:
			text += fmt.Sprintf("; about %s would settle them (--blocks %d), or a larger margin", plural(need, "block"), need)
		}
		t.para(t.glyph(cannotTell)+" ", text+".")
	}
	if missing > 0 {
		t.para(t.glyph(notRun)+" ", plural(missing, "cell")+" of the plan had no block.")
	}
}

func (t *terminal) footer() {
	t.line("")
	n := &t.Null
	switch {
	case len(t.Columns) == 1 && t.Columns[0].Target.Baseline:
		t.para("", fmt.Sprintf("Only %s was measured, against itself. Add an environment with -e to compare it with another.", clean(t.Run.Baseline)))
	case n.Cells == 0:
		t.para("", "null control: no figure; how well this host repeats itself is not known.")
	default:
		text := fmt.Sprintf("null control: %s against itself %s spread", clean(t.Run.Baseline), percentText(n.Spread))
		if n.Cells > 1 {
			text += fmt.Sprintf(" (the worst of %d workloads %s)", n.Cells, percentText(n.Worst))
		}
		if n.Tells > 0 {
			text += fmt.Sprintf("; smallest difference this run could tell: %s", percentText(n.Tells))
		}
		t.para("", text+".")
	}
	if len(t.Columns) > 0 {
		text := fmt.Sprintf("A ratio is the cost against %s: 2.00 is twice the time per operation.", clean(t.Run.Baseline))
		if t.Run.Alpha > 0 {
			text += fmt.Sprintf(" The intervals hold at %s over all looks, %s.", percentText(1-t.Run.Alpha), clean(t.Run.Scope))
		}
		t.para("", text)
	}
	if t.Bundle == "" {
		return
	}
	repeat := "repeat: tare run " + shellWord(filepath.Join(t.Bundle, "plan.yaml"))
	if !t.Run.Finished {
		repeat = "go on: tare run --resume " + shellWord(t.Bundle)
	}
	check := "check: tare verify " + shellWord(t.Bundle)
	// Commands are not wrapped, so that they can be copied.
	if width(repeat)+len(gutter)+width(check) <= t.width {
		t.line("%s", repeat+gutter+check)
		return
	}
	t.line("%s", repeat)
	t.line("%s", check)
}

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
