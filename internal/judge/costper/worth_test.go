package costper

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// theStudy is the question of 2015: does a hypervisor for 140 USD pay over a free one? A build takes 100 s in the free
// one and 0.8 of that in the other.
func theStudy() WorthSpec {
	return WorthSpec{Price: Money{140, "USD"}, UsesPerDay: 10, Hourly: Money{60, "USD"},
		From: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
}

func near(t *testing.T, what string, got, want Span) {
	t.Helper()
	for _, x := range [][2]float64{{got.Center, want.Center}, {got.Low, want.Low}, {got.High, want.High}} {
		if math.Abs(x[0]-x[1]) > 1e-6*math.Abs(x[1])+1e-12 {
			t.Errorf("%s: %+v, want %+v", what, got, want)
			return
		}
	}
}

func TestWorth(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("virtualbox", 2, 2, 0), machine("vmware", 2, 2, 0)}, 100, 80)
	r.Cells[0].Low, r.Cells[0].High = 0.7, 0.9
	answers, err := Ask(r, p, theStudy())
	if err != nil || len(answers) != 1 {
		t.Fatalf("%+v, %v", answers, err)
	}
	w := &answers[0]
	near(t, "per use", w.PerUse, Span{20, 10, 30}) // seconds; the largest ratio saves least
	near(t, "per day", w.PerDay, Span{200, 100, 300})
	near(t, "per year", w.PerYear, Span{73000, 36500, 109500})
	near(t, "money", w.MoneyPerYear, Span{73000.0 / 60, 36500.0 / 60, 109500.0 / 60}) // 60 USD an hour is 1 a minute
	near(t, "uses", w.BreakEvenUses, Span{420, 280, 840})                             // 140 USD are 140 minutes
	near(t, "an hour's worth", w.BreakEvenHourly,
		Span{140 * 3600.0 / 73000, 140 * 3600.0 / 109500, 140 * 3600.0 / 36500})
	for _, d := range []struct {
		got  Day
		days int
	}{{w.BreakEvenDay, 41}, {w.DayEarly, 27}, {w.DayLate, 83}} {
		if want := theStudy().From.AddDate(0, 0, d.days); !d.got.Equal(want) {
			t.Errorf("%v, want %v", d.got, want)
		}
	}
	var out bytes.Buffer
	if err := w.WriteText(&out, theStudy(), "on this boot", strings.ToUpper); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"VMWARE saves 20 [10, 30] s in", "95 %", "ON THIS BOOT", "140 USD",
		"1217 [608, 1825] USD a year", "420 [280, 840] uses", "2027-01-01 [2026-12-18, 2027-02-12]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
}

// TestWorthOnTheFirstDay asks of a price that the first uses save: the first day of use is day one, not day zero.
func TestWorthOfUnlikeFlushes(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("virtualbox", 2, 2, 0), machine("vmware", 2, 2, 0)}, 100, 80)
	r.Cells[0].Low, r.Cells[0].High = 0.7, 0.9
	r.Cells[0].Warnings = []record.Warning{{Code: verdict.FlushesDiffer}}
	if why := noSaving(&r.Cells[0]); !strings.Contains(why, "flush differently") {
		t.Errorf("it promises a saving: %q", why)
	}
	if table, err := Apply(r, p, perCores); err == nil && table.Lines[0].Ratio != 0 {
		t.Errorf("it is restated: %+v", table.Lines[0])
	}
}

func TestWorthOnTheFirstDay(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 80)
	// ten uses a day save 200 s, which are worth 20/6 USD
	for price, days := range map[float64]int{1e-9: 0, 20.0 / 6: 0, 3.4: 1} {
		s := theStudy()
		s.Price.Amount = price
		if got, err := Ask(r, p, s); err != nil || !got[0].BreakEvenDay.Equal(s.From.AddDate(0, 0, days)) {
			t.Errorf("%v: %+v, %v", price, got, err)
		}
	}
}

// rated turns the cell into a rate of a workload of that kind: the baseline's per second, and the same ratio.
func rated(r *verdict.Result, p *plan.Plan, kind, unit string, rate float64, params workload.Params) {
	p.Workloads[0].Kind, p.Workloads[0].Params = kind, params
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Kind, c.Metric, c.Unit, c.Better = kind, "rate", unit, "higher"
		c.BaselineCenter, c.Center = rate, rate/c.Ratio.Center
	}
}

