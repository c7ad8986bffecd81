package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// terminal is one rendering.
type terminal struct {
	*Model
	out    bytes.Buffer
	width  int
	narrow bool // intervals are half-widths
	// plainTable says that the table has no bars.
	plainTable bool
	axis       *logAxis // of the bars; nil where there are none
	usedSign   [signs]bool
	usedMark   [marks]bool
	unlisted   bool               // a workload does not list the targets that it was not asked of
	margin     float64            // the largest margin behind a "same"
	pointed    map[[2]string]bool // target and workload that a finding speaks of
	durable    map[string]*record.Durability
}

// Terminal writes the table with its legend, the findings, and the notes that the reader needs to judge and to repeat
// it. The settings are in m.Text. The table fits m.Text.Width when it can: first the intervals become half-widths, then
// the candidates stand below each other.
func Terminal(w io.Writer, m *Model) error {
	t := &terminal{Model: m, width: m.Text.Width, pointed: map[[2]string]bool{}}
	if t.width <= 0 {
		t.width = 80
	}
	t.width = max(t.width, 20)
	t.point()
	t.header()
	t.tables()
	groups := t.groupLines() // first: the legend explains their signs too
	t.legend()
	t.flushes()
	t.lines(groups)
	t.lines(t.whyLines())
	return t.finish(w, t.open())
}

// finish adds the notes on the figures, with the open questions last, and writes all.
func (t *terminal) finish(w io.Writer, open []note) error {
	for _, group := range [][]note{t.findings(), t.failures(), open} {
		if len(group) > 0 {
			t.line("")
		}
		for _, n := range group {
			t.para(n.prefix, n.text)
		}
	}
	if t.Text.Details {
		t.details()
	}
	t.footer()
	text := t.out.String()
	if t.Text.ASCII {
		text = ascii.Replace(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// ascii replaces the report's own characters beyond ASCII; names that the user gave stay as they are.
var ascii = strings.NewReplacer(" µs", " us", "±", "+-", "×", "x", "…", "~")

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

// readable is the width of prose, in columns: longer lines lose the eye on its way back. Tables take all the width.
const readable = 120

func (t *terminal) para(prefix, text string) {
	for _, l := range wrap(prefix, text, min(t.width, readable)) {
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
	blocks := unit.Plural(t.Run.Blocks, "block")
	if n := len(t.Targets); n > 1 {
		blocks += fmt.Sprintf(" of %d targets", n)
	}
	items := []string{"tare " + clean(t.Run.Version), "baseline " + clean(t.Run.Baseline),
		blocks + ", " + clean(t.Run.Scope), durationText(t.Run.Seconds)}
	if t.Run.Name != "" {
		items = append(items, clean(t.Run.Name))
	}
	if t.Bundle != "" {
		items = append(items, "bundle "+clean(t.Bundle))
	}
	t.items("   ", items)
	if !t.Run.Finished {
		t.para("", "This run has not ended: these are the figures so far.")
	}
	t.line("")
}

// point notes the cells of each finding, and the durability class of each target. An emulated CPU has a mark of its
// own.
func (t *terminal) point() {
	t.durable = map[string]*record.Durability{}
	for i := range t.Targets {
		t.durable[t.Targets[i].Name] = t.Targets[i].Durability
	}
	for i := range t.Findings {
		f := &t.Findings[i]
		if f.Severity == verdict.Info || f.Code == "emulated" {
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

func (t *terminal) legend() { t.items("  ", t.legendItems()) }

// legendItems explains the signs and marks that the table uses.
func (t *terminal) legendItems() []string {
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
	if t.unlisted {
		items = append(items, "not listed: not asked of that target")
	}
	if t.axis != nil {
		items = append(items, fmt.Sprintf("%s bars from %s to %s on a log axis, %s is 1", t.drawing().center,
			ratioText(t.axis.low), ratioText(t.axis.high), t.drawing().one))
	}
	return items
}

// flushes writes the evidence for the marks of flushes.
func (t *terminal) flushes() {
	if text := t.flushSummary(); text != "" {
		t.para("", text)
	}
}

func (t *terminal) footer() {
	t.line("")
	for _, text := range t.closing() {
		t.para("", text)
	}
	commands := t.commands()
	if len(commands) == 0 {
		return
	}
	// Commands are not wrapped, so that they can be copied.
	repeat, check := commands[0].prefix+commands[0].text, commands[1].prefix+commands[1].text
	if width(repeat)+len(gutter)+width(check) <= t.width {
		t.line("%s", repeat+gutter+check)
		return
	}
	t.line("%s", repeat)
	t.line("%s", check)
}
