package normal

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/compare"
	"tare/internal/plan"
)

// Per is what a cost is restated per.
type Per string

// The things to divide by.
const (
	CoreGHz  Per = "core-ghz"  // cores that the work can use, times their clock
	Core     Per = "core"      // cores that the work can use
	GHz      Per = "ghz"       // clock
	WattHour Per = "watt-hour" // power while working
	Price    Per = "price"     // money for an hour
)

// Pers lists them.
func Pers() []Per { return []Per{CoreGHz, Core, GHz, WattHour, Price} }

// Spec says how to restate.
type Spec struct {
	Per Per
	// UnequalTopology allows dividing by cores that differ in how many threads they run. Every line then says so.
	UnequalTopology bool
	// Given are facts by target that the user states now; what the bundle recorded does not override them.
	Given map[string]map[string]string
}

// Table is a comparison restated.
type Table struct {
	Per   Per
	Lines []Line
	// Notes are what a reader must know of all lines.
	Notes []string
}

// Line is one cell restated: Ratio, Low and High times Factor.
type Line struct {
	Workload, Target, Baseline string
	Ratio, Low, High           float64 // restated; Low and High are 0 without an interval
	Factor                     float64 // what the measured ratio was multiplied by
	// Value is the target's own figure restated to what the baseline had, in Unit: what it would be there.
	Value float64
	Unit  string
	// Arithmetic is the computation, figure by figure.
	Arithmetic string
	// Refused says why there is no figure; then all figures are 0.
	Refused string
	higher  bool // the figure is a rate
}

// Apply restates every deciding cell of r, whose plan is p. The error says what is missing or does not fit, when no cell
// can be restated.
func Apply(r *compare.Result, p *plan.Plan, s Spec) (*Table, error) {
	if !slices.Contains(Pers(), s.Per) {
		return nil, fmt.Errorf("normalise per %q: expected one of %s", s.Per, persText())
	}
	t := &Table{Per: s.Per}
	done, assumed := 0, []string{}
	sources := map[string]bool{}
	for i := range r.Cells {
		c := &r.Cells[i]
		w, ok := p.Workload(c.Workload)
		if !ok || !c.Primary || c.Target == c.Baseline {
			continue
		}
		l := Line{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, Unit: c.Unit}
		if !usableCell(c) {
			l.Refused = fmt.Sprintf("there is no ratio (%s)", c.Verdict)
			t.Lines = append(t.Lines, l)
			continue
		}
		a, b := resourcesOf(r, c.Target, s.Given), resourcesOf(r, c.Baseline, s.Given)
		f, err := factorOf(s, w, c.Family, &a, &b)
		if err != nil {
			l.Refused = err.Error()
		} else {
			l.restate(c, f)
			done++
			sources[f.source] = true
			if s.Per != WattHour && s.Per != Price && !scales(c.Family) && !slices.Contains(assumed, c.Family) {
				assumed = append(assumed, c.Family)
			}
		}
		t.Lines = append(t.Lines, l)
	}
	if done == 0 {
		return nil, t.refusal()
	}
	t.note(r, sources, assumed)
	return t, nil
}

// refusal is the error of a table without a figure: each reason once.
func (t *Table) refusal() error {
	var why []string
	for _, l := range t.Lines {
		if !slices.Contains(why, l.Refused) {
			why = append(why, l.Refused)
		}
	}
	if len(why) == 0 {
		return fmt.Errorf("normalise per %s: nothing was compared", t.Per)
	}
	return fmt.Errorf("normalise per %s: %s", t.Per, strings.Join(why, "; "))
}

// scales tells whether the work of a family is done by the processor, so that its cost is expected to follow cores and
// clock. Foreign commands are what their user says they are.
func scales(family string) bool {
	switch family {
	case "cpu", "kernel", "command", "database", "web":
		return true
	}
	return false
}

func (t *Table) note(r *compare.Result, sources map[string]bool, assumed []string) {
	if sources["nominal"] {
		t.Notes = append(t.Notes, "the clock rates are nominal, as each system tells them; nobody measured at what rate the processors ran")
	}
	if len(assumed) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("what %s work costs follows disks, memory or links rather than cores and clock: dividing it by them says little", strings.Join(assumed, " and ")))
	}
	if slices.ContainsFunc(r.Findings, func(f compare.Finding) bool { return f.Code == "host-steal" }) {
		t.Notes = append(t.Notes, "CPU time was stolen from the host while this was measured; it is not taken off")
	}
}

// factor is what a ratio is multiplied by, with its arithmetic: "(4 cores x 2.67 GHz) / (4 cores x 2.27 GHz)".
type factor struct {
	value  float64
	text   string
	source string // of the clocks; "" where none is used
	told   string // the topology that the user allowed to differ
}

