package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/unit"
)

// Markdown writes GitHub's dialect: the answers, one table with its legend, the notes that are needed to judge it, the
// costs restated and the value of a saving where they were asked for, and folded away the figures of every metric, the
// effect of flushes and the facts of each target. The table's source is aligned, so that it reads well as plain text
// too.
func Markdown(w io.Writer, m *Model) error {
	d := newMarkdown(m)
	d.line("## tare: %s", markdownText(m.title()))
	d.answers()
	d.table(false)
	d.notes("###")
	if err := d.writeCosts(); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	d.folded()
	d.closing()
	if _, err := w.Write(d.out.Bytes()); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	return nil
}

// markdown is one rendering. It borrows the terminal's entries and notes.
type markdown struct {
	*terminal
	out bytes.Buffer
}

func newMarkdown(m *Model) *markdown {
	t := &terminal{Model: m, pointed: map[[2]string]bool{}}
	t.point()
	return &markdown{terminal: t}
}

func (d *markdown) line(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

func (d *markdown) answers() {
	d.line("")
	for _, a := range d.Answers() {
		d.line("- %s", markdownText(a.Text))
	}
	d.line("")
	d.line("%s.", markdownText(sentence(d.subtitle())))
	d.line("")
}

// table writes the cells of the primary metrics, or with all those of every metric.
func (d *markdown) table(all bool) {
	if len(d.Rows) == 0 {
		return
	}
	rows := d.rowsOf(all, false)
	grid := [][]string{{"workload", markdownText(d.Run.Baseline)}}
	for _, c := range d.Columns {
		grid[0] = append(grid[0], markdownText(c.Name()))
	}
	for _, r := range rows {
		label := markdownText(strings.TrimLeft(r.label, " "))
		if strings.HasPrefix(r.label, " ") {
			label = "↳ " + label // a leading space would be lost
		}
		line := []string{label, markdownText(r.baseline)}
		for _, s := range r.entries {
			line = append(line, d.markdownEntry(s))
		}
		grid = append(grid, line)
	}
	d.grid(grid, 1)
	d.line("")
	d.line("%s", strings.Join(d.legendItems(), " · "))
	if text := d.flushSummary(); text != "" && !all {
		d.line("")
		d.line("%s.", markdownText(sentence(text)))
	}
}

// markdownEntry writes an entry on one line: ▲ 9.80 [9.76, 9.84] e!
func (d *markdown) markdownEntry(s tableEntry) string {
	var parts []string
	if !s.noSign {
		glyph := d.glyph(s.sign)
		if d.Text.ASCII {
			glyph = markdownText(glyph)
		}
		parts = append(parts, glyph)
	}
	interval := s.interval
	if interval != "" {
		interval = "(" + interval + ")"
	}
	for _, p := range []string{s.ratio, interval, s.flags} {
		if p != "" {
			parts = append(parts, markdownText(p))
		}
	}
	return strings.Join(parts, " ")
}

// grid writes a table whose columns from right on are aligned to the left and the one at right to the right.
func (d *markdown) grid(rows [][]string, right int) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, s := range r {
			widths[i] = max(widths[i], width(s), 3)
		}
	}
	for n, r := range rows {
		l := "|"
		for i, s := range r {
			if i == right {
				l += " " + padLeft(s, widths[i]) + " |"
				continue
			}
			l += " " + padRight(s, widths[i]) + " |"
		}
		d.line("%s", l)
		if n > 0 {
			continue
		}
		l = "|"
		for i, w := range widths {
			if i == right {
				l += strings.Repeat("-", w+1) + ":|"
				continue
			}
			l += strings.Repeat("-", w+2) + "|"
		}
		d.line("%s", l)
	}
}

