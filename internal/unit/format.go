package unit

import (
	"math"
	"strconv"
	"strings"
)

// scale is one step of a family of units: a figure of at least factor is shown in it.
type scale struct {
	factor float64
	name   string
}

var (
	timeScales   = []scale{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}
	binaryScales = []scale{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}}
	byteScales   = []scale{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}}
	jouleScales  = []scale{{1e3, "kJ"}, {1, "J"}, {1e-3, "mJ"}, {1e-6, "µJ"}, {1e-9, "nJ"}}
	siScales     = []scale{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}
)

// seconds and bytes are the sizes of units in the base unit of their family.
var (
	seconds = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
	binary  = map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
	decimal = map[string]float64{"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
	// short are the short names of counted things, for narrow columns; an operation has no name there.
	short = map[string]string{"events": "ev", "ops": "", "operations": "", "operation": "", "event": "ev",
		"requests": "req"}
)

// Format writes a value for people, with three significant digits (four below 10,000 of a rate, with a thousands
// separator) and the unit that suits its size: 2,041 ev/s, 1.94 M/s, 410 MiB/s, 62.3 ns. Times go from ns to s, bytes
// in the power of their unit (B and MiB by 1024, MB by 1000), everything else by SI prefix. A value that is not a
// finite number is "?". Joules go from nJ to kJ.
func Format(value float64, unit string) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "?"
	}
	base, per := unit, ""
	if before, ok := strings.CutSuffix(unit, "/s"); ok {
		base, per = before, "/s"
	}
	if f, ok := seconds[base]; ok && per == "" {
		return inScale(value*f, timeScales, "")
	}
	if unit == "J" {
		return inScale(value, jouleScales, "")
	}
	if f, ok := binary[base]; ok {
		return inScale(value*f, binaryScales, per)
	}
	if f, ok := decimal[base]; ok {
		return inScale(value*f, byteScales, per)
	}
	return counted(value, ShortName(base), per)
}

// ShortName is the name that Format gives a counted thing: "ev" for "events", "" for operations.
func ShortName(name string) string {
	if s, known := short[name]; known {
		return s
	}
	return name
}

// inScale writes v, given in the family's base unit, in the largest unit that keeps it at 1 or more after rounding.
func inScale(v float64, scales []scale, suffix string) string {
	for _, s := range scales {
		// Rounded in the displayed unit: 1 GiB in bytes, rounded to three decimal digits, is a little less than 1 GiB.
		if math.Abs(Round(v/s.factor, 3)) >= 1 {
			return Number(v/s.factor) + " " + s.name + suffix
		}
	}
	// Smaller than the smallest unit; zero is always written in the base unit.
	last := scales[len(scales)-1]
	if v == 0 {
		for _, s := range scales {
			if s.factor == 1 {
				last = s
			}
		}
	}
	return Number(v/last.factor) + " " + last.name + suffix
}

// counted writes a number of named things, possibly per second. The prefix stands before the name: 1.94 M/s, 12.3 k
// ev/s.
func counted(v float64, name, per string) string {
	prefix := ""
	if math.Abs(v) >= 9999.5 {
		rounded := math.Abs(Round(v, 3))
		for _, s := range siScales {
			if rounded >= s.factor {
				v, prefix = v/s.factor, s.name
				break
			}
		}
	}
	unit := prefix + per
	if name != "" {
		unit = strings.TrimSpace(prefix+" "+name) + per
	}
	if unit == "" {
		return Number(v)
	}
	return Number(v) + " " + unit
}

// Number writes v with three significant digits, whole numbers from 1,000 on with a thousands separator, and an
// exponent only where the plain form would be longer than 12 digits.
func Number(v float64) string {
	abs := math.Abs(v)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v == 0:
		return "0"
	case abs >= 1e12 || abs < 1e-6:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case abs >= 999.5:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	}
	// Rounding may carry into another digit (9.996 is 10.0), so the number of decimals is taken after it.
	exp := int(math.Floor(math.Log10(math.Abs(Round(v, 3)))))
	return strconv.FormatFloat(v, 'f', max(0, 2-exp), 64)
}

// Round rounds v to a number of significant decimal digits, at most 17.
func Round(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', digits-1, 64), 64)
	if err != nil {
		return v
	}
	return r
}

// group puts a comma between thousands of a whole number.
func group(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return sign + b.String()
}

// Plural writes how many of a thing there are: "1 trial", "3 trials". The noun forms its plural with an s.
func Plural[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun + "s"
}

// Cut makes a text no longer than n characters, the last of which then says that it was cut.
func Cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
