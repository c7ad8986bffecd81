package memory

import (
	"fmt"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

const (
	defaultSizes = "16KiB,256KiB,4MiB,64MiB"
	maxSizes     = 16
	minSize      = 1 << 10
	maxSize      = 128 << 30 // 2^31 nodes: the table of the order counts in 32 bits
)

// parseSizes reads the parameter sizes: at most 16 sizes, ascending, between 1 KiB and 128 GiB, multiples of 128 bytes.
// A plus sign separates as a comma does, because on the command line a comma ends the parameter.
func parseSizes(text string) ([]int64, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' || r == ' ' })
	if len(fields) == 0 {
		return nil, fmt.Errorf("sizes: %q has no size; write one or more, such as %s", text, defaultSizes)
	}
	if len(fields) > maxSizes {
		return nil, fmt.Errorf("sizes: %d sizes are given, but at most %d are allowed", len(fields), maxSizes)
	}
	sizes := make([]int64, len(fields))
	for i, f := range fields {
		n, err := unit.ParseSize(f)
		switch {
		case err != nil:
			return nil, fmt.Errorf("sizes: %w", err)
		case n < minSize || n > maxSize:
			return nil, fmt.Errorf("sizes: %s is not between %s and %s", f, unit.FormatSize(minSize),
				unit.FormatSize(maxSize))
		case n%128 != 0:
			return nil, fmt.Errorf("sizes: %s is not a multiple of 128 bytes", f)
		case i > 0 && n <= sizes[i-1]:
			return nil, fmt.Errorf("sizes: %s does not follow %s in ascending order", f, fields[i-1])
		}
		sizes[i] = n
	}
	return sizes, nil
}

// sizesOr returns the sizes in p, or the fallback if they are wrong: New returns the error.
func sizesOr(p workload.Params, fallback string) []int64 {
	if sizes, err := parseSizes(p["sizes"]); err == nil {
		return sizes
	}
	return mustSizes(fallback)
}

func mustSizes(text string) []int64 {
	sizes, err := parseSizes(text)
	if err != nil {
		panic(err)
	}
	return sizes
}

// latencyMetric names the figure of one size.
func latencyMetric(size int64) string { return "latency_" + unit.FormatSize(size) + "_ns" }

func latencyMetrics(sizes []int64) []unit.Metric {
	ms := make([]unit.Metric, len(sizes))
	for i, s := range sizes {
		ms[i] = unit.Metric{Name: latencyMetric(s), Unit: "ns", Better: unit.Lower, Timed: true,
			Primary: i == len(sizes)-1,
			Doc:     "time of one dependent load from memory of that size"}
	}
	return ms
}