// notes lists findings, failures and open questions, below a heading of this level if any.
func (d *markdown) notes(heading string) {
	var notes []note
	for _, group := range [][]note{d.findings(), d.failures(), d.terminal.open()} {
		notes = append(notes, group...)
	}
	if len(notes) == 0 {
		return
	}
	if heading != "" {
		d.line("")
		d.line("%s What to know before using the figures", heading)
		d.line("")
	}
	for _, n := range notes {
		prefix := strings.Trim(n.prefix, " ")
		if prefix == "-" {
			d.line("- %s", markdownText(n.text))
			continue
		}
		d.line("- **%s** %s", markdownText(prefix), markdownText(n.text))
	}
}

// folded are the sections that few readers need.
func (d *markdown) folded() {
	if len(d.Groups) > 0 {
		d.fold("Which parts of the work make the difference", d.groupTables)
	}
	secondary := false
	for i := range d.Rows {
		secondary = secondary || !d.Rows[i].Primary
	}
	if secondary {
		d.fold("Every metric", func() { d.table(true) })
	}
	if slices.ContainsFunc(d.Targets, func(t verdict.Target) bool { return t.Durability != nil }) {
		d.fold("What is known of a flush", d.flushTable)
	}
	d.fold("The targets", d.targets)
}

func (d *markdown) fold(title string, body func()) {
	d.line("")
	d.line("<details><summary>%s</summary>", title)
	d.line("")
	body()
	d.line("")
	d.line("</details>")
}

func (d *markdown) targets() {
	grid := [][]string{{"target", "made by", "system", "processor", "memory", "file system"}}
	for i := range d.Targets {
		t := &d.Targets[i]
		f := &t.Inside
		memory := ""
		if f.MemoryBytes > 0 {
			memory = unit.Format(float64(f.MemoryBytes), "B")
		}
		cpu := clean(f.CPU)
		if f.Threads > 0 {
			cpu = strings.TrimPrefix(fmt.Sprintf("%s, %s", cpu, unit.Plural(f.Threads, "CPU")), ", ")
		}
		if t.Emulated {
			cpu += ", emulated"
		}
		line := []string{clean(t.Name), clean(t.Spec), joinKnown("; ", f.Distro, f.Kernel, f.Arch, f.Hypervisor), cpu,
			memory, clean(f.WorkFS)}
		for j := range line {
			line[j] = markdownText(line[j])
		}
		grid = append(grid, line)
	}
	d.grid(grid, -1)
}

func (d *markdown) closing() {
	d.line("")
	for _, text := range d.terminal.closing() {
		d.line("%s  ", markdownText(text))
	}
	for _, c := range d.commands() {
		d.line("%s %s  ", strings.TrimSpace(c.prefix), code(c.text))
	}
}

// joinKnown joins the texts that are not empty, cleaned.
func joinKnown(between string, texts ...string) string {
	var parts []string
	for _, s := range texts {
		if s = clean(s); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, between)
}

// markdownEscapes makes text mean itself. An empty comment splits words that GitHub would turn into a link or, worse,
// into a message to a person: @name, #123, addresses.
var markdownEscapes = strings.NewReplacer(
	"\\", "\\\\", "`", "\\`", "*", "\\*", "[", "\\[", "]", "\\]", "|", "\\|", "~", "\\~", "_", "\\_",
	"<", "&lt;", ">", "&gt;", "&", "&amp;", "@", "@<!-- -->", "#", "#<!-- -->", "://", ":<!-- -->//", "www.",
	"www<!-- -->.", "WWW.", "WWW<!-- -->.",
)

// markdownText makes foreign text fit for a line or a table's cell of Markdown.
func markdownText(s string) string {
	s = markdownEscapes.Replace(clean(s))
	// A line that begins with these would be a list or a rule.
	if s != "" && strings.ContainsRune("-+", rune(s[0])) {
		s = "\\" + s
	}
	return s
}

// code makes text a code span, whatever backticks it has (CommonMark 6.1).
func code(s string) string {
	s = clean(s)
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// longestRun is the length of the longest run of a character.
func longestRun(s string, of rune) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