// TestWorthOfARate asks the study's question of its web table: two connections get 400 pages a second from the free
// product, and a page costs 0.75 of that in the other.
func TestWorthOfARate(t *testing.T) {
	for _, c := range []struct {
		kind, unit string
		params     workload.Params
	}{
		{"http.load", "req/s", workload.Params{"connections": "2"}},
		{"http.get", "req/s", workload.Params{"connections": "2", "threads": "1"}},
		{"http.fetch", "req/s", workload.Params{"connections": "2"}},
		{"sql.oltp", "transactions/s", workload.Params{"lanes": "2"}},
	} {
		r, p := versus("command", []verdict.Target{machine("free", 2, 2, 0), machine("paid", 2, 2, 0)}, 100, 75)
		r.Cells[0].Low, r.Cells[0].High = 0.7, 0.9
		rated(r, p, c.kind, c.unit, 400, c.params)
		answers, err := Ask(r, p, theStudy())
		if err != nil || len(answers) != 1 || answers[0].Capacity == nil {
			t.Fatalf("%s: %+v, %v", c.kind, answers, err)
		}
		w := &answers[0]
		if w.Use != 0.005 { // two at once, 400 a second
			t.Errorf("%s: a use takes %v s", c.kind, w.Use)
		}
		near(t, "per use", w.PerUse, Span{0.00125, 0.0005, 0.0015})
		near(t, "uses", w.BreakEvenUses, Span{140 * 60 / 0.00125, 140 * 60 / 0.0015, 140 * 60 / 0.0005})
		near(t, "more", w.Capacity.More, Span{400.0 / 3, 400/0.9 - 400, 400/0.7 - 400})
		near(t, "price", w.Capacity.PerMore, Span{1.05, 140 / (400/0.7 - 400), 140 / (400/0.9 - 400)})
		// The rate that the candidate was measured at is the baseline's and what it does beyond that.
		if got := w.Capacity.Rate + w.Capacity.More.Center; math.Abs(got-r.Cells[0].Center) > 1e-9 {
			t.Errorf("%s: %v and more are %v, and %v were measured", c.kind, w.Capacity.Rate, got, r.Cells[0].Center)
		}
		var out bytes.Buffer
		if err := w.WriteText(&out, theStudy(), "on this boot", strings.ToUpper); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"PAID saves 1.25 [0.5, 1.5] ms in each use",
			"A use takes 5.00 ms: 2 at once, and 400 " + strings.ToUpper(c.unit) +
				" in FREE; the ratio is 0.75 [0.7, 0.9].",
			"it is 133 [44.4, 171] " + strings.ToUpper(c.unit) + " more than the 400 " + strings.ToUpper(c.unit) +
				" of FREE, each for 1.05 [0.817, 3.15] USD once."} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %q is not in:\n%s", c.kind, want, &out)
			}
		}
	}
}

