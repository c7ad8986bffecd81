package calldiff

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/sys/trace"
	"tare/internal/unit"
)

const (
	// matters is the share of the difference from which on a part is told in words.
	matters = 0.05
	// alike is the largest difference of two figures, as a share, at which they count as the same.
	alike = 0.01
	// aFew is the largest difference of two numbers of calls, as a share, that explains nothing if the calls differ in
	// their time: it is of a few at the begin of each trial.
	aFew = 0.1
	// littleTime is the share of the time below which there is no difference to divide. Of calls it is alike.
	littleTime = 0.03
	// mostFound bounds the findings.
	mostFound = 5
	// slowed is the slowdown from which on the traced times are doubted.
	slowed = 1.3
)

// lost lists the data that were not traced, with the reasons.
func (e *Explanation) lost(in *Input, base, target *side) {
	if in.Lost != "" {
		e.Lost = append(e.Lost, in.Lost)
	}
	for _, s := range []*side{base, target} {
		hidden := ""
		if s.Hidden != "" {
			hidden = " (" + s.Hidden + ")"
		}
		switch {
		case s.Lost != "":
			e.Lost = append(e.Lost, s.Name+": "+s.Lost+", so its calls are not seen")
		case !s.Inside && len(s.Serving) > 0:
			e.Lost = append(e.Lost, fmt.Sprintf("%s: its own calls are not seen, because it has a kernel of its "+
				"own%s; instead, what serves it here was traced: %s", s.Name, hidden, strings.Join(s.Serving, ", ")))
		case s.sum == nil:
			e.Lost = append(e.Lost, s.Name+": the timed part of its trials was not seen by the trace")
		case len(s.rounds) < traced(s.Side):
			e.Lost = append(e.Lost, fmt.Sprintf("%s: in %d of %d trials the timed part was not seen by the trace",
				s.Name, traced(s.Side)-len(s.rounds), traced(s.Side)))
		case s.Within != "" && s.Within != in.Way:
			e.Lost = append(e.Lost, fmt.Sprintf("%s: its kernel is traced by %s%s, which tells no times, sleeps "+
				"and page faults", s.Name, wayText(s.Within), hidden))
		}
	}
	for _, s := range []*side{base, target} {
		if s.sum != nil && s.sum.Missed > 0 {
			e.Lost = append(e.Lost, fmt.Sprintf("%s: the kernel left %d events out of the trace, so some calls look "+
				"like user code", s.Name, s.sum.Missed))
		}
		if f := e.Slowdown[s.Name]; in.Way == trace.WayBPF && s.Within != trace.WayPtrace && f > slowed {
			e.Lost = append(e.Lost, fmt.Sprintf("%s: tracing made the work %.2f times as long, so calls that are "+
				"many and short look longer than they are", s.Name, f))
		}
	}
}

func traced(s *Side) (n int) {
	for i := range s.Trials {
		if s.Trials[i].traced() {
			n++
		}
	}
	return n
}

// find puts the findings into words.
func (e *Explanation) find() {
	if len(e.Parts) == 0 {
		e.Found = append(e.Found, "the calls of the work cannot be compared: they are not seen on both sides")
		return
	}
	switch {
	case !e.Divided && e.Timed:
		e.Found = append(e.Found, fmt.Sprintf("the traced time for each %s differs by less than %.0f %%, so there is "+
			"no difference to divide", e.Unit, 100*littleTime))
		return
	case !e.Divided:
		e.Found = append(e.Found, "both make the same calls in about the same number; how long they take is not told "+
			"by this way of tracing")
		return
	}
	if e.tests.tooFew() {
		e.Found = append(e.Found, fmt.Sprintf("%d rounds cannot show that a part differs; from %d on they can",
			e.Rounds, LeastRounds))
		return
	}
	for i := range e.Parts {
		p := &e.Parts[i]
		if !e.Timed && trace.Waits(p.Name) { // who waits while the work is stopped waits more often
			continue
		}
		if len(e.Found) < mostFound && p.Shown && math.Abs(p.Share) >= matters {
			e.Found = append(e.Found, e.sentence(p))
		}
	}
	if len(e.Found) == 0 {
		e.Found = append(e.Found, "no part is shown to differ")
	}
}

