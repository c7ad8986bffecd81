package costper

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
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

// TestWorthPrefersCommands holds that the question is asked of what people wait for.
func TestWorthPrefersCommands(t *testing.T) {
	r, p := versus("memory.latency", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 100, 50)
	r2, p2 := versus("command", []verdict.Target{machine("a", 2, 2, 0), machine("b", 2, 2, 0)}, 10, 5)
	p2.Workloads[0].Label, r2.Cells[0].Workload = "make", "make"
	p.Workloads, r.Cells = append(p.Workloads, p2.Workloads...), append(r.Cells, r2.Cells...)
	got, err := Ask(r, p, theStudy())
	if err != nil || len(got) != 1 || got[0].Workload != "make" {
		t.Errorf("%+v, %v", got, err)
	}
	s := theStudy()
	s.Workload = "replay"
	if got, err = Ask(r, p, s); err != nil || got[0].Workload != "replay" {
		t.Errorf("%+v, %v", got, err)
	}
}
