package report

import (
	"math"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// sign is the character before a ratio: the verdict at a glance.
type sign int

const (
	costsMore sign = iota
	costsLess
	same
	cannotTell
	measured
	unconfirmed // measured as well, and beyond the margin
	unranked    // measured, between sides that flushed differently
	failed
	withheld
	notRun
	signs
)

var glyphs = [signs]struct{ unicode, ascii, legend string }{
	costsMore:   {"▲", ">", "costs more"},
	costsLess:   {"▼", "<", "costs less"},
	same:        {"=", "=", "same within"}, // the legend adds the margin
	cannotTell:  {"~", "~", "not decided yet"},
	measured:    {"≈", "%", "measured precisely, but too near the margin for a verdict"},
	unconfirmed: {"≈", "%", "beyond the margin, but not significant among so many"},
	unranked:    {"≠", "#", "not ranked: the sides flush differently"},
	failed:      {"✕", "x", "failed"},
	withheld:    {"?", "?", "verdict withheld"},
	notRun:      {"–", "-", "not run"},
}

// signNames are the signs by the names that the page asks for.
var signNames = [signs]string{"more", "less", "same", "unsure", "measured", "unconfirmed", "unranked", "failed",
	"withheld", "absent"}

// mark is the character after a ratio.
type mark int

const (
	emulated mark = iota
	flushPassed
	flushIgnored
	flushMemory
	flushUnknown
	ofBoot
	finding
	doubt
	marks
)

var markTexts = [marks]struct{ mark, legend string }{
	emulated:     {"e", "emulated CPU"},
	flushPassed:  {"f", "flush passed on"},
	flushIgnored: {"i", "flush ignored"},
	flushMemory:  {"m", "in memory: nothing to flush to"},
	flushUnknown: {"u", "what a flush does is not known"},
	ofBoot: {"b", "within " + percentText(verdict.BootShare) +
		" on one boot: another boot may say otherwise (sessions)"},
	finding: {"!", "read the finding"},
	doubt:   {"*", "has warnings (in the details)"},
}

func signOf(c *verdict.Cell) sign {
	if !ran(c) {
		return notRun
	}
	if c.UnlikeFlushes() && c.Verdict == record.Measured {
		return unranked
	}
	if c.Verdict == record.Measured && c.NotConfirmed() {
		return unconfirmed
	}
	return verdictSign(c.Verdict, c.Ratio.Center)
}

func verdictSign(v record.Verdict, ratio float64) sign {
	switch v {
	case record.Different:
		if ratio < 1 {
			return costsLess
		}
		return costsMore
	case record.Equivalent:
		return same
	case record.Measured:
		return measured
	case record.Withheld:
		return withheld
	case record.Failed:
		return failed
	}
	return cannotTell
}

// tableEntry is one entry of the table: its parts are aligned below each other within a column.
type tableEntry struct {
	sign     sign
	noSign   bool // a summary has no verdict
	unasked  bool // the target has no cell of this workload
	ratio    string
	interval string
	flags    string
	// The drawing of the bar; low and high are 0 without an interval.
	center, low, high float64
}

// show makes the entry for a cell. With narrow the interval is given as plus or minus its half-width.
func (t *terminal) show(c *verdict.Cell, narrow bool) tableEntry {
	s := tableEntry{sign: signOf(c), unasked: c == nil}
	t.usedSign[s.sign] = true
	if s.sign == notRun {
		return s
	}
	// A withheld verdict has no ratio beside it: a figure that must not be ranked would be.
	if s.sign != failed && s.sign != withheld && c.Ratio.Center > 0 {
		s.ratio = ratioText(c.Ratio.Center)
		s.interval = intervalText(c.Low, c.High, c.Level > 0, narrow)
		s.center = c.Ratio.Center
		if s.interval != "" {
			s.low, s.high = c.Low, c.High
		}
	}
	add := func(f mark) {
		s.flags += markTexts[f].mark
		t.usedMark[f] = true
	}
	if c.Emulated {
		add(emulated)
	}
	if d := t.durable[c.Target]; c.Writes && d != nil {
		add(flushMark(d))
	}
	if c.ThisBoot {
		add(ofBoot)
	}
	switch {
	case t.pointed[[2]string{c.Target, c.Workload}]:
		add(finding)
	case len(c.Warnings) > 0:
		add(doubt)
	}
	if s.sign == same {
		t.margin = max(t.margin, c.SameMargin)
	}
	return s
}

// flushMark returns the mark of a figure that depends on the effect of a flush.
func flushMark(d *record.Durability) mark {
	switch d.Class {
	case "flushes":
		return flushPassed
	case "ignores-flushes":
		return flushIgnored
	case "memory":
		return flushMemory
	}
	return flushUnknown
}

func (t *terminal) showSummary(s *verdict.Summary, narrow bool) tableEntry {
	if s == nil || !(s.Ratio > 0) {
		return tableEntry{noSign: true}
	}
	x := tableEntry{noSign: true, ratio: ratioText(s.Ratio), interval: intervalText(s.Low, s.High, s.High > 0, narrow),
		center: s.Ratio}
	if x.interval != "" {
		x.low, x.high = s.Low, s.High
	}
	return x
}

func intervalText(low, high float64, has, narrow bool) string {
	if !has || !(low > 0) || !(high >= low) {
		return ""
	}
	if narrow {
		return "±" + compactPercent(math.Sqrt(high/low)-1)
	}
	return ratioText(low) + "-" + ratioText(high)
}

// compactPercent is percentText for a narrow column: 3%, .4%.
func compactPercent(v float64) string {
	switch p := v * 100; {
	case p < 0.05:
		return "0%"
	case p < 0.95:
		return strings.TrimPrefix(strconv.FormatFloat(p, 'f', 1, 64), "0") + "%"
	case p < 1000:
		return strconv.FormatFloat(p, 'f', 0, 64) + "%"
	}
	return ">999%"
}

// verdictText is a cell's verdict in a word, and whether it is of this boot.
func verdictText(c *verdict.Cell) string {
	if c.UnlikeFlushes() && c.Verdict == record.Measured {
		return string(c.Verdict) + " (flushes differ)"
	}
	if c.ThisBoot {
		return string(c.Verdict) + " (this boot)"
	}
	return string(c.Verdict)
}
