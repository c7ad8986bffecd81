package costper

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/all"
	"tare/internal/plan"
	"tare/internal/record"
)

// daysInYear is the number of days of use in a year: "uses a day" is an average over all of them.
const daysInYear = 365

// longestDays bounds a break-even that is worth a date.
const longestDays = 100 * daysInYear

// WorthSpec asks what a faster environment is worth.
type WorthSpec struct {
	Price      Money     // what the candidate costs once
	UsesPerDay float64   // average over all days of the year, above 0
	Hourly     Money     // what an hour of waiting costs; 0 when nobody says
	Workload   string    // label; "" for the one that is nearest to what people wait for, see preferred
	From       time.Time // the first day of use
}

// Check returns an error for a question that has no answer, whatever is measured.
func (s WorthSpec) Check() error {
	switch {
	case !(s.Price.Amount > 0):
		return errors.New("the price must be above 0")
	case !(s.UsesPerDay > 0) || s.UsesPerDay > 1e6:
		return errors.New("give --uses-per-day, above 0 and at most 1000000")
	case s.Hourly.Amount > 0 && s.Hourly.Currency != s.Price.Currency && s.Hourly.Currency != "" &&
		s.Price.Currency != "":
		return fmt.Errorf("the price is in %s and the hour in %s: give both in one currency", s.Price.Currency,
			s.Hourly.Currency)
	}
	return nil
}

