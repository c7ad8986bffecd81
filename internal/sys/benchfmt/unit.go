package benchfmt

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"tare/internal/unit"
)

// normal restates a value as seconds, bytes, or a rate by the second, and tells the direction by its unit: rates are
// better when higher, everything else when lower. A unit that is none of these stays as it is.
func normal(v float64, name string) Figure {
	name = strings.TrimSpace(name)
	what, per, _ := strings.Cut(name, "/")
	if by := seconds(per); by > 0 { // a rate: MB/s, ops/ms, Melem/s
		f := Figure{Value: v / by, Unit: what + "/s", Better: unit.Higher}
		if n := bytesIn(what); n > 0 {
			f.Value, f.Unit = f.Value*n, "B/s"
		} else if n, noun := countIn(what); n > 0 {
			f.Value, f.Unit = f.Value*n, noun+"/s"
		}
		return f
	}
	f := Figure{Value: v, Unit: name, Better: unit.Lower}
	if per == "" || isEach(per) { // ns/op and ns are the same to a reader: the time of one
		if n := seconds(what); n > 0 {
			f.Value, f.Unit = v*n, "s"
		} else if n := bytesIn(what); n > 0 {
			f.Value, f.Unit = v*n, "B"
		}
	}
	return f
}

// isEach tells whether the text behind the stroke of a unit means one execution.
func isEach(per string) bool {
	switch per {
	case "op", "iter", "iteration", "call", "run", "event", "req", "request":
		return true
	}
	return false
}

// Second is how many seconds a unit has that is a second or a part of it, as programs write it: s, ms, us, µs, ns, ps.
// It is 0 for any other.
func Second(name string) float64 {
	switch name {
	case "s":
		return 1
	case "ms":
		return 1e-3
	case "us", "µs", "μs": // with the micro sign, and with the Greek letter
		return 1e-6
	case "ns":
		return 1e-9
	case "ps":
		return 1e-12
	}
	return 0
}

// seconds is the length of a unit of time, in seconds; 0 if it is none.
func seconds(name string) float64 {
	switch name {
	case "s", "sec", "secs", "second", "seconds":
		return 1
	case "ms", "msec", "milliseconds":
		return 1e-3
	case "us", "µs", "μs", "usec", "microseconds": // with the micro sign, and with the Greek letter
		return 1e-6
	case "ns", "nsec", "nanoseconds":
		return 1e-9
	case "ps":
		return 1e-12
	case "min":
		return 60
	case "h", "hr":
		return 3600
	case "day":
		return 86400
	}
	return 0
}

// bytesIn is the size of a unit, in bytes; 0 if it is none.
func bytesIn(name string) float64 {
	switch name {
	case "B", "bytes":
		return 1
	case "kB", "KB":
		return 1e3
	case "MB":
		return 1e6
	case "GB":
		return 1e9
	case "TB":
		return 1e12
	case "KiB":
		return 1 << 10
	case "MiB":
		return 1 << 20
	case "GiB":
		return 1 << 30
	case "TiB":
		return 1 << 40
	}
	return 0
}

// countIn is the factor of a counted unit, and the noun of its things: criterion writes Melem. 0 if it says no
// multiple.
func countIn(name string) (n float64, noun string) {
	const noun1 = "elem"
	prefix, ok := strings.CutSuffix(name, noun1)
	if !ok {
		return 0, ""
	}
	switch prefix {
	case "":
		return 1, noun1
	case "K":
		return 1e3, noun1
	case "M":
		return 1e6, noun1
	case "G":
		return 1e9, noun1
	}
	return 0, ""
}

// jsonNumber is a number of a JSON document that may stand there as the text NaN or Infinity, as JMH writes them; null
// is NaN, and a missing number is 0.
type jsonNumber struct{ v float64 }

// UnmarshalJSON never fails for a number or a text: a text that is no number is NaN, and is left out where it is used.
func (a *jsonNumber) UnmarshalJSON(src []byte) error {
	a.v = math.NaN()
	var text string
	if len(src) > 0 && src[0] == '"' {
		if err := json.Unmarshal(src, &text); err != nil {
			return err
		}
	} else {
		text = string(src)
	}
	// Too large a number is infinite.
	if v, err := strconv.ParseFloat(text, 64); err == nil || math.IsInf(v, 0) {
		a.v = v
	}
	return nil
}
