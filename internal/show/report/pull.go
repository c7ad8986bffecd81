package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"tare/internal/judge/failif"
	"tare/internal/judge/recurrence"
	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// Bounds of a comment on a pull request.
const (
	// maxComment is less than GitHub's limit for a comment and for the summary of a check, 65,536 characters.
	maxComment   = 60000 // bytes
	mostPullRows = 40
	mostPullLog  = 30 // lines
)

// Pull is the outcome of a pull request: the results of its comparisons, or why there are none.
type Pull struct {
	Name       string // in the marker; letters, digits, dots, dashes and underscores
	Base, Head string // commits, in full; "" if not known
	Link       string // of the run in the CI system, a URL; "" for none
	Results    []PullResult
	Strict     bool // an undecided condition fails
	// Problem says why nothing is compared, and Log the last that was said then; "" if something is.
	Problem, Log string
	// Elsewhere counts the earlier runs that did not count because they were on another processor than Processor.
	Elsewhere int
	Processor string
	// Annotate is the file that annotations are at, with the line, from 1.
	Annotate string
	Line     int
}

// PullResult is a result, with the recurrence of its differences in earlier runs.
type PullResult struct {
	*Model
	Figures []recurrence.Cell // of the result, as the history has them
	Seen    []recurrence.Seen // of Figures
}

func (r *PullResult) seen(c *verdict.Cell) recurrence.Seen {
	return recurrence.Find(r.Figures, r.Seen, c)
}

// PullConclusion is how a comparison of a pull request ended, in GitHub's words for a check.
type PullConclusion string

// The conclusions of a check. Neutral is the one of undecided conditions.
const (
	PullSuccess PullConclusion = "success"
	PullFailure PullConclusion = "failure"
	PullNeutral PullConclusion = "neutral"
)

var pullSigns = map[PullConclusion]string{PullSuccess: "✅", PullFailure: "❌", PullNeutral: "❔"}

// PullMarker is the first line of the comment of a name, by which it is found again.
func PullMarker(name string) string { return "<!-- tare pull " + name + " -->" }

// Conclusion says how it ended, and why, in one line of plain text.
func (p *Pull) Conclusion() (PullConclusion, string) {
	if p.Problem != "" {
		return PullFailure, unit.Cut("not compared: "+clean(p.Problem), maxTitle)
	}
	holds, unknown, conditions, open := 0, 0, 0, 0
	var answers []string
	for i := range p.Results {
		m := &p.Results[i]
		for _, o := range m.FailIf {
			conditions++
			switch o.State {
			case failif.Holds:
				holds++
			case failif.Unknown:
				unknown++
			}
		}
		for j := range m.Cells {
			switch c := &m.Cells[j]; c.Verdict {
			case record.Different, record.Equivalent, record.Measured:
			default:
				if c.Primary {
					open++
				}
			}
		}
		answers = append(answers, m.pullAnswers()...)
	}
	text := strings.Join(answers, "; ")
	if len(answers) > 2 {
		text = fmt.Sprintf("%s and %d more", strings.Join(answers[:2], "; "), len(answers)-2)
	}
	text = unit.Cut(text, maxTitle)
	switch {
	case holds > 0:
		return PullFailure, unit.Cut("beyond the limit: "+text, maxTitle)
	case unknown > 0 || open > 0:
		if p.Strict {
			return PullFailure, unit.Cut("not certain enough (--strict): "+text, maxTitle)
		}
		if conditions == 0 || unknown > 0 {
			return PullNeutral, text
		}
	}
	if conditions > 0 { // it is certain of each that it does not hold, whatever else is open
		text = unit.Cut("within the limit: "+text, maxTitle)
	}
	return PullSuccess, text
}

// pullAnswers has a sentence for each target or case that is compared.
func (m *Model) pullAnswers() []string {
	var out []string
	t := newMarkdown(m).terminal
	if cases := t.cases(); len(cases) > 0 {
		for i := range m.Columns {
			text, _, _ := strings.Cut(t.counted(m.Columns[i].Target.Name, cases), ". ") // how sure that is, is below
			out = append(out, strings.TrimSuffix(text, "."))
		}
		return out
	}
	for _, a := range m.Answers() {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(a.Text, "Command: "), "."))
	}
	return out
}