// TestRatesThatAreNoUse: a rate says what a use takes only where it is known how many are on their way at once, and
// where somebody waits for one.
func TestRatesThatAreNoUse(t *testing.T) {
	for _, c := range []struct {
		name, kind, unit string
		params           workload.Params
		change           func(*verdict.Cell)
	}{
		{"another number in each environment", "sql.oltp", "transactions/s", workload.Params{"lanes": "2x"}, nil},
		{"no connections", "http.load", "req/s", workload.Params{}, nil},
		{"none at once", "http.load", "req/s", workload.Params{"connections": "0"}, nil},
		{"nobody waits for a prime", "cpu.prime", "events/s", workload.Params{"threads": "2"}, nil},
		{"the open model's own rate", "http.load", "req/s", workload.Params{"connections": "2"},
			func(c *verdict.Cell) { c.Primary = false }},
		{"bytes", "http.load", "MiB", workload.Params{"connections": "2"}, nil},
	} {
		r, p := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 50)
		rated(r, p, c.kind, c.unit, 400, c.params)
		if c.change != nil {
			c.change(&r.Cells[0])
		}
		got, err := Ask(r, p, theStudy())
		if err == nil || !strings.Contains(err.Error(), "says how long a use takes") {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestWorthIsRefused(t *testing.T) {
	ask := func(low, center, high float64, change func(*verdict.Cell)) ([]Worth, error) {
		r, p := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 100*center)
		c := &r.Cells[0]
		c.Low, c.High = low, high
		if change != nil {
			change(c)
		}
		return Ask(r, p, theStudy())
	}
	for _, c := range []struct {
		name              string
		low, center, high float64
		change            func(*verdict.Cell)
		want              string
	}{
		{"no saving", 0.95, 0.98, 1.01, nil, "interval against a includes no saving (0.980 [0.950, 1.010])"},
		{"a saving of nothing at the end", 0.9, 0.95, 1, nil, "includes no saving"},
		{"dearer", 1.1, 1.2, 1.3, nil, "nothing is saved"},
		{"no interval", 0, 0.5, 0, func(c *verdict.Cell) { c.Level = 0 }, "too few blocks"},
		{"withheld", 0.4, 0.5, 0.6, func(c *verdict.Cell) { c.Verdict = record.Withheld }, "WITHHELD"},
		{"a rate", 0.4, 0.5, 0.6, func(c *verdict.Cell) { c.Unit, c.Better = "1/s", "higher" },
			"no workload of this run says how long"},
		{"bytes", 0.4, 0.5, 0.6, func(c *verdict.Cell) { c.Unit = "B" }, "no workload of this run says how long"},
	} {
		if got, err := ask(c.low, c.center, c.high, c.change); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v; want %q", c.name, got, err, c.want)
		}
	}
	// One candidate's refusal does not silence the other's answer.
	r, p := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0), machine("c", 2, 2, 0)},
		100, 100, 50)
	got, err := Ask(r, p, theStudy())
	if err != nil || len(got) != 2 || got[0].Refused == "" || got[0].PerUse != (Span{}) || got[1].Refused != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWorthQuestions(t *testing.T) {
	r, p := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 50)
	for _, c := range []struct {
		name   string
		change func(*WorthSpec)
		want   string
	}{
		{"free", func(s *WorthSpec) { s.Price.Amount = 0 }, "price must be above 0"},
		{"never used", func(s *WorthSpec) { s.UsesPerDay = 0 }, "--uses-per-day"},
		{"not a number", func(s *WorthSpec) { s.UsesPerDay = math.NaN() }, "--uses-per-day"},
		{"two currencies", func(s *WorthSpec) { s.Hourly.Currency = "EUR" }, "one currency"},
		{"another workload", func(s *WorthSpec) { s.Workload = "make" }, "those that do: replay"},
	} {
		s := theStudy()
		c.change(&s)
		if got, err := Ask(r, p, s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	s := theStudy()
	s.Hourly = Money{}
	got, err := Ask(r, p, s)
	if err != nil || got[0].MoneyPerYear != (Span{}) || !got[0].BreakEvenDay.IsZero() ||
		got[0].BreakEvenHourly.Center == 0 {
		t.Errorf("without an hourly price: %+v, %v", got, err)
	}
	// A price that is never saved has no date, and neither does arithmetic overflow into one.
	s = theStudy()
	s.Price.Amount, s.UsesPerDay = 1e12, 1e-3
	if got, err = Ask(r, p, s); err != nil || !got[0].BreakEvenDay.IsZero() || !got[0].DayLate.IsZero() {
		t.Errorf("never: %+v, %v", got, err)
	}
}

// TestWorthPrefers holds that the question is asked of what people wait for: a command, or else a site under load, or
// else another page, and then whatever tells a time.
func TestWorthPrefers(t *testing.T) {
	r, p := versus("memory.latency", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 50)
	ask := func(workload, want string) {
		t.Helper()
		s := theStudy()
		s.Workload = workload
		if got, err := Ask(r, p, s); err != nil || len(got) != 1 || got[0].Workload != want {
			t.Errorf("asked of %q, not of %q: %+v, %v", workload, want, got, err)
		}
	}
	add := func(label, kind, unit, better string) {
		r2, p2 := versus(kind, []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 10, 5)
		p2.Workloads[0].Label, p2.Workloads[0].Params = label, workload.Params{"connections": "2"}
		r2.Cells[0].Workload, r2.Cells[0].Unit, r2.Cells[0].Better = label, unit, better
		p.Workloads, r.Cells = append(p.Workloads, p2.Workloads...), append(r.Cells, r2.Cells...)
	}
	ask("", "replay")
	add("a cold page", "http.cold", "ms", "lower")
	ask("", "a cold page")
	add("site", "http.load", "req/s", "higher")
	add("site logged in", "http.load", "req/s", "higher")
	ask("", "site")
	add("make", "command", "s", "lower")
	ask("", "make")
	ask("site logged in", "site logged in")
	ask("replay", "replay")
}
