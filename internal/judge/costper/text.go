package costper

import (
	"fmt"
	"io"
	"strings"
	"time"

	"tare/internal/unit"
)

// WriteText writes the table with its arithmetic, a line for each cell, for the terminal. Names come from the user and
// pass through clean, which must make them printable.
func (t *Table) WriteText(w io.Writer, clean func(string) string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Costs per %s\n", perWords[t.Per])
	for i := range t.Lines {
		l := &t.Lines[i]
		fmt.Fprintf(&b, "  %s %s against %s: ", clean(l.Target), clean(l.Workload), clean(l.Baseline))
		if l.Refused != "" {
			fmt.Fprintf(&b, "not restated: %s\n", clean(l.Refused))
			continue
		}
		fmt.Fprintf(&b, "%s\n", clean(l.Arithmetic))
		if l.Unit != "" {
			fmt.Fprintf(&b, "      its %s %s would be %s %s %s %s\n", figure(l.Figure), clean(l.Unit), figure(l.Value),
				clean(l.Unit), likeWords[t.Per], clean(l.Baseline))
		}
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "  Note: %s.\n", clean(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Words say what a cost is restated per, "core-GHz", and what stands between a restated figure and the baseline's name,
// "with the cores and clock of". Both are the name itself for one that is not known.
func (p Per) Words() (each, like string) {
	if perWords[p] == "" {
		return string(p), string(p) + " of"
	}
	return perWords[p], likeWords[p]
}

var perWords = map[Per]string{CoreGHz: "core-GHz", Core: "core", GHz: "GHz", WattHour: "watt-hour",
	Price: "price of an hour"}

// likeWords stand between a restated figure and the baseline's name.
var likeWords = map[Per]string{CoreGHz: "with the cores and clock of", Core: "with the cores of",
	GHz: "at the clock of", WattHour: "with the power of", Price: "for the price of"}

// WriteText writes the answers as sentences. The interval's level and scope are part of each.
func (x *Worth) WriteText(w io.Writer, s WorthSpec, scope string, clean func(string) string) error {
	var b strings.Builder
	if x.Refused != "" {
		fmt.Fprintf(&b, "  %s: no answer: %s.\n", clean(x.Target), clean(x.Refused))
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "  %s saves %s in each use of %s against %s (%.0f %%, %s).\n", clean(x.Target), x.PerUse.time(),
		clean(x.Workload), clean(x.Baseline), 100*x.Level, clean(scope))
	price := s.Price
	if price.Currency == "" {
		price.Currency = s.Hourly.Currency
	}
	if k := x.Capacity; k != nil {
		fmt.Fprintf(&b, "      A use takes %s: %d at once, and %s %s in %s; the ratio is %s.\n",
			unit.Format(x.Use, "s"), k.AtOnce, figure(k.Rate), clean(k.Unit), clean(x.Baseline), x.Ratio.in("", 1))
	}
	fmt.Fprintf(&b, "      %s a day, on all days of the year, save %s a day and %s a year.\n", uses(s.UsesPerDay),
		x.PerDay.time(), x.PerYear.time())
	if s.Hourly.Amount > 0 {
		whole := Span{roundUp(x.BreakEvenUses.Center), roundUp(x.BreakEvenUses.Low), roundUp(x.BreakEvenUses.High)}
		fmt.Fprintf(&b, "      At %s an hour that is %s a year; %s are saved after %s: ",
			Money{s.Hourly.Amount, price.Currency}, x.MoneyPerYear.in(price.Currency, 1), price, whole.in("uses", 1))
		if x.BreakEvenDay.IsZero() {
			b.WriteString("not within a hundred years.\n")
		} else {
			fmt.Fprintf(&b, "on %s [%s, %s].\n", date(x.BreakEvenDay), date(x.DayEarly), date(x.DayLate))
		}
	} else {
		fmt.Fprintf(&b, "      %s are saved within a year if an hour is worth at least %s.\n", price,
			x.BreakEvenHourly.in(price.Currency, 1))
	}
	if k := x.Capacity; k != nil {
		fmt.Fprintf(&b, "      As capacity it is %s more than the %s %s of %s, each for %s once.\n",
			k.More.in(clean(k.Unit), 1), figure(k.Rate), clean(k.Unit), clean(x.Baseline),
			k.PerMore.in(price.Currency, 1))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// in writes a span in a unit of so many of its own: "20 [10, 30] s".
func (s Span) in(unit string, size float64) string {
	text := fmt.Sprintf("%s [%s, %s]", figure(s.Center/size), figure(s.Low/size), figure(s.High/size))
	if unit != "" {
		text += " " + unit
	}
	return text
}

// time writes a span of seconds in the largest unit of which its centre has at least one.
func (s Span) time() string {
	for _, u := range []struct {
		name string
		s    float64
	}{{"h", 3600}, {"min", 60}, {"s", 1}, {"ms", 1e-3}, {"µs", 1e-6}} {
		if s.Center >= u.s {
			return s.in(u.name, u.s)
		}
	}
	return s.in("ns", 1e-9)
}

func uses(n float64) string {
	if n == 1 {
		return "1 use"
	}
	return figure(n) + " uses"
}

func date(t Day) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.DateOnly)
}
