package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/unit"
)

// Answer is one sentence of a report's first lines: the cost of a family of workloads in one candidate.
type Answer struct {
	Family, Target string
	Text           string
}

// Answers returns the sentences on the cost of each family of workloads in each candidate, in the order of the rows. A
// family of one workload has that workload's verdict; the mean of several has none, so only its figure and interval are
// told. Where there is no figure at all the sentence says so; families that were not tried there have no sentence.
func (m *Model) Answers() []Answer { return m.answers(", " + clean(m.Run.Scope)) }

// answers returns the sentences with a scope behind their claims.
func (m *Model) answers(scope string) []Answer {
	var answers []Answer
	for i := range m.Families {
		f := &m.Families[i]
		for col, s := range f.Columns {
			if t := m.Columns[col].Target; !t.Baseline && m.tried(f.Family, col) {
				answers = append(answers, Answer{f.Family, t.Name,
					sentence(f.Family) + ": " + m.answer(f.Family, col, s, scope) + "."})
			}
		}
	}
	if len(answers) == 0 {
		for _, c := range m.Columns {
			if !c.Target.Baseline {
				text := "Nothing is known of %s yet."
				if slices.ContainsFunc(m.Result.Cells, func(x verdict.Cell) bool {
					return x.Target == c.Target.Name && x.Verdict == record.Withheld
				}) {
					text = "There is no verdict on %s; the findings say why."
				}
				answers = append(answers, Answer{Target: c.Target.Name, Text: fmt.Sprintf(text, clean(c.Target.Name))})
			}
		}
	}
	return answers
}

// tried tells whether a workload of a family ran in a column, or should have.
func (m *Model) tried(family string, col int) bool {
	return slices.ContainsFunc(m.Rows, func(r Row) bool { return r.Primary && r.Family == family && ran(r.Cells[col]) })
}

func (m *Model) answer(family string, col int, s *verdict.Summary, scope string) string {
	target, baseline := clean(m.Columns[col].Target.Name), clean(m.Run.Baseline)
	if against := m.Columns[col].Target.Against; against != "" {
		baseline = clean(against)
	}
	if s == nil || !(s.Ratio > 0) {
		if m.unlike(family, col) {
			return fmt.Sprintf("%s cannot be ranked against %s: they flush differently", target, baseline)
		}
		return "nothing is known of " + target
	}
	figure := ratioText(s.Ratio) + "x"
	if interval := bracket(s.Low, s.High, s.High > 0); interval != "" {
		figure += " " + interval
	}
	over := ""
	if s.Cells > 1 {
		over = fmt.Sprintf(" on average over %d workloads", s.Cells)
	}
	if s.Withheld+s.Unlike > 0 {
		over += withoutText(s)
	}
	far := m.apart(family, col, s.Ratio)
	if m.Columns[col].Target.Emulated {
		far += ", on an emulated CPU"
	}
	if c := m.only(family, col); c != nil && s.Cells == 1 {
		switch c.Verdict {
		case record.Equivalent:
			return fmt.Sprintf("%s costs the same as %s within %s%s, %s%s%s", target, baseline,
				percentText(c.SameMargin), over, figure, far, scope)
		case record.Different, record.Measured:
		default:
			return fmt.Sprintf("the cost of %s is not certain enough for a verdict yet: about %s against %s%s%s%s",
				target, figure, baseline, over, far, scope)
		}
	}
	if margin := m.sameMargin(family, col); s.Low > 0 && s.Low >= 1/(1+margin) && s.High <= 1+margin {
		return fmt.Sprintf("%s costs the same as %s within %s%s, %s%s%s", target, baseline, percentText(margin), over,
			figure, far, scope)
	}
	if s.High == 0 {
		return fmt.Sprintf("%s costs %s against %s%s%s%s; too few blocks for an interval", target, figure, baseline,
			over, far, scope)
	}
	if s.Low <= 1 && s.High >= 1 {
		return fmt.Sprintf("%s costs %s against %s%s%s%s; there may be no difference", target, figure, baseline, over,
			far, scope)
	}
	return fmt.Sprintf("%s costs %s against %s%s%s%s", target, figure, baseline, over, far, scope)
}

// withoutText says how many workloads of a family a mean leaves out, because they cannot be ranked.
func withoutText(s *verdict.Summary) string {
	all, text := s.Withheld+s.Unlike+s.Cells, ""
	if s.Withheld > 0 {
		text = fmt.Sprintf(", without %d of %d whose verdict is withheld", s.Withheld, all)
	}
	if s.Unlike > 0 {
		text += fmt.Sprintf(", without %d of %d whose sides flush differently", s.Unlike, all)
	}
	if s.Cells == 1 {
		return " in 1 workload" + text
	}
	return text
}

