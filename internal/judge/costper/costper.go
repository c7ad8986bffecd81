package costper

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
)

// Per is the resource that a cost is divided by.
type Per string

// The resources to divide by.
const (
	CoreGHz  Per = "core-ghz"  // cores that the work can use, times their clock
	Core     Per = "core"      // cores that the work can use
	GHz      Per = "ghz"       // clock
	WattHour Per = "watt-hour" // power while working
	Price    Per = "price"     // money for an hour
)

// Pers lists them.
func Pers() []Per { return []Per{CoreGHz, Core, GHz, WattHour, Price} }

// Spec has the settings of a restatement.
type Spec struct {
	Per Per
	// UnequalTopology allows dividing by cores that differ in their number of threads. Every line then says so.
	UnequalTopology bool
	// Given are facts by target that the user states now; what the bundle recorded does not override them.
	Given map[string]map[string]string
}

// Table is a comparison restated. Its JSON form is the section "normal" of the JSON report.
type Table struct {
	Per   Per    `json:"per"`
	Lines []Line `json:"lines"`
	// Notes are sentences that hold for all lines.
	Notes []string `json:"notes"`
}

// Line is one cell restated: Ratio, Low and High are those of Measured times Factor.
type Line struct {
	Workload string `json:"workload"`
	Target   string `json:"target"`
	Baseline string `json:"baseline"`
	Measured Span   `json:"measured"` // the cell's own ratio; Low and High are 0 without an interval
	// Terms are the terms whose product is Factor.
	Terms  []Term  `json:"terms"`
	Factor float64 `json:"factor"`
	Ratio  float64 `json:"ratio"` // restated; Low and High are 0 without an interval
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	// Figure is the target's own figure as measured, in Unit; Value is what it would be with what the baseline had.
	Figure float64 `json:"figure"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	// Arithmetic is the computation in one line, figure by figure.
	Arithmetic string `json:"arithmetic"`
	// Told is the difference in topology that the user allowed; "" where there is none.
	Told string `json:"unequal_topology,omitempty"`
	// Refused is the reason why there is no figure; then all figures are 0.
	Refused string `json:"refused,omitempty"`
}

// Term is one quotient of a factor: what the candidate had for each that the baseline had.
type Term struct {
	What      string  `json:"what"`           // "cores", "clock", "power" or "price"
	Unit      string  `json:"unit,omitempty"` // "GHz", "W", "EUR/h"; "" for cores
	Candidate float64 `json:"candidate"`
	Baseline  float64 `json:"baseline"`
	Source    string  `json:"source,omitempty"` // of a clock: "measured" or "nominal"
}

// Product is the factor on the ratio, written out: "(4 cores x 2.67 GHz) / (4 cores x 2.27 GHz)". It is "" for a line
// that was refused.
func (l *Line) Product() string {
	if len(l.Terms) == 0 {
		return ""
	}
	f := factor{terms: l.Terms}
	return f.text()
}

// Apply restates every deciding cell of r, whose plan is p. The error says what is missing or does not fit, when no
// cell can be restated.
func Apply(r *verdict.Result, p *plan.Plan, s Spec) (*Table, error) {
	if !slices.Contains(Pers(), s.Per) {
		return nil, fmt.Errorf("normalise per %q: expected one of %s", s.Per, persText())
	}
	t := &Table{Per: s.Per, Lines: []Line{}, Notes: []string{}}
	done, assumed := 0, []string{}
	sources := map[string]bool{}
	for i := range r.Cells {
		c := &r.Cells[i]
		w, ok := p.Workload(c.Workload)
		if !ok || !c.Primary || c.Target == c.Baseline {
			continue
		}
		l := Line{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, Unit: c.Unit, Terms: []Term{}}
		if !usableCell(c) {
			l.Refused = fmt.Sprintf("there is no ratio (%s)", c.Verdict)
			t.Lines = append(t.Lines, l)
			continue
		}
		a, b := resourcesOf(r, c.Target, s.Given), resourcesOf(r, c.Baseline, s.Given)
		f, err := factorOf(s, w, &a, &b)
		if err != nil {
			l.Refused = err.Error()
		} else {
			l.restate(c, f)
			done++
			for _, term := range l.Terms {
				sources[term.Source] = true
			}
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
	case workload.FamilyCPU, workload.FamilyKernel, workload.FamilyCommand, workload.FamilyDatabase,
		workload.FamilyWeb:
		return true
	}
	return false
}

func (t *Table) note(r *verdict.Result, sources map[string]bool, assumed []string) {
	if sources["nominal"] {
		t.Notes = append(t.Notes,
			"the clock rates are nominal, as each system reports them; the real rates were not measured")
	}
	if len(assumed) > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("the cost of %s work depends on disks, memory or links more than on "+
			"cores and clock: per core or GHz it says little", strings.Join(assumed, " and ")))
	}
	if slices.ContainsFunc(r.Findings, func(f verdict.Finding) bool { return f.Code == "host-steal" }) {
		t.Notes = append(t.Notes, "CPU time was stolen from the host during the measurement; it is not subtracted")
	}
}

// factor is the factor on a ratio, as the product of its terms.
type factor struct {
	terms []Term
	told  string // the topology that the user allowed to differ
}

// add takes one more quotient.
func (f *factor) add(what, unit string, candidate, baseline float64, source string) {
	f.terms = append(f.terms, Term{what, unit, candidate, baseline, source})
}

func (f *factor) value() float64 {
	v := 1.0
	for _, t := range f.terms {
		v *= t.Candidate / t.Baseline
	}
	return v
}

// text is the arithmetic: "(4 cores x 2.67 GHz) / (4 cores x 2.27 GHz)", or "35 W / 70 W".
func (f *factor) text() string {
	var mine, theirs []string
	for _, t := range f.terms {
		mine, theirs = append(mine, t.side(t.Candidate)), append(theirs, t.side(t.Baseline))
	}
	if len(f.terms) == 1 && f.terms[0].Source == "" && f.terms[0].What != "cores" {
		return mine[0] + " / " + theirs[0]
	}
	return fmt.Sprintf("(%s) / (%s)", strings.Join(mine, " x "), strings.Join(theirs, " x "))
}

func (t *Term) side(v float64) string {
	if t.What == "cores" {
		return coresText(v)
	}
	return digits(v) + " " + t.Unit
}

// factorOf returns the resource of candidate a over that of baseline b. The error says which of them is not known, or
// why the two cannot be divided.
func factorOf(s Spec, w *plan.Workload, a, b *resources) (factor, error) {
	switch s.Per {
	case WattHour:
		if a.watts == 0 || b.watts == 0 {
			return factor{}, missing(a, b, a.watts, "power", "--watts %s=35")
		}
		return factor{terms: []Term{{"power", "W", a.watts, b.watts, ""}}}, nil
	case Price:
		if a.pricePerHour == 0 || b.pricePerHour == 0 {
			return factor{}, missing(a, b, a.pricePerHour, "price", "--price %s=0.12/h")
		}
		if a.currency != b.currency {
			return factor{}, fmt.Errorf("%s is paid in %s and %s in %s: give both in one currency", a.name,
				unnamed(a.currency), b.name, unnamed(b.currency))
		}
		unit := "per hour"
		if a.currency != "" {
			unit = a.currency + "/h"
		}
		return factor{terms: []Term{{"price", unit, a.pricePerHour, b.pricePerHour, ""}}}, nil
	}
	return byProcessor(s, w, a, b)
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

// byProcessor divides by cores, by clock, or by both.
func byProcessor(s Spec, w *plan.Workload, a, b *resources) (factor, error) {
	threads := 1
	if verdict.ManyThreads(w) {
		threads, _ = strconv.Atoi(w.Params["threads"]) // 0: as many as there are
	}
	var f factor
	if threads != 1 {
		if why := unequal(a, b); why != "" {
			if !s.UnequalTopology {
				return f, fmt.Errorf("%s: no factor converts one into the other; measure both with the same cores "+
					"and threads (for example with simultaneous multithreading off), or give --unequal-topology", why)
			}
			f.told = why
		}
	}
	ca, cb := a.usable(threads), b.usable(threads)
	if s.Per != GHz {
		if ca == 0 || cb == 0 {
			return f, errors.New("the number of cores is not known")
		}
		f.add("cores", "", ca, cb, "")
	} else if ca != cb && threads != 1 && !s.UnequalTopology {
		return f, fmt.Errorf("%s works on %s and %s on %s: use --per core-ghz", a.name, coresText(ca), b.name,
			coresText(cb))
	}
	if s.Per != Core {
		if a.emulated || b.emulated {
			return f, errors.New("an emulated processor has no clock of its own: use --per core, or hardware " +
				"virtualisation")
		}
		ma, mb, source := clocks(a, b)
		if source == "" {
			return f, fmt.Errorf("the clock of %s or of %s is not known", a.name, b.name)
		}
		f.add("clock", "GHz", ma/1000, mb/1000, source)
	}
	return f, nil
}

// restate fills in the figures and writes down how they come about.
func (l *Line) restate(c *verdict.Cell, f factor) {
	l.Measured, l.Figure = Span{c.Ratio.Center, c.Low, c.High}, c.Center
	l.Terms, l.Factor, l.Told = f.terms, f.value(), f.told
	l.Ratio, l.Low, l.High = c.Ratio.Center*l.Factor, c.Low*l.Factor, c.High*l.Factor
	l.Value = c.Center * l.Factor
	if c.Better == "higher" {
		l.Value = c.Center / l.Factor
	}
	l.Arithmetic = fmt.Sprintf("%s x %s = %s", ratioText(c.Ratio.Center, c.Low, c.High), f.text(),
		ratioText(l.Ratio, l.Low, l.High))
	for _, t := range f.terms {
		if t.Source != "" {
			l.Arithmetic += ", clocks " + t.Source
		}
	}
	if f.told != "" {
		l.Arithmetic += "; unequal topology, as requested: " + f.told
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
