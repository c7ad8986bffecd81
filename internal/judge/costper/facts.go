package costper

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tare/internal/record"
)

// The facts that this package reads from record.Facts.Extra, besides the cores, threads and clock that every agent
// tells.
const (
	// MeasuredMHz, inside, is the clock at which the agent saw its processor run, MHz. Without it the nominal clock is
	// used.
	MeasuredMHz = "cpu.measured_mhz"
	// CPULimit is the number of processors that a control group grants: as seen inside, or as the driver set it.
	CPULimit = "cgroup.cpus"
	// Watts, outside, is the power that the environment takes while it works, W, as the user says.
	Watts = "power.watts"
	// PricePerHour and Currency, outside, are what an hour of the environment costs, as the user says.
	PricePerHour = "price.per_hour"
	Currency     = "price.currency"
)

// Money is an amount in a currency; the currency may be unnamed.
type Money struct {
	Amount   float64 `json:"amount"`             // at least 0
	Currency string  `json:"currency,omitempty"` // upper case letters, or ""
}

// String writes the amount with as many decimals as matter: "140 USD", "0.12".
func (m Money) String() string {
	s := figure(m.Amount)
	if m.Currency != "" {
		s += " " + m.Currency
	}
	return s
}

// ParseMoney reads "140", "140USD" or "140 USD".
func ParseMoney(s string) (Money, error) {
	number, currency, err := split(s)
	if err != nil {
		return Money{}, fmt.Errorf("%q is not a price such as 140 or 140USD", s)
	}
	return Money{number, currency}, nil
}

// hours are the lengths of the periods for which something may be paid, the year as 365.25 days.
var hours = map[string]float64{"h": 1, "hour": 1, "day": 24, "month": 365.25 * 24 / 12, "year": 365.25 * 24}

// ParsePrice reads the value of --price, "NAME=0.12/h" or "NAME=40EUR/month", and gives the target's name and its
// facts.
func ParsePrice(s string) (target string, facts map[string]string, err error) {
	wrong := fmt.Errorf("%q is not a price such as vm=0.12/h or vm=40EUR/month; the period is h, day, month or year", s)
	name, value, ok := cutLast(s)
	amount, period, slash := strings.Cut(value, "/")
	length, known := hours[strings.TrimSpace(period)]
	if !ok || !slash || !known {
		return "", nil, wrong
	}
	m, err := ParseMoney(amount)
	if err != nil || m.Amount == 0 {
		return "", nil, wrong
	}
	facts = map[string]string{PricePerHour: strconv.FormatFloat(m.Amount/length, 'g', -1, 64)}
	if m.Currency != "" {
		facts[Currency] = m.Currency
	}
	return name, facts, nil
}

// ParseWatts reads the value of --watts, "NAME=35" or "NAME=35W", and gives the target's name and its facts.
func ParseWatts(s string) (target string, facts map[string]string, err error) {
	name, value, ok := cutLast(s)
	w, unit, err := split(value)
	if !ok || err != nil || w == 0 || unit != "" && unit != "W" {
		return "", nil, fmt.Errorf("%q is not a power such as vm=35 or vm=35W", s)
	}
	return name, map[string]string{Watts: strconv.FormatFloat(w, 'g', -1, 64)}, nil
}

// cutLast cuts at the last '=', because the name of a target is the user's.
func cutLast(s string) (name, value string, ok bool) {
	i := strings.LastIndexByte(s, '=')
	if i <= 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// largest bounds what is read, so that no product of it leaves the numbers.
const largest = 1e12

// split takes a number and the letters behind it apart. The number is a plain decimal: no sign, no exponent, no comma.
func split(s string) (number float64, letters string, err error) {
	s = strings.TrimSpace(s)
	digits := strings.TrimRight(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
	letters = strings.ToUpper(s[len(digits):])
	digits = strings.TrimSpace(digits)
	number, err = strconv.ParseFloat(digits, 64)
	if err != nil || strings.Trim(digits, "0123456789.") != "" || !(number >= 0) || number > largest {
		return 0, "", fmt.Errorf("%q is not a plain number", s)
	}
	return number, letters, nil
}

// Record lays facts over an environment's own, as they are to be written to its bundle.
func Record(re *record.Environment, facts map[string]string) {
	if len(facts) == 0 {
		return
	}
	extra := make(map[string]string, len(re.Outside.Extra)+len(facts))
	for k, v := range re.Outside.Extra {
		extra[k] = v
	}
	for k, v := range facts {
		extra[k] = v
	}
	re.Outside.Extra = extra
}

// figure writes a number for reading: three significant digits, and all digits before the point.
func figure(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// roundUp is the next whole number, where a rest that is only rounding counts for nothing.
func roundUp(v float64) float64 { return math.Ceil(v * (1 - 1e-9)) }