// unlike tells whether a family has figures of a column that rank nobody, because the sides flush differently.
func (m *Model) unlike(family string, col int) bool {
	return slices.ContainsFunc(m.Rows, func(r Row) bool {
		return r.Primary && r.Family == family && r.Cells[col] != nil && r.Cells[col].UnlikeFlushes()
	})
}

// apart says which workloads stand out of the mean of a family: those of which a cost or a saving is sure, where they
// are far from it. "" where none does, or where there is one workload only.
func (m *Model) apart(family string, col int, mean float64) string {
	var low, high *verdict.Cell
	kinds, cells, sure := map[string]int{}, 0, true
	for i := range m.Rows {
		r := &m.Rows[i]
		c := r.Cells[col]
		if !r.Primary || r.Family != family || c == nil {
			continue
		}
		cells++
		kinds[c.Kind]++
		sure = sure && c.Verdict == record.Different
		if c.Verdict != record.Different || !(c.Ratio.Center > 0) {
			continue
		}
		if low == nil || c.Ratio.Center < low.Ratio.Center {
			low = c
		}
		if high == nil || c.Ratio.Center > high.Ratio.Center {
			high = c
		}
	}
	if high == nil || cells < 2 {
		return ""
	}
	name := func(c *verdict.Cell) string {
		if kinds[c.Kind] > 1 {
			return clean(c.Workload)
		}
		return clean(c.Kind)
	}
	if high.Ratio.Center > farApart*low.Ratio.Center {
		from := "but"
		if sure {
			from = "from"
		}
		return fmt.Sprintf(", %s %sx in %s to %sx in %s", from, ratioText(low.Ratio.Center), name(low),
			ratioText(high.Ratio.Center), name(high))
	}
	if r := high.Ratio.Center / mean; r > farApart || r < 1/farApart {
		return fmt.Sprintf(", but %sx in %s", ratioText(high.Ratio.Center), name(high))
	}
	return ""
}

// farApart is the factor by which costs of one family must differ to be told apart from their mean; the page has the
// same.
const farApart = 1.15

// only returns the one primary cell of a family in a column that has a ratio; nil when there are none or several.
func (m *Model) only(family string, col int) *verdict.Cell {
	var found *verdict.Cell
	for i := range m.Rows {
		r := &m.Rows[i]
		if c := r.Cells[col]; r.Primary && r.Family == family && c != nil && c.Center > 0 && c.Ratio.Center > 0 {
			if found != nil {
				return nil
			}
			found = c
		}
	}
	return found
}

// sameMargin is the smallest margin within which the cells of a family count as the same; 0 when there are none.
func (m *Model) sameMargin(family string, col int) float64 {
	margin := 0.0
	for i := range m.Rows {
		if c := m.Rows[i].Cells[col]; m.Rows[i].Primary && m.Rows[i].Family == family && c != nil &&
			(margin == 0 || c.SameMargin < margin) {
			margin = c.SameMargin
		}
	}
	return margin
}

// bracket writes an interval as in "[7.90, 9.00]"; "" where there is none.
func bracket(low, high float64, has bool) string {
	if !has || !(low > 0) || !(high >= low) {
		return ""
	}
	return "[" + ratioText(low) + ", " + ratioText(high) + "]"
}

// sentence makes a name the beginning of a sentence.
func sentence(s string) string {
	if s = clean(s); s == "cpu" {
		return "CPU"
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// title is the title of a page: the plan's name or the names of the targets.
func (m *Model) title() string {
	if m.Run.Name != "" {
		return clean(m.Run.Name)
	}
	var names []string
	for i := range m.Targets {
		if t := &m.Targets[i]; !t.Baseline {
			names = append(names, clean(t.Name))
		}
	}
	switch {
	case len(names) == 0:
		return clean(m.Run.Baseline)
	case len(names) > 4:
		return fmt.Sprintf("%d targets against %s", len(names), clean(m.Run.Baseline))
	}
	return strings.Join(names, ", ") + " against " + clean(m.Run.Baseline)
}

// subtitle has the baseline, the number of blocks and targets, the scope, the length of the run and the version of
// tare.
func (m *Model) subtitle() string {
	blocks := unit.Plural(m.Run.Blocks, "block")
	if n := len(m.Targets); n > 1 {
		blocks += fmt.Sprintf(" of %d targets", n)
	}
	text := fmt.Sprintf("baseline %s; %s, %s; %s; tare %s", clean(m.Run.Baseline), blocks, clean(m.Run.Scope),
		durationText(m.Run.Seconds), clean(m.Run.Version))
	if !m.Run.Finished {
		text += "; this run has not ended"
	}
	return text
}