// sentence has a part's time or calls on both sides, and its share of the difference.
func (e *Explanation) sentence(p *Part) string {
	share := fmt.Sprintf("%.0f %% of the difference", 100*p.Share)
	if !e.Timed {
		share += " in calls"
	}
	if !p.calls {
		return fmt.Sprintf("%s: %s for each %s, %s", p.Name, signedTime(p.Extra), e.Unit, share)
	}
	more := p.More()
	most := max(p.Base.Count, p.Target.Count)
	var parts []string
	switch each := fmt.Sprintf("of %s each instead of %s", unit.Format(p.Target.EachNS, "ns"),
		unit.Format(p.Base.EachNS, "ns")); {
	case p.waits != "":
		parts = append(parts, fmt.Sprintf("waiting in %s, for %s: %s for each %s, %s", p.Name, p.waits,
			signedTime(p.Extra), e.Unit, share))
		if most > 0 {
			parts = append(parts, fmt.Sprintf("%s calls instead of %s", unit.Number(p.Target.Count),
				unit.Number(p.Base.Count)))
		}
	case math.Abs(more) <= alike*most:
		parts = append(parts, fmt.Sprintf("%s: %s for each %s, %s", p.Name, signedTime(p.Extra), e.Unit, share),
			fmt.Sprintf("as many calls (%s), %s", unit.Number(p.Target.Count), each))
	case e.Timed && math.Abs(more) <= aFew*most && p.Base.Count > 0 && p.Target.Count > 0:
		parts = append(parts, fmt.Sprintf("%s: %s for each %s, %s", p.Name, signedTime(p.Extra), e.Unit, share),
			fmt.Sprintf("%s calls instead of %s, %s", unit.Number(p.Target.Count), unit.Number(p.Base.Count), each))
	default:
		word := "more"
		if more < 0 {
			word = "fewer"
		}
		parts = append(parts, fmt.Sprintf("%s %s %s for each %s, %s", unit.Number(math.Abs(more)), word, p.Name, e.Unit,
			share))
		if e.Timed {
			parts = append(parts, signedTime(p.Extra))
		}
	}
	if text := errorsOf(p); text != "" {
		parts = append(parts, text)
	}
	if d := p.Target.Bytes - p.Base.Bytes; math.Abs(d) > alike*max(p.Base.Bytes, p.Target.Bytes) && math.Abs(d) >= 1 {
		parts = append(parts, fmt.Sprintf("%s instead of %s", unit.Format(p.Target.Bytes, "B"),
			unit.Format(p.Base.Bytes, "B")))
	}
	return strings.Join(parts, "; ")
}

// served is a call of what serves both on this machine, with what the target's make more.
type served struct {
	name     string
	more, ns float64
	test     int
}

// servedMore are the calls that what serves the target on this machine makes more often than what serves the baseline,
// where they have kernels of their own, those first that take longest.
func (e *Explanation) servedMore(base, target *side) []*served {
	if base.outside == nil || target.outside == nil {
		return nil
	}
	by := map[string]*served{}
	add := func(s *side, sign float64) {
		for i := range s.outside.Serving {
			c := &s.outside.Serving[i]
			if by[c.Name] == nil {
				by[c.Name] = &served{name: c.Name}
			}
			by[c.Name].more += sign * float64(c.Count) / s.served
			by[c.Name].ns += sign * servedTime(c) / s.served
		}
	}
	add(base, -1)
	add(target, 1)
	var all []*served
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if trace.Waits(name) {
			continue
		}
		by[name].test = e.tests.addAny(func(r *oneRound) (ns float64) {
			if r.outside == nil {
				return math.NaN()
			}
			for i := range r.outside.Serving {
				if c := &r.outside.Serving[i]; c.Name == name {
					ns += servedTime(c)
				}
			}
			return ns
		})
		all = append(all, by[name])
	}
	slices.SortStableFunc(all, func(a, b *served) int { return cmp.Compare(b.ns, a.ns) })
	return all
}

