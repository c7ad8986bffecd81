package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
	{"K", 1 << 10}, {"k", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1}, {"", 1},
}

// ParseSize reads a number of bytes: "4KiB", "64MiB", "1.5GiB", "10MB" (decimal), "512". A single letter is binary, as
// in fio and dd. The result is never negative.
func ParseSize(s string) (int64, error) {
	t := strings.TrimSpace(s)
	i := 0
	for i < len(t) && (t[i] >= '0' && t[i] <= '9' || t[i] == '.' || t[i] == '_') {
		i++
	}
	num, suffix := strings.ReplaceAll(t[:i], "_", ""), strings.TrimSpace(t[i:])
	f, err := strconv.ParseFloat(num, 64)
	if num == "" || err != nil {
		return 0, fmt.Errorf("%q is not a size such as 4KiB, 64MiB or 1GiB", s)
	}
	for _, u := range sizeUnits {
		if u.name != suffix {
			continue
		}
		b := f * float64(u.bytes)
		if b != math.Trunc(b) {
			return 0, fmt.Errorf("%q is not a whole number of bytes", s)
		}
		if b > 1<<62 {
			return 0, fmt.Errorf("%q is larger than any device", s)
		}
		return int64(b), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 4KiB, 64MiB or 1GiB", s)
}

// FormatSize writes a number of bytes in the largest binary unit that gives a whole number: 65536 is "64KiB".
func FormatSize(n int64) string {
	for i := 4; i >= 0; i-- {
		if u := sizeUnits[i]; n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
