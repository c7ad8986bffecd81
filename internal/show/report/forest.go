package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"tare/internal/unit"
)

// The measures of the forest plot, in CSS pixels.
const (
	forestWidth  = 960.0
	forestMargin = 28.0
	forestRow    = 21.0
	forestGroup  = 27.0 // the line with a workload's name
	forestLabels = 190.0
	forestFigure = 170.0
	// maxForest bounds the rows: beyond it nobody reads them, and the picture would take gigabytes.
	maxForest = 120
	// maxAnswers bounds the sentences above the chart.
	maxAnswers = 10
)

// forestLine is one line of the plot: a heading, or an interval.
type forestLine struct {
	heading   string
	aside     string // beside a heading, muted
	label     string
	sign      sign
	summary   bool // a mean: a diamond as wide as its interval
	ratio     float64
	low, high float64
	figure    string
}

// forest is the headline chart laid out.
type forest struct {
	m       *Model
	lines   []forestLine
	left    int // cells not shown
	axis    logAxis
	margin  float64
	used    [signs]bool
	answers []string
	said    []answerLine // the answers as they are drawn
	damage  string       // the finding about a damaged bundle
}

func newForest(m *Model) *forest {
	f := &forest{m: m}
	if d := m.damage(); d != "" {
		f.damage = sentence(d)
	}
	t := &terminal{Model: m, pointed: map[[2]string]bool{}}
	rows := t.rowsOf(false, false)
	f.means()
	for i := range m.Rows {
		if r := &m.Rows[i]; r.Primary && len(rows) > 0 {
			f.cells(r)
		}
	}
	var intervals [][2]float64
	for _, l := range f.lines {
		if l.ratio > 0 {
			intervals = append(intervals, [2]float64{l.low, l.high})
		}
	}
	f.axis = newLogAxis(intervals, forestMargin+forestLabels, forestWidth-forestMargin-forestFigure)
	for _, a := range m.answers("") { // the foot has the scope, and a line little room
		f.answers = append(f.answers, a.Text)
	}
	if n := len(f.answers); n > maxAnswers {
		f.answers = append(f.answers[:maxAnswers-1:maxAnswers-1], fmt.Sprintf("and %d more", n-maxAnswers+1))
	}
	for _, a := range f.answers {
		f.said = append(f.said, broken(a, forestWidth-2*forestMargin)...)
	}
	return f
}

// means puts the families of several workloads first: they are the headline.
func (f *forest) means() {
	for i := range f.m.Families {
		fam := &f.m.Families[i]
		head := false
		for col, s := range fam.Columns {
			if s == nil || s.Cells < 2 || !(s.Ratio > 0) || len(f.lines) >= maxForest {
				continue
			}
			if !head {
				aside := fmt.Sprintf("geometric mean of %d workloads", s.Cells)
				if s.Withheld+s.Unlike > 0 {
					aside += withoutText(s)
				}
				f.lines = append(f.lines, forestLine{heading: sentence(fam.Family), aside: aside})
				head = true
			}
			f.lines = append(f.lines, f.interval(forestLine{label: clean(f.m.Columns[col].Name()), summary: true,
				ratio: s.Ratio}, s.Low, s.High))
		}
	}
}

func (f *forest) cells(r *Row) {
	if len(f.lines)+len(r.Cells) >= maxForest {
		f.left += len(r.Cells)
		return
	}
	aside := ""
	if r.Baseline > 0 {
		aside = cmp.Or(clean(r.Base), clean(f.m.Run.Baseline)) + " " + unit.Format(r.Baseline, clean(r.Unit))
	}
	f.lines = append(f.lines, forestLine{heading: clean(r.Workload), aside: aside})
	for col, c := range r.Cells {
		s := signOf(c)
		if s == notRun {
			continue
		}
		l := forestLine{label: clean(f.m.Columns[col].Name()), sign: s}
		f.used[s] = true
		if s == failed || s == withheld || !(c.Ratio.Center > 0) {
			l.figure = verdictWord(s)
			f.lines = append(f.lines, l)
			continue
		}
		f.margin = max(f.margin, c.SameMargin)
		l.ratio = c.Ratio.Center
		if c.Level > 0 {
			f.lines = append(f.lines, f.interval(l, c.Low, c.High))
			continue
		}
		f.lines = append(f.lines, f.interval(l, 0, 0))
	}
}