// findServed puts into words which of these are shown.
func (e *Explanation) findServed(all []*served) {
	all = slices.DeleteFunc(all, func(s *served) bool { return s.more <= 0 || s.ns <= 0 || !e.tests.is[s.test] })
	for _, s := range all[:min(len(all), mostServedMore)] {
		e.Found = append(e.Found, fmt.Sprintf("what serves %s on this machine makes %s more %s for each %s; %s",
			e.Target, unit.Number(s.more), s.name, e.Unit, signedTime(s.ns)))
	}
}

// mostServedMore bounds what is said of that.
const mostServedMore = 3

// errorsOf says which failures differ.
func errorsOf(p *Part) string {
	names := map[string]bool{}
	for name := range p.Base.Errnos {
		names[name] = true
	}
	for name := range p.Target.Errnos {
		names[name] = true
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b, t := p.Base.Errnos[name], p.Target.Errnos[name]
		if math.Abs(t-b) > alike*max(b, t) {
			out = append(out, fmt.Sprintf("%s fail with %s instead of %s", unit.Number(t), name, unit.Number(b)))
		}
	}
	return strings.Join(out, ", ")
}

func signedTime(ns float64) string {
	if ns < 0 {
		return "-" + unit.Format(-ns, "ns")
	}
	return "+" + unit.Format(ns, "ns")
}

// Options are those of Text.
type Options struct {
	Width int
	// Wrap breaks a text into lines after a prefix.
	Wrap func(prefix, text string, width int) []string
	All  bool // every call, not only those that differ most
}

// mostParts bounds the calls of the table, unless all are asked for.
const mostParts = 8

// Text writes the explanation for the terminal.
func Text(w io.Writer, e *Explanation, o Options) error {
	t := &text{Options: o}
	now := ""
	if e.Again > 0 {
		now = ", " + unit.Number(e.Again) + " now"
	}
	t.say("", fmt.Sprintf("Why %s in %s: %s in the bundle%s", e.Workload, e.Target, unit.Number(e.Ratio), now))
	how := fmt.Sprintf("%d rounds traced by %s", e.Rounds, wayText(e.Way))
	for _, name := range []string{e.Baseline, e.Target} {
		if f := e.Slowdown[name]; f > 0 {
			how += fmt.Sprintf("; in %s that took %.2f times as long", name, f)
		}
	}
	t.say("  ", how)
	if e.Share < 1 {
		t.say("  ", fmt.Sprintf("each traced trial did %s %% of a trial's work, because it is stopped at each call",
			unit.Number(100*e.Share)))
	}
	if line := withinText(e); line != "" {
		t.say("  ", line)
	}
	for _, f := range e.Found {
		t.say("* ", f)
	}
	if len(e.Parts) > 0 {
		t.table(e)
	}
	t.rest(e)
	for _, l := range e.Lost {
		t.say("! ", l)
	}
	_, err := io.WriteString(w, t.out.String())
	return err
}

