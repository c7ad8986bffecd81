package unit

import (
	"math"
	"testing"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"4KiB": 4096, "64MiB": 64 << 20, "1.5GiB": 3 << 29, "10MB": 10e6, "512": 512,
		"4k": 4096, "1_000": 1000, "0": 0} {
		got, err := ParseSize(in)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "KiB", "4XiB", "-1", "1.3", "1e9", "9999999PiB", "4 KiB KiB"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatSizeRoundTrip(t *testing.T) {
	for _, n := range []int64{0, 1, 512, 1023, 1024, 4096, 65536, 64 << 20, 64<<20 + 1, 1 << 40} {
		got, err := ParseSize(FormatSize(n))
		if err != nil || got != n {
			t.Errorf("%d formats as %q, which reads as %d, %v", n, FormatSize(n), got, err)
		}
	}
}

func TestCost(t *testing.T) {
	rate := Metric{Better: Higher}
	if rate.Cost(4) != 0.25 || (Metric{Better: Lower}).Cost(4) != 4 {
		t.Error("cost must invert rates and keep durations")
	}
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if !math.IsNaN(rate.Cost(v)) {
			t.Errorf("Cost(%v) must be NaN", v)
		}
	}
}
