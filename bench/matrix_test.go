package main

import (
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload/matrix"
)

func TestParseIozone(t *testing.T) {
	const line = "           65536       4  1137674  2338395  3627371  3104183  2943434  1938301  2630365   3624358 " +
		"  2771287  1942726  1993489  3343980  3431392\n"
	got, err := parseIozone([]byte("\tIozone: Performance Test of File I/O\n" + matrix.Header + line +
		"\niozone test complete.\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1137674, 2338395, 3627371, 3104183, 2943434, 1938301, 2630365, 3624358, 2771287, 1942726, 1993489,
		3343980, 3431392}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{"", line, matrix.Header, matrix.Header + "65536 4 1 2\n",
		matrix.Header + strings.Replace(line, "1137674", "0", 1),
		matrix.Header + strings.Replace(line, "1137674", "fast", 1)} {
		if got, err := parseIozone([]byte(bad)); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func FuzzParseIozone(f *testing.F) {
	f.Add(matrix.Header + "64 4 1 2 3 4 5 6 7 8 9 10 11 12 13\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseIozone([]byte(s))
		if err == nil && len(got) != len(matrix.AllOps()) {
			t.Errorf("%d figures of %q", len(got), s)
		}
	})
}