// Span is a figure with its interval.
type Span struct {
	Center float64 `json:"center"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// Day is a date, which is written as one: 2026-11-21.
type Day struct{ time.Time }

// MarshalJSON implements json.Marshaler, in place of that of a time.
func (d Day) MarshalJSON() ([]byte, error) { return []byte(`"` + d.Format(time.DateOnly) + `"`), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Day) UnmarshalJSON(b []byte) (err error) {
	d.Time, err = time.Parse(`"`+time.DateOnly+`"`, string(b))
	return err
}

// Answers are the question and what each candidate is worth: the section "worth" of the JSON report.
type Answers struct {
	Price      Money   `json:"price"`
	UsesPerDay float64 `json:"uses_per_day"`
	Hourly     Money   `json:"hourly"` // amount 0 when nobody said
	From       Day     `json:"from"`
	DaysInYear int     `json:"days_in_year"`
	Answers    []Worth `json:"answers"`
}

// NewAnswers puts what Ask found under its question.
func NewAnswers(s WorthSpec, found []Worth) *Answers {
	if s.Price.Currency == "" {
		s.Price.Currency = s.Hourly.Currency
	}
	return &Answers{s.Price, s.UsesPerDay, s.Hourly, Day{s.From}, daysInYear, append([]Worth{}, found...)}
}

// Worth is the answer for one candidate. Saved times are Use times one less Ratio.
type Worth struct {
	Workload     string  `json:"workload"`
	Target       string  `json:"target"`
	Baseline     string  `json:"baseline"`
	Level        float64 `json:"level"`          // confidence of the intervals
	Use          float64 `json:"use_seconds"`    // the baseline's own time of one use, s
	Ratio        Span    `json:"ratio"`          // of the candidate's time to it
	PerUse       Span    `json:"per_use"`        // time saved in one use, s
	PerDay       Span    `json:"per_day"`        // s
	PerYear      Span    `json:"per_year"`       // s
	MoneyPerYear Span    `json:"money_per_year"` // in the currency of Hourly; 0 without one
	// Capacity is there where the work is told as a rate, from which Use is computed.
	Capacity *Capacity `json:"capacity,omitempty"`
	// BreakEvenUses is the number of uses after which the price is saved; 0 without an hourly price.
	BreakEvenUses Span `json:"break_even_uses"`
	// BreakEvenHourly is the value of an hour at which the price is saved within a year.
	BreakEvenHourly Span `json:"break_even_hourly"`
	// BreakEvenDay, DayEarly and DayLate are the day on which the price is saved, with its interval; zero when that is
	// not within a hundred years.
	BreakEvenDay Day `json:"break_even_day,omitzero"`
	DayEarly     Day `json:"day_early,omitzero"`
	DayLate      Day `json:"day_late,omitzero"`
	// Refused is the reason why there is no answer; then there are no figures.
	Refused string `json:"refused,omitempty"`
}

// Capacity is a saving as what the candidate does in a second beyond what the baseline does.
//
// In a closed load each of AtOnce lanes begins a use when its last one ends. So they are all in use all the time, and a
// use takes AtOnce / Rate seconds, however it is spread.
type Capacity struct {
	Unit    string  `json:"unit"`           // of Rate: "req/s"
	AtOnce  int64   `json:"at_once"`        // uses that are on their way at the same time
	Rate    float64 `json:"rate"`           // the baseline's
	More    Span    `json:"more"`           // what the candidate does beyond it: Rate times 1 / Ratio less 1
	PerMore Span    `json:"price_per_more"` // price of each unit of More
}

// Ask answers for every candidate of r, whose plan is p. The interval of the ratio is carried through; the baseline's
// own time per use is its median. A candidate whose interval includes no saving gets no answer. The error tells what is
// wrong with the question, or why no candidate has an answer.
func Ask(r *verdict.Result, p *plan.Plan, s WorthSpec) ([]Worth, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("worth: %w", err)
	}
	label, err := worthWorkload(r, p, s.Workload)
	if err != nil {
		return nil, err
	}
	var out []Worth
	var refused []string
	for i := range r.Cells {
		c := &r.Cells[i]
		u := useOf(p, c)
		if c.Workload != label || u == nil || c.Target == c.Baseline ||
			slices.ContainsFunc(out, func(w Worth) bool { return w.Target == c.Target }) {
			continue
		}
		w := Worth{Workload: label, Target: c.Target, Baseline: c.Baseline}
		if w.Refused = noSaving(c); w.Refused == "" {
			w.compute(c, u, s)
		} else {
			refused = append(refused, w.Refused)
		}
		out = append(out, w)
	}
	if len(refused) == len(out) {
		return nil, fmt.Errorf("worth: %s", strings.Join(refused, "; "))
	}
	return out, nil
}

// secondsIn are the units in which a use can be timed.
var secondsIn = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

// use is the way from a cell's figure to the time of a use: by the seconds in its unit, or as a rate of atOnce uses at
// a time.
type use struct {
	unit   float64 // s; 0 for a rate
	atOnce int64
}

// useOf returns the use of a cell; nil for a cell whose figure tells no time of a use.
func useOf(p *plan.Plan, c *verdict.Cell) *use {
	if unit := secondsIn[c.Unit]; unit > 0 && c.Better == "lower" && (c.Primary || c.Metric == "seconds") {
		return &use{unit: unit}
	}
	w, ok := p.Workload(c.Workload)
	if !ok || !c.Primary || c.Better != "higher" || !strings.HasSuffix(c.Unit, "/s") {
		return nil
	}
	lanes := all.Named(w.Kind).Is.Lanes
	if lanes == "" {
		return nil
	}
	// lanes=2x is another number in each environment, and then a use is not the same one.
	n, err := strconv.ParseInt(w.Params[lanes], 10, 64)
	if err != nil || n < 1 {
		return nil
	}
	return &use{atOnce: n}
}

// seconds returns the time of a use in the cell's baseline.
func (u *use) seconds(c *verdict.Cell) float64 {
	if u.unit > 0 {
		return c.BaselineCenter * u.unit
	}
	return float64(u.atOnce) / c.BaselineCenter
}

// awaited returns the declaration of a workload's kind on whether people wait for such work.
func awaited(p *plan.Plan, label string) workload.Awaited {
	w, ok := p.Workload(label)
	if !ok {
		return workload.NotAwaited
	}
	return all.Named(w.Kind).Is.Awaited
}

func worthWorkload(r *verdict.Result, p *plan.Plan, asked string) (string, error) {
	var told []string
	for i := range r.Cells {
		c := &r.Cells[i]
		if useOf(p, c) != nil && c.Target != c.Baseline && !slices.Contains(told, c.Workload) {
			told = append(told, c.Workload)
		}
	}
	switch {
	case asked != "" && slices.Contains(told, asked):
		return asked, nil
	case len(told) == 0:
		return "", errors.New("worth: no workload of this run says how long a use takes; measure the work you wait " +
			"for with -w command:command=COMMAND, or a page with -w http.load")
	case asked != "":
		return "", fmt.Errorf("worth: no workload %q says how long a use takes; those that do: %s", asked,
			strings.Join(told, ", "))
	}
	// Of those that people wait for alike it is the first of the plan.
	return slices.MaxFunc(told, func(a, b string) int { return cmp.Compare(awaited(p, a), awaited(p, b)) }), nil
}

// noSaving returns the reason why a cell promises no saving; "" when it does.
func noSaving(c *verdict.Cell) string {
	name := fmt.Sprintf("%s in %s", c.Workload, c.Target)
	switch {
	case c.Verdict == record.Withheld || c.Verdict == record.Failed:
		return fmt.Sprintf("%s has no figure to compute with (%s)", name, c.Verdict)
	case c.UnlikeFlushes():
		return fmt.Sprintf("%s and %s flush differently: it promises no saving", name, c.Baseline)
	case !(c.BaselineCenter > 0):
		return fmt.Sprintf("%s has no figure in %s to compute with", name, c.Baseline)
	case c.Level == 0:
		return fmt.Sprintf("%s has too few blocks for an interval", name)
	case c.Low >= 1:
		return fmt.Sprintf("%s costs more than in %s (%s): nothing is saved", name, c.Baseline,
			ratioText(c.Ratio.Center, c.Low, c.High))
	case c.High >= 1:
		return fmt.Sprintf("%s may save nothing: its interval against %s includes no saving (%s)", name, c.Baseline,
			ratioText(c.Ratio.Center, c.Low, c.High))
	}
	return ""
}

// compute carries the ratio's interval through: the largest ratio saves least.
func (w *Worth) compute(c *verdict.Cell, u *use, s WorthSpec) {
	w.Level, w.Use, w.Ratio = c.Level, u.seconds(c), Span{c.Ratio.Center, c.Low, c.High}
	w.PerUse = Span{1 - c.Ratio.Center, 1 - c.High, 1 - c.Low}.times(w.Use)
	if u.atOnce > 0 {
		more := Span{1/c.Ratio.Center - 1, 1/c.High - 1, 1/c.Low - 1}.times(c.BaselineCenter)
		w.Capacity = &Capacity{c.Unit, u.atOnce, c.BaselineCenter, more, more.under(s.Price.Amount)}
	}
	w.PerDay = w.PerUse.times(s.UsesPerDay)
	w.PerYear = w.PerDay.times(daysInYear)
	w.BreakEvenHourly = w.PerYear.times(1.0 / 3600).under(s.Price.Amount)
	if s.Hourly.Amount == 0 {
		return
	}
	w.MoneyPerYear = w.PerYear.times(s.Hourly.Amount / 3600)
	w.BreakEvenUses = w.PerUse.times(s.Hourly.Amount / 3600).under(s.Price.Amount)
	day := func(uses float64) Day {
		days := roundUp(uses / s.UsesPerDay)
		if !(days <= longestDays) {
			return Day{}
		}
		return Day{s.From.AddDate(0, 0, max(int(days)-1, 0))} // From is a day of use itself
	}
	w.BreakEvenDay, w.DayEarly, w.DayLate = day(w.BreakEvenUses.Center), day(w.BreakEvenUses.Low),
		day(w.BreakEvenUses.High)
}

func (s Span) times(f float64) Span { return Span{s.Center * f, s.Low * f, s.High * f} }

// under divides an amount by the span, which turns its ends over.
func (s Span) under(amount float64) Span {
	return Span{amount / s.Center, amount / s.High, amount / s.Low}
}
