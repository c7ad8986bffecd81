package unit

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{2041.3, "events/s", "2,041 ev/s"},
		{1.94e6, "ops/s", "1.94 M/s"},
		{8900, "ops/s", "8,900 /s"},
		{9999.4, "ops/s", "9,999 /s"},
		{9999.6, "ops/s", "10.0 k/s"},
		{12345, "events/s", "12.3 k ev/s"},
		{999950, "ops/s", "1.00 M/s"},
		{410, "MiB/s", "410 MiB/s"},
		{2048, "MiB/s", "2.00 GiB/s"},
		{0.5, "MiB/s", "512 KiB/s"},
		{1023.9, "B/s", "1.00 KiB/s"},
		{1000, "B", "1,000 B"},
		{1 << 20, "B", "1.00 MiB"},
		{1 << 30, "B", "1.00 GiB"},
		{1 << 40, "B", "1.00 TiB"},
		{1<<30 - 1, "B", "1.00 GiB"},
		{1023, "MiB/s", "1,023 MiB/s"},
		{-1 << 30, "B", "-1.00 GiB"},
		{1500, "MB/s", "1.50 GB/s"},
		{62.3, "ns", "62.3 ns"},
		{62.3e-9, "s", "62.3 ns"},
		{999.96, "us", "1.00 ms"},
		{0.0042, "s", "4.20 ms"},
		{1.5, "s", "1.50 s"},
		{75.24, "s", "75.2 s"},
		{4000, "s", "4,000 s"},
		{0.01, "ns", "0.0100 ns"},
		{0, "s", "0 s"},
		{0, "MiB/s", "0 B/s"},
		{0, "ops/s", "0 /s"},
		{12.34, "%", "12.3 %"},
		{0.0121, "J", "12.1 mJ"},
		{3e-7, "J", "300 nJ"},
		{0, "J", "0 J"},
		{3.14159, "", "3.14"},
		{123456789, "", "123 M"},
		{512, "requests/s", "512 req/s"},
		{7, "commits/s", "7.00 commits/s"},
		{-2041, "events/s", "-2,041 ev/s"},
		{math.NaN(), "s", "?"},
		{math.Inf(1), "ops/s", "?"},
	} {
		if got := Format(c.value, c.unit); got != c.want {
			t.Errorf("Format(%v, %q) = %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		1: "1.00", 9.996: "10.0", 99.96: "100", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567",
		0.1234: "0.123", 0.09996: "0.100", 1e-9: "1e-09", 1e15: "1e+15", -0.5: "-0.500",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
}

// FuzzFormat holds that whatever a foreign tool reports fits a column.
func FuzzFormat(f *testing.F) {
	for _, v := range []float64{0, 1, -1, 999.5, 1e-320, 1e308, math.Inf(-1)} {
		f.Add(v, "events/s")
		f.Add(v, "ns")
	}
	f.Fuzz(func(t *testing.T, v float64, unit string) {
		got := Format(v, unit)
		if n := utf8.RuneCountInString(got) - utf8.RuneCountInString(unit); n > 24 {
			t.Errorf("Format(%v, %q) = %q is %d longer than its unit", v, unit, got, n)
		}
		if strings.TrimSpace(got) == "" {
			t.Errorf("Format(%v, %q) is empty", v, unit)
		}
	})
}
