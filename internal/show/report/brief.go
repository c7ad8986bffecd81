package report

import (
	"math"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/unit"
)

// Brief is a result in short, for a list of results and for a light page of one. Every text is one line, cleaned of a
// terminal's control sequences, and not escaped for any markup.
type Brief struct {
	Title    string
	Subtitle string // baseline, blocks, scope, length, version
	Question string // the plan's; "" where it has none
	Answers  []string
	Headline string      // the answer that is farthest from no difference; "" where there is none
	Work     []BriefWork // those with a primary metric, in the plan's order
	Notes    []BriefNote
	Targets  []string // in the order of Facts' values
	Facts    []BriefFact
	Closing  []string // how far the figures reach
	Commands []BriefNote
}

// BriefWork is the primary metric of a workload.
type BriefWork struct {
	Workload string
	Metric   string
	Base     string // the target that most cells are compared with
	Figure   string // of Base, with its unit; "" where there is none
	Cells    []BriefCell
}

// BriefCell is the cost of a workload in a candidate.
type BriefCell struct {
	*verdict.Cell
	// Class is more, less, same, unsure, measured, withheld or failed: the name of a colour.
	Class    string
	Sign     string // one character
	Word     string // the sign's meaning
	Target   string
	Against  string // the target of the comparison
	Figure   string // with its unit; "" where there is none
	Ratio    string // "" where none may be shown
	Interval string // "[1.02, 1.10]", or ""
	Marks    []string
	// Numbers of the drawing. All are 0 where no ratio may be shown, Low and High also without an interval.
	Low, Center, High float64
}

// BriefNote is a paragraph: a finding, a failure, an open question; or a command. Kind is warning, info, failed, unsure
// or absent; of a command it is its purpose.
type BriefNote struct{ Kind, Text string }

// BriefFact is a fact of all targets side by side; "" where it is not known.
type BriefFact struct {
	Name    string
	Values  []string
	Differs bool
}

// classes are the names of the signs' colours, those of the page.
var classes = [signs]string{costsMore: "more", costsLess: "less", same: "same", cannotTell: "unsure",
	measured: "measured", unconfirmed: "measured", unranked: "measured", failed: "failed", withheld: "withheld",
	notRun: "absent"}

// NewBrief shortens a model.
func NewBrief(m *Model) *Brief {
	t := &terminal{Model: m, pointed: map[[2]string]bool{}}
	t.point()
	b := &Brief{Title: m.title(), Subtitle: m.subtitle(), Closing: t.closing()}
	if m.Plan != nil {
		b.Question = clean(m.Plan.Question)
	}
	for _, a := range m.Answers() {
		b.Answers = append(b.Answers, a.Text)
	}
	b.Headline = m.headline()
	for i := range m.Rows {
		if r := &m.Rows[i]; r.Primary {
			if w := t.briefWork(r); len(w.Cells) > 0 {
				b.Work = append(b.Work, w)
			}
		}
	}
	kinds := map[string]string{"!": "warning", "-": "info"}
	for s := range glyphs {
		kinds[glyphs[s].unicode] = classes[s]
	}
	for _, group := range [][]note{t.findings(), t.failures(), t.open()} {
		for _, n := range group {
			b.Notes = append(b.Notes, BriefNote{kinds[strings.TrimSpace(n.prefix)], n.text})
		}
	}
	for i := range m.Targets {
		b.Targets = append(b.Targets, clean(m.Targets[i].Name))
	}
	for _, f := range m.factRows() {
		b.Facts = append(b.Facts, BriefFact{f.name, f.values, f.differs()})
	}
	for _, c := range t.commands() {
		b.Commands = append(b.Commands, BriefNote{strings.TrimSuffix(strings.TrimSpace(c.prefix), ":"), c.text})
	}
	if m.Command != "" && (m.Plan == nil || !m.Plan.Once()) {
		b.Commands = append(b.Commands, BriefNote{"anew", clean(m.Command)})
	}
	return b
}

// headline is the answer whose ratio is farthest from 1, or the first.
func (m *Model) headline() string {
	text, farthest := "", -1.0
	for _, a := range m.Answers() {
		far := 0.0
		for i := range m.Result.Families {
			if s := &m.Result.Families[i]; s.Family == a.Family && s.Target == a.Target && s.Ratio > 0 {
				far = math.Abs(math.Log(s.Ratio))
			}
		}
		if far > farthest {
			text, farthest = a.Text, far
		}
	}
	return text
}

func (t *terminal) briefWork(r *Row) BriefWork {
	w := BriefWork{Workload: clean(r.Workload), Metric: clean(r.Metric), Base: clean(t.Run.Baseline)}
	if r.Base != "" {
		w.Base = clean(r.Base)
	}
	if r.Baseline > 0 {
		w.Figure = unit.Format(r.Baseline, clean(r.Unit))
	}
	for _, c := range r.Cells {
		if c == nil {
			continue
		}
		s := t.show(c, false)
		if s.sign == notRun || c.Target == c.Baseline {
			continue
		}
		x := BriefCell{Cell: c, Class: classes[s.sign], Sign: glyphs[s.sign].unicode, Word: glyphs[s.sign].legend,
			Target: clean(c.Target), Against: clean(c.Baseline), Ratio: s.ratio,
			Low: s.low, Center: s.center, High: s.high}
		if s.sign == same {
			x.Word += " " + percentText(c.SameMargin)
		}
		if s.low > 0 {
			x.Interval = bracket(s.low, s.high, true)
		}
		if c.Center > 0 {
			x.Figure = unit.Format(c.Center, clean(c.Unit))
		}
		for f := range markTexts {
			if strings.Contains(s.flags, markTexts[f].mark) {
				x.Marks = append(x.Marks, briefMark(mark(f)))
			}
		}
		w.Cells = append(w.Cells, x)
	}
	return w
}

// briefMark is a mark in words that need no legend.
func briefMark(f mark) string {
	switch f {
	case finding:
		return "read the notes"
	case doubt:
		return "has warnings"
	case ofBoot:
		return "of this boot"
	}
	return markTexts[f].legend
}