// factorOf is what candidate a had for each that baseline b had.
func factorOf(s Spec, w *plan.Workload, family string, a, b *resources) (factor, error) {
	switch s.Per {
	case WattHour:
		if a.watts == 0 || b.watts == 0 {
			return factor{}, missing(a, b, a.watts, "power", "--watts %s=35")
		}
		return quotient(a.watts, b.watts, "W"), nil
	case Price:
		if a.pricePerHour == 0 || b.pricePerHour == 0 {
			return factor{}, missing(a, b, a.pricePerHour, "price", "--price %s=0.12/h")
		}
		if a.currency != b.currency {
			return factor{}, fmt.Errorf("%s is paid in %s and %s in %s: give both in one currency", a.name, unnamed(a.currency), b.name, unnamed(b.currency))
		}
		unit := "per hour"
		if a.currency != "" {
			unit = a.currency + "/h"
		}
		return quotient(a.pricePerHour, b.pricePerHour, unit), nil
	}
	return byProcessor(s, w, family, a, b)
}

func unnamed(currency string) string {
	if currency == "" {
		return "an unnamed currency"
	}
	return currency
}

func missing(a, b *resources, ofA float64, what, example string) error {
	name := a.name
	if ofA > 0 {
		name = b.name
	}
	return fmt.Errorf("the %s of %s is not known; give it with "+example, what, name, name)
}

func quotient(a, b float64, unit string) factor {
	return factor{value: a / b, text: fmt.Sprintf("%s %s / %s %s", digits(a), unit, digits(b), unit)}
}

// byProcessor divides by cores, by clock, or by both.
func byProcessor(s Spec, w *plan.Workload, family string, a, b *resources) (factor, error) {
	threads := 1
	if compare.ManyThreads(w, family) {
		threads, _ = strconv.Atoi(w.Params["threads"]) // 0: as many as there are
	}
	f := factor{value: 1}
	if threads != 1 {
		if why := unequal(a, b); why != "" {
			if !s.UnequalTopology {
				return f, fmt.Errorf("%s: no factor turns one into the other; measure both with the same cores and threads (for example with simultaneous multithreading off), or say --unequal-topology", why)
			}
			f.told = why
		}
	}
	ca, cb := a.usable(threads), b.usable(threads)
	var mine, theirs []string
	if s.Per != GHz {
		if ca == 0 || cb == 0 {
			return f, errors.New("the number of cores is not known")
		}
		f.value *= ca / cb
		mine, theirs = append(mine, coresText(ca)), append(theirs, coresText(cb))
	} else if ca != cb && threads != 1 && !s.UnequalTopology {
		return f, fmt.Errorf("%s works on %s and %s on %s: use --per core-ghz", a.name, coresText(ca), b.name, coresText(cb))
	}
	if s.Per != Core {
		if a.emulated || b.emulated {
			return f, errors.New("an emulated processor has no clock of its own: use --per core, or hardware virtualisation")
		}
		ma, mb, source := clocks(a, b)
		if source == "" {
			return f, fmt.Errorf("the clock of %s or of %s is not known", a.name, b.name)
		}
		f.source = source
		f.value *= ma / mb
		mine, theirs = append(mine, digits(ma/1000)+" GHz"), append(theirs, digits(mb/1000)+" GHz")
	}
	f.text = fmt.Sprintf("(%s) / (%s)", strings.Join(mine, " x "), strings.Join(theirs, " x "))
	return f, nil
}

// restate fills in the figures and writes down how they come about.
func (l *Line) restate(c *compare.Cell, f factor) {
	l.Factor = f.value
	l.Ratio, l.Low, l.High = c.Ratio.Center*f.value, c.Low*f.value, c.High*f.value
	l.Value = c.Center * f.value
	if l.higher = c.Better == "higher"; l.higher {
		l.Value = c.Center / f.value
	}
	l.Arithmetic = fmt.Sprintf("%s x %s = %s", ratioText(c.Ratio.Center, c.Low, c.High), f.text, ratioText(l.Ratio, l.Low, l.High))
	if f.source != "" {
		l.Arithmetic += ", clocks " + f.source
	}
	if f.told != "" {
		l.Arithmetic += "; unequal topology, as told: " + f.told
	}
}

func ratioText(center, low, high float64) string {
	if high == 0 {
		return fmt.Sprintf("%.3f", center)
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", center, low, high)
}

// digits writes a factor with all its digits, up to four of them significant.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

func coresText(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return digits(n) + " cores"
}

func persText() string {
	var s []string
	for _, p := range Pers() {
		s = append(s, string(p))
	}
	return strings.Join(s, ", ")
}
