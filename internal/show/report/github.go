package report

import (
	"bytes"
	"fmt"
	"io"

	"tare/internal/judge/failif"
	"tare/internal/unit"
)

// maxSummary is GitHub's limit for the summary of one step, in bytes; it refuses a longer summary.
const maxSummary = 1 << 20

// GitHub writes a summary for a step of GitHub Actions ($GITHUB_STEP_SUMMARY): whether the conditions to fail on hold,
// the answers, the table, and everything else folded away. It stays below the size that GitHub takes.
func GitHub(w io.Writer, m *Model) error {
	d := newMarkdown(m)
	d.line("## tare: %s", markdownText(m.title()))
	d.failIf()
	d.answers()
	d.table(false)
	head := d.out.Len()
	d.fold("What to know before using the figures", func() { d.notes("") })
	if err := d.writeCosts(); err != nil {
		return fmt.Errorf("write GitHub summary: %w", err)
	}
	d.folded()
	d.closing()
	out := d.out.Bytes()
	if len(out) > maxSummary {
		const note = "\n\nThe rest is left out, because GitHub accepts 1 MiB of summary. `--format markdown` has " +
			"all of it.\n"
		end := min(head, maxSummary-len(note))
		if head > end {
			end = max(0, bytes.LastIndexByte(out[:end], '\n'))
		}
		out = append(out[:end:end], note...)
	}
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("write GitHub summary: %w", err)
	}
	return nil
}

func (d *markdown) failIf() {
	if len(d.FailIf) == 0 {
		return
	}
	broken, unknown := 0, 0
	grid := [][]string{{"", "fails if", "because"}}
	for _, g := range d.FailIf {
		sign := "✅"
		switch g.State {
		case failif.Holds:
			broken++
			sign = "❌"
		case failif.Unknown:
			unknown++
			sign = "❔"
		}
		grid = append(grid, []string{sign, markdownText(g.Expr), markdownText(g.Text)})
	}
	d.line("")
	all := unit.Plural(len(d.FailIf), "condition") + " to fail on"
	if broken > 0 {
		d.line("> [!CAUTION]")
		d.line("> %d of %s holds: the run fails.", broken, all)
	}
	if unknown > 0 {
		if broken > 0 {
			d.line("") // two alerts are two quotations
		}
		d.line("> [!WARNING]")
		d.line("> %d of %s cannot be decided.", unknown, all)
	}
	if broken+unknown == 0 {
		d.line("> [!TIP]")
		d.line("> None of %s holds.", all)
	}
	d.line("")
	d.grid(grid, -1)
}