// interval sets the drawn centre and ends of a ratio; an interval that is missing or wrong is as wide as its centre.
func (f *forest) interval(l forestLine, low, high float64) forestLine {
	l.figure = ratioText(l.ratio) + "×"
	if b := bracket(low, high, high > 0); b != "" && !math.IsInf(high, 0) {
		l.figure += " " + b
		l.low, l.high = min(low, l.ratio), max(high, l.ratio)
		return l
	}
	l.low, l.high = l.ratio, l.ratio
	return l
}

// draw draws the plot and returns nothing; the height is known from size.
func (f *forest) draw(p pen) {
	y := forestMargin + 20
	p.text(point{forestMargin, y}, fit(f.m.title(), 22, true, forestWidth-2*forestMargin),
		style{size: 22, bold: true, colour: ink})
	y += 22
	p.text(point{forestMargin, y}, fit(f.m.subtitle(), 12.5, false, forestWidth-2*forestMargin),
		style{size: 12.5, colour: muted})
	y += 14
	if f.damage != "" {
		y += 19
		p.text(point{forestMargin, y}, fit(f.damage, 14, true, forestWidth-2*forestMargin),
			style{size: 14, bold: true, colour: orange})
	}
	for _, l := range f.said {
		y += 19
		x := float64(forestMargin)
		if l.goesOn {
			x += answerIndent
		}
		p.text(point{x, y}, l.text, style{size: 14, colour: ink})
	}
	y += 30
	top := y
	bottom := y + f.plotHeight()
	f.grid(p, top, bottom)
	for i, l := range f.lines {
		if l.heading != "" {
			if i > 0 {
				y += 6
			}
			y += forestGroup
			f.heading(p, l, y-9)
			continue
		}
		f.row(p, l, y+forestRow/2)
		y += forestRow
	}
	y = bottom + 18
	f.foot(p, y)
}

// heading has its aside at the other end, where no font of a reader's own makes the two meet.
func (f *forest) heading(p pen, l forestLine, y float64) {
	room := forestWidth - 2*forestMargin
	if l.aside != "" {
		aside := fit(l.aside, 12, false, room/2)
		p.text(point{forestWidth - forestMargin, y}, aside, style{size: 12, colour: muted, anchor: atEnd})
		room -= textWidth(aside, 12, false)*1.2 + 20
	}
	p.text(point{forestMargin, y}, fit(l.heading, 13, true, room/1.1), style{size: 13, bold: true, colour: ink})
}

func (f *forest) row(p pen, l forestLine, y float64) {
	p.text(point{forestMargin + 14, y + 4.5}, fit(l.label, 13, false, forestLabels-26), style{size: 13, colour: ink})
	right := forestWidth - forestMargin
	if l.ratio == 0 {
		p.text(point{right, y + 4.5}, l.figure, style{size: 13, colour: muted, anchor: atEnd})
		return
	}
	c := signColour(l.sign)
	low, high, at := f.axis.at(l.low), f.axis.at(l.high), f.axis.at(l.ratio)
	if l.summary {
		c = ink
		low, high = min(low, at-4), max(high, at+4)
		p.fill([]point{{low, y}, {at, y - 5}, {high, y}, {at, y + 5}}, c)
	} else {
		p.line(point{low, y}, point{high, y}, 2, c)
		p.line(point{low, y - 3.5}, point{low, y + 3.5}, 1.5, c)
		p.line(point{high, y - 3.5}, point{high, y + 3.5}, 1.5, c)
		p.fill(shape(l.sign, point{at, y}, 5.5), c)
		if l.sign == cannotTell {
			p.fill(shape(l.sign, point{at, y}, 3.6), paper)
		}
	}
	p.text(point{right, y + 4.5}, l.figure, style{size: 13, colour: ink, anchor: atEnd})
}

