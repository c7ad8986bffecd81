package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tare/internal/judge/costper"
	"tare/internal/unit"
)

// restatedRow is a line of the costs restated, as every form of table has it.
type restatedRow struct {
	*costper.Line
	product string // the factor on the measured ratio, with its conditions
}

// restatedRows are the lines that have a figure.
func restatedRows(n *costper.Table) []restatedRow {
	var rows []restatedRow
	for i := range n.Lines {
		l := &n.Lines[i]
		if l.Refused != "" {
			continue
		}
		product := l.Product()
		for _, t := range l.Terms {
			if t.Source != "" {
				product += ", " + clean(t.Source)
				break
			}
		}
		if l.Told != "" {
			product += "; unequal topology, as requested: " + clean(l.Told)
		}
		rows = append(rows, restatedRow{l, product})
	}
	return rows
}

// notRestated returns the reasons for lines without a figure, each reason once with its cells.
func notRestated(n *costper.Table) []string {
	var order []string
	where := map[string][]string{}
	for i := range n.Lines {
		l := &n.Lines[i]
		if l.Refused == "" {
			continue
		}
		if where[l.Refused] == nil {
			order = append(order, l.Refused)
		}
		where[l.Refused] = append(where[l.Refused], clean(l.Target)+" "+clean(l.Workload))
	}
	var texts []string
	for _, why := range order {
		texts = append(texts, fmt.Sprintf("not restated: %s (%s)", clean(why), strings.Join(where[why], ", ")))
	}
	return texts
}

// likeText is the heading of the figures that a target would have with the baseline's resources.
func likeText(n *costper.Table) string {
	_, like := n.Per.Words()
	if len(n.Lines) == 0 {
		return like + " the baseline"
	}
	base := n.Lines[0].Baseline
	if slices.ContainsFunc(n.Lines, func(l costper.Line) bool { return l.Baseline != base }) {
		return like + " what it is compared with"
	}
	return like + " " + clean(base)
}

// worthTexts are the answers, a paragraph for each candidate, in the words of the terminal.
func (m *Model) worthTexts() ([]string, error) {
	a := m.Worth
	spec := costper.WorthSpec{Price: a.Price, UsesPerDay: a.UsesPerDay, Hourly: a.Hourly, From: a.From.Time}
	var texts []string
	for i := range a.Answers {
		var b strings.Builder
		if err := a.Answers[i].WriteText(&b, spec, m.Run.Scope, clean); err != nil {
			return nil, err
		}
		texts = append(texts, strings.Join(strings.Fields(b.String()), " "))
	}
	return texts, nil
}

// worthQuestion repeats the question of --worth.
func (m *Model) worthQuestion() string {
	a := m.Worth
	text := fmt.Sprintf("%s once, %s uses a day from %s on", a.Price, givenText(a.UsesPerDay),
		a.From.Format("2006-01-02"))
	if a.Hourly.Amount > 0 {
		text += fmt.Sprintf(", an hour of waiting costs %s", a.Hourly)
	}
	return text
}

// givenText writes a figure that was given: all of its digits, no more.
func givenText(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// writeCosts writes the costs restated and the value of a saving, where they were asked for.
func (d *markdown) writeCosts() error {
	if d.Normal != nil {
		d.restated(d.Normal)
	}
	if d.Worth == nil {
		return nil
	}
	texts, err := d.worthTexts()
	if err != nil {
		return err
	}
	d.line("")
	d.line("### Is it worth %s?", markdownText(d.Worth.Price.String()))
	d.line("")
	d.line("%s.", markdownText(sentence(d.worthQuestion())))
	d.line("")
	for _, t := range texts {
		d.line("- %s", markdownText(t))
	}
	return nil
}

func (d *markdown) restated(n *costper.Table) {
	each, _ := n.Per.Words()
	d.line("")
	d.line("### Cost per %s", markdownText(each))
	d.line("")
	d.line("Each ratio is multiplied by what the candidate had relative to the baseline, from recorded facts only.")
	d.line("")
	grid := [][]string{{"workload", "target", "measured", "× candidate / baseline", "= cost", "its figure",
		markdownText(likeText(n))}}
	var same []string
	for _, r := range restatedRows(n) {
		if math.Abs(r.Factor-1) < 1e-9 {
			same = append(same, clean(r.Target)+" "+clean(r.Workload))
			continue
		}
		line := []string{r.Workload, comparedText(r.Target, r.Baseline, d.Run.Baseline),
			spanText(r.Measured.Center, r.Measured.Low, r.Measured.High), r.product,
			spanText(r.Ratio, r.Low, r.High), unit.Format(r.Figure, clean(r.Unit)), unit.Format(r.Value, clean(r.Unit))}
		for i := range line {
			line[i] = markdownText(line[i])
		}
		grid = append(grid, line)
	}
	var notes []string
	if len(grid) > 1 {
		d.grid(grid, -1)
	} else {
		notes = append(notes, "no ratio changes")
	}
	if len(same) > 0 {
		notes = append(notes, fmt.Sprintf("as measured, because both sides had the same: %s", strings.Join(same, ", ")))
	}
	notes = append(notes, notRestated(n)...)
	for _, text := range n.Notes {
		notes = append(notes, "note: "+clean(text))
	}
	if len(notes) > 0 {
		d.line("")
	}
	for _, text := range notes {
		d.line("- %s.", markdownText(sentence(text)))
	}
}

// comparedText is a target, and after a stroke the target that it is compared with where that is not the run's
// baseline.
func comparedText(target, against, baseline string) string {
	if against != "" && against != baseline {
		return target + "/" + against
	}
	return target
}

// spanText is a ratio with its interval, in parentheses because brackets are links in Markdown.
func spanText(center, low, high float64) string {
	text := ratioText(center)
	if interval := intervalText(low, high, high > 0, false); interval != "" {
		text += " (" + interval + ")"
	}
	return text
}