// withinText says which sides were traced in a kernel of their own.
func withinText(e *Explanation) string {
	var parts []string
	for _, name := range []string{e.Baseline, e.Target} {
		if way := e.Within[name]; way != "" {
			parts = append(parts, name+" by "+wayText(way))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "traced in its own kernel, by its own clock: " + strings.Join(parts, ", ")
}

func wayText(way string) string {
	if way == "bpf" {
		return "BPF"
	}
	return way
}

type text struct {
	Options
	out strings.Builder
}

// say writes a text after a prefix, on as many lines as it takes.
func (t *text) say(prefix, s string) {
	lines := []string{prefix + s}
	if t.Wrap != nil && t.Width > 0 {
		lines = t.Wrap(prefix, s, t.Width)
	}
	for _, l := range lines {
		t.out.WriteString(l + "\n")
	}
}

// table writes the parts, for each unit of work.
func (t *text) table(e *Explanation) {
	head := []string{"for each " + e.Unit, "calls", e.Baseline, e.Target, "time", e.Baseline, e.Target, "share"}
	rows := [][]string{head}
	if !e.Timed {
		rows[0] = []string{head[0], "calls", e.Baseline, e.Target, "errors", e.Baseline, e.Target, "share"}
	}
	left := 0
	for i := range e.Parts {
		p := &e.Parts[i]
		if !t.All && (len(rows) > mostParts || e.small(p)) {
			left++
			continue
		}
		share := fmt.Sprintf("%.0f %%", 100*p.Share)
		switch {
		case !p.Shown:
			share = "not shown"
		case !e.Divided:
			share = "-"
		}
		row := []string{"  " + p.Name, "", unit.Number(p.Base.Count), unit.Number(p.Target.Count), "",
			unit.Format(p.Base.NS, "ns"), unit.Format(p.Target.NS, "ns"), share}
		if !p.calls {
			row[2], row[3] = "", ""
		}
		if !e.Timed {
			row[5], row[6] = unit.Number(p.Base.Errors), unit.Number(p.Target.Errors)
		}
		rows = append(rows, row)
	}
	if e.Timed {
		rows = append(rows, []string{"  together", "", "", "", "", unit.Format(e.BaseNS, "ns"),
			unit.Format(e.TargetNS, "ns"), ""})
	}
	t.grid(rows)
	if left > 0 {
		t.say("  ", fmt.Sprintf("and %d other calls (--all shows them)", left))
	}
}

// small tells whether a part is nothing to speak of on either side.
func (e *Explanation) small(p *Part) bool {
	if e.Timed {
		return p.Base.NS < alike*e.BaseNS && p.Target.NS < alike*e.TargetNS
	}
	return max(p.Base.Count, p.Target.Count) < alike*e.calls
}

// grid writes rows of cells, the first column to the left and the others to the right.
func (t *text) grid(rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, r := range rows {
		line := ""
		for i, cell := range r {
			pad := strings.Repeat(" ", width[i]-len([]rune(cell)))
			if i == 0 {
				line += cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		t.out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// rest writes what is beside the parts.
func (t *text) rest(e *Explanation) {
	part := map[string]bool{} // what is told as a part already
	for i := range e.Parts {
		part[e.Parts[i].Name] = e.Parts[i].waits != ""
	}
	for _, w := range e.Waits {
		if w.Shown && !part[w.Name] && e.tells(w.Base, w.Target) {
			t.say("  ", fmt.Sprintf("waiting in %s: %s, in %s %s", w.Name, unit.Format(w.Base, "ns"), e.Target,
				unit.Format(w.Target, "ns")))
		}
	}
	for _, c := range e.Counts {
		if c.Shown && max(c.Base, c.Target)*eventNS >= alike*max(e.BaseNS, e.TargetNS) {
			t.say("  ", fmt.Sprintf("%s: %s, in %s %s", c.Name, unit.Number(c.Base), e.Target, unit.Number(c.Target)))
		}
	}
	for _, p := range e.Stacks {
		if !p.Shown || !e.tells(p.Base, p.Target) {
			continue
		}
		call := p.Call
		if call == "" {
			call = "a page fault"
		}
		t.say("  ", fmt.Sprintf("asleep in %s: %s, in %s %s, at %s", call, unit.Format(p.Base, "ns"), e.Target,
			unit.Format(p.Target, "ns"), strings.Join(p.Frames[:min(len(p.Frames), mostFrames)], " < ")))
	}
	said := ""
	for _, s := range e.Serving {
		head := fmt.Sprintf("What serves %s on this machine, for each %s", s.For, e.Unit)
		if s.Within {
			head = fmt.Sprintf("Services in %s, for each %s", s.For, e.Unit)
		}
		if head != said {
			said = head
			t.say("", head)
		}
		line := fmt.Sprintf("%s %s", unit.Number(s.Count), s.Name)
		if s.NS > 0 {
			line += ", " + unit.Format(s.NS, "ns")
		}
		if s.Bytes >= 1 {
			line += ", " + unit.Format(s.Bytes, "B")
		}
		t.say("  ", line)
	}
}

// tells tells whether a time asleep says something. One that is the same share of the time on both sides does not:
// there is a thread that waits all the time, as in most programs.
func (e *Explanation) tells(base, target float64) bool {
	b, t := base/e.BaseNS, target/e.TargetNS
	return math.Abs(t-b) > background*max(b, t) && max(b, t) >= matters
}

// background is the largest difference of a wait's shares, as a part of the larger one, at which they count as the
// same.
const background = 0.25

// eventNS is about what a page fault or a context switch costs at the least, in ns: fewer are not worth a line.
const eventNS = 1000

// mostFrames bounds the functions of a place that are told.
const mostFrames = 5