// PullComment writes the comment of a pull request: the marker, a line that sums it up, the conditions, a table with
// the recurrence in earlier runs, and the rest folded away.
func PullComment(w io.Writer, p *Pull) error {
	text := PullMarker(p.Name) + "\n" + p.markdown()
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write comment: %w", err)
	}
	return nil
}

// PullSummary writes the comment's text as the summary of a CI system's step.
func PullSummary(w io.Writer, p *Pull) error {
	if _, err := io.WriteString(w, p.markdown()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// markdown is the comment without its marker. Sections that would make it too long are left out, and it says so.
func (p *Pull) markdown() string {
	conclusion, title := p.Conclusion()
	var head bytes.Buffer
	fmt.Fprintf(&head, "### %s tare: %s\n\n", pullSigns[conclusion], markdownText(title))
	if p.Problem != "" {
		head.WriteString(p.problem())
	}
	var rest []string
	for i := range p.Results {
		r := &p.Results[i]
		d := newMarkdown(r.Model)
		if len(p.Results) > 1 {
			d.line("#### %s", markdownText(d.title()))
		}
		d.failIf()
		d.pullTable(r)
		head.Write(bytes.Trim(d.out.Bytes(), "\n"))
		head.WriteByte('\n')
		rest = append(rest, pullFolds(r.Model)...)
	}
	foot := p.foot()
	left := 0
	for _, section := range rest {
		if head.Len()+len(section)+len(foot) > maxComment-200 {
			left++
			continue
		}
		head.WriteString(section)
	}
	if left > 0 {
		foot = "\nThe details are left out, because this would be too long; the bundle has them.\n" + foot
	}
	text := head.String()
	if len(text)+len(foot) > maxComment { // conditions without end
		end := strings.LastIndexByte(text[:maxComment-len(foot)-200], '\n')
		text = text[:max(0, end)] + "\n\nThe rest is left out, because this would be too long; the bundle has it.\n"
	}
	return text + foot
}

// pullFolds are the sections that few readers need.
func pullFolds(m *Model) []string {
	var out []string
	section := func(fill func(d *markdown)) {
		d := newMarkdown(m)
		fill(d)
		if d.out.Len() > 0 {
			out = append(out, d.out.String())
		}
	}
	if d := newMarkdown(m); len(d.findings())+len(d.failures())+len(d.terminal.open()) > 0 {
		section(func(d *markdown) { d.fold("What to know before using the figures", func() { d.notes("") }) })
	}
	section(func(d *markdown) { d.fold("The targets", d.targets) })
	section(func(d *markdown) {
		d.line("")
		for _, text := range d.terminal.closing() {
			d.line("%s  ", markdownText(text))
		}
	})
	return out
}

// problem says why nothing was compared. The log is a build's or a command's output, so it is fenced.
func (p *Pull) problem() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Nothing was compared: %s\n", markdownText(p.Problem))
	if log := logTail(p.Log); log != "" {
		fence := strings.Repeat("`", max(3, longestRun(log, '`')+1))
		fmt.Fprintf(&b, "\n%stext\n%s\n%s\n", fence, log, fence)
	}
	return b.String()
}

// logTail is the end of a log, cleaned, with lines of a bounded length.
func logTail(log string) string {
	lines := strings.Split(strings.TrimRight(proc.Printable([]byte(log)), "\n "), "\n")
	lines = lines[max(0, len(lines)-mostPullLog):]
	for i := range lines {
		lines[i] = unit.Cut(lines[i], longestIssueNote)
	}
	return strings.Join(lines, "\n")
}

// foot names the compared commits, the processor, the number of runs elsewhere, and the link to the run.
func (p *Pull) foot() string {
	var parts []string
	if p.Base != "" && p.Head != "" {
		parts = append(parts, fmt.Sprintf("base %.12s against head %.12s, in turn on one runner", p.Base, p.Head))
	}
	if p.Processor != "" {
		parts = append(parts, clean(p.Processor))
	}
	if p.Elsewhere > 0 {
		verb := "do"
		if p.Elsewhere == 1 {
			verb = "does"
		}
		parts = append(parts, fmt.Sprintf("%s on another processor %s not count", unit.Plural(p.Elsewhere,
			"earlier run"),
			verb))
	}
	text := markdownText(strings.Join(parts, "; "))
	if p.Link != "" {
		text = strings.TrimPrefix(text+"; [the run]("+p.Link+")", "; ")
	}
	if text == "" {
		return ""
	}
	return "\n<sub>" + text + "</sub>\n"
}

// pullCells are the figures that are shown: the cases of a suite, those that differ first; else the cells that decide,
// and others that differ for certain.
func (d *markdown) pullCells() []*verdict.Cell {
	var first, rest []*verdict.Cell
	if cases := d.cases(); len(cases) > 0 {
		for _, c := range cases {
			if c.Verdict == record.Different {
				first = append(first, c)
			} else {
				rest = append(rest, c)
			}
		}
		return append(first, rest...)
	}
	for i := range d.Cells {
		switch c := &d.Cells[i]; {
		case c.Target == c.Baseline:
		case c.Primary:
			first = append(first, c)
		case c.Verdict == record.Different:
			rest = append(rest, c)
		}
	}
	return append(first, rest...)
}

// pullTable writes the figures with their recurrence in earlier runs.
func (d *markdown) pullTable(r *PullResult) {
	cells := d.pullCells()
	if len(cells) == 0 {
		d.line("")
		d.line("No figure was measured.")
		return
	}
	now := "now" // or the only one that is compared
	if len(d.Columns) == 1 {
		now = d.Columns[0].Target.Name
	}
	grid := [][]string{{"", markdownText(d.Run.Baseline), markdownText(now), "ratio", "verdict", "seen before"}}
	for _, c := range cells[:min(len(cells), mostPullRows)] {
		grid = append(grid, d.pullRow(d.pullName(c), c, r.seen(c)))
	}
	d.line("")
	d.grid(grid, -1)
	if left := len(cells) - mostPullRows; left > 0 {
		d.line("")
		d.line("and %d more, in the bundle", left)
	}
}

// pullName tells a figure from the others of the table.
func (d *markdown) pullName(c *verdict.Cell) string {
	name := clean(c.Target)
	if len(d.cases()) > 0 {
		if len(d.Columns) == 1 {
			return clean(c.Metric)
		}
		return name + ": " + clean(c.Metric)
	}
	for i := range d.Cells {
		if other := &d.Cells[i]; other.Primary && other.Workload != c.Workload {
			name = strings.TrimSpace(clean(c.Workload) + " " + name)
			break
		}
	}
	if !c.Primary {
		name += ": " + metricWords(c.Metric)
	}
	return name
}

// metricWords is the name of a metric for a table.
func metricWords(metric string) string {
	if at := slices.IndexFunc(resources, func(r resource) bool { return r.metric == metric }); at >= 0 && metric != "" {
		return resources[at].title
	}
	return strings.ReplaceAll(clean(metric), "_", " ")
}

func (d *markdown) pullRow(name string, c *verdict.Cell, s recurrence.Seen) []string {
	ratio := ""
	if c.Verdict != record.Failed && c.Verdict != record.Withheld && c.Ratio.Center > 0 {
		ratio = strings.TrimSpace(ratioText(c.Ratio.Center) + " " + bracket(c.Low, c.High, c.Level > 0))
	}
	verdictText := d.glyph(signOf(c)) + " " + string(c.Verdict)
	row := []string{name, figure(c.BaselineCenter, c.Unit), figure(c.Center, c.Unit), ratio, verdictText, seenText(s)}
	for i := range row {
		row[i] = markdownText(row[i])
	}
	return row
}

// seenText has the recurrence of a difference: seen in 3 of the last 4 runs (2 commits).
func seenText(s recurrence.Seen) string {
	if s.Times == 0 {
		return ""
	}
	if s.Now && s.Of == 1 {
		return "first run"
	}
	way := "slower"
	if !s.Slower {
		way = "faster"
	}
	text := fmt.Sprintf("seen in %d of the last %d runs", s.Times, s.Of)
	if !s.Now {
		text = fmt.Sprintf("not now; %s in %d of the %s before", way, s.Times, unit.Plural(s.Of-1, "run"))
	}
	if s.Commits > 1 {
		text += fmt.Sprintf(" (%d commits)", s.Commits)
	}
	return text
}