func (f *forest) grid(p pen, top, bottom float64) {
	if f.margin > 0 {
		l, r := f.axis.at(1/(1+f.margin)), f.axis.at(1+f.margin)
		p.fill([]point{{l, top}, {r, top}, {r, bottom}, {l, bottom}}, band)
	}
	for _, v := range f.axis.ticks(9) {
		x := f.axis.at(v)
		c, thick := faint, 1.0
		if v == 1 {
			c, thick = grey, 1.5
		}
		p.line(point{x, top}, point{x, bottom}, thick, c)
		p.text(point{x, bottom + 15}, tickText(v)+"×", style{size: 11.5, colour: muted, anchor: atMiddle})
		p.text(point{x, top - 6}, tickText(v)+"×", style{size: 11.5, colour: muted, anchor: atMiddle})
	}
}

func (f *forest) foot(p pen, y float64) {
	y += 22
	x := forestMargin
	for s := range f.used {
		if !f.used[s] || sign(s) == failed || sign(s) == withheld {
			continue
		}
		text := glyphs[s].legend
		if sign(s) == same {
			text += " " + percentText(f.margin)
		}
		p.fill(shape(sign(s), point{x + 6, y - 4}, 5.5), signColour(sign(s)))
		if sign(s) == cannotTell {
			p.fill(shape(sign(s), point{x + 6, y - 4}, 3.6), paper)
		}
		p.text(point{x + 17, y}, text, style{size: 12, colour: ink})
		x += 17 + textWidth(text, 12, false)*1.12 + 18
	}
	for _, text := range f.footnotes() {
		y += 18
		p.text(point{forestMargin, y}, fit(text, 11.5, false, forestWidth-2*forestMargin),
			style{size: 11.5, colour: muted})
	}
}

func (f *forest) footnotes() []string {
	t := &terminal{Model: f.m}
	var texts []string
	for _, s := range t.closing() {
		texts = append(texts, sentence(s))
	}
	if f.margin > 0 {
		texts = append(texts, fmt.Sprintf("Log axis; inside the band, the margin of %s, costs count as the same.",
			percentText(f.margin)))
	}
	if f.left > 0 {
		texts = append(texts, fmt.Sprintf("%s not shown: the other report formats show all of them.",
			unit.Plural(f.left, "cell")))
	}
	return texts
}

func (f *forest) plotHeight() float64 {
	h := 8.0
	for i, l := range f.lines {
		switch {
		case l.heading == "":
			h += forestRow
		case i > 0:
			h += 6 + forestGroup
		default:
			h += forestGroup
		}
	}
	return h
}

// size is the width and the height of the whole picture.
func (f *forest) size() (w, h float64) {
	h = forestMargin + 20 + 22 + 14 + 19*float64(len(f.said)) + 30 + f.plotHeight() + 18 + 22 +
		18*float64(len(f.footnotes())) + forestMargin - 8
	if f.damage != "" {
		h += 19
	}
	return forestWidth, math.Ceil(h)
}

// answerLine is a line of an answer.
type answerLine struct {
	text   string
	goesOn bool // it is not the first
}

// answerIndent is the indentation of the further lines of an answer, in pixels.
const answerIndent = 16

// broken breaks an answer into at most two lines, between words.
func broken(s string, room float64) []answerLine {
	if textWidth(s, 14, false) <= room {
		return []answerLine{{s, false}}
	}
	at := 0 // the last blank that leaves a first line which fits
	for i, c := range s {
		if c == ' ' {
			if textWidth(s[:i], 14, false) > room {
				break
			}
			at = i
		}
	}
	if at == 0 {
		return []answerLine{{fit(s, 14, false, room), false}}
	}
	return []answerLine{{s[:at], false}, {fit(s[at+1:], 14, false, room-answerIndent), true}}
}

// fit cuts a text that is wider than room.
func fit(s string, size float64, bold bool, room float64) string {
	if textWidth(s, size, bold) <= room {
		return s
	}
	r := []rune(s)
	// Each step halves the part that may be kept, so that a long text does not cost its length squared.
	low, high := 0, len(r)
	for low < high {
		mid := (low + high + 1) / 2
		if textWidth(string(r[:mid])+"…", size, bold) <= room {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return strings.TrimRight(string(r[:low]), " ") + "…"
}
