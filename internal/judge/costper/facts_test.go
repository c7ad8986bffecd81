package costper

import (
	"math"
	"strconv"
	"testing"

	"tare/internal/record"
)

func TestParsePrice(t *testing.T) {
	for in, want := range map[string]struct {
		target, currency string
		perHour          float64
	}{
		"vm=0.12/h":          {"vm", "", 0.12},
		"vm=0.12 EUR / hour": {"vm", "EUR", 0.12},
		"vm=2.4usd/day":      {"vm", "USD", 0.1},
		"vm:9p=73.05/month":  {"vm:9p", "", 0.1},
		"a=b=8766/year":      {"a=b", "", 1},
	} {
		target, facts, err := ParsePrice(in)
		got, _ := strconv.ParseFloat(facts[PricePerHour], 64)
		if err != nil || target != want.target || facts[Currency] != want.currency ||
			math.Abs(got-want.perHour) > 1e-9 {
			t.Errorf("%s: %q %v %v", in, target, facts, err)
		}
	}
	for _, in := range []string{"", "vm", "=1/h", "vm=1", "vm=/h", "vm=-1/h", "vm=0/h", "vm=1e3/h", "vm=NaN/h",
		"vm=inf/h", "vm=1/week", "vm=1,5/h", "vm=0x1/h", "vm=1/h/h", "vm=9999999999999/h"} {
		if target, facts, err := ParsePrice(in); err == nil {
			t.Errorf("%q: %q %v", in, target, facts)
		}
	}
}

func TestParseWatts(t *testing.T) {
	for in, want := range map[string]string{"vm=35": "35", "vm=35W": "35", "vm=7.5 w": "7.5"} {
		if target, facts, err := ParseWatts(in); err != nil || target != "vm" || facts[Watts] != want {
			t.Errorf("%s: %q %v %v", in, target, facts, err)
		}
	}
	for _, in := range []string{"vm", "vm=", "vm=0", "vm=-3", "vm=35kW", "vm=35/h", "=3", "vm=1_0"} {
		if _, facts, err := ParseWatts(in); err == nil {
			t.Errorf("%q: %v", in, facts)
		}
	}
}

// FuzzParse holds that what is accepted is a usable fact of a named target.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"vm=0.12/h", "vm=40 EUR/month", "vm=35W", "=", "a=1e9/h", "140USD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if target, facts, err := ParsePrice(s); err == nil && (target == "" || positive(facts[PricePerHour]) == 0) {
			t.Errorf("%q: %q %v", s, target, facts)
		}
		if target, facts, err := ParseWatts(s); err == nil && (target == "" || positive(facts[Watts]) == 0) {
			t.Errorf("%q: %q %v", s, target, facts)
		}
		if m, err := ParseMoney(s); err == nil && !(m.Amount >= 0 && m.Amount <= largest) {
			t.Errorf("%q: %v", s, m)
		}
	})
}

func TestRecord(t *testing.T) {
	before := map[string]string{"accel": "kvm", Watts: "1"}
	re := record.Environment{Target: record.Target{Outside: record.Facts{Extra: before}}}
	Record(&re, map[string]string{Watts: "35"})
	if re.Outside.Extra[Watts] != "35" || re.Outside.Extra["accel"] != "kvm" || before[Watts] != "1" {
		t.Errorf("%v, and the driver's own map is %v", re.Outside.Extra, before)
	}
	re = record.Environment{}
	Record(&re, nil)
	if re.Outside.Extra != nil {
		t.Error("no facts make no map")
	}
}
