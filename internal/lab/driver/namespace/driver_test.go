package namespace

import (
	"slices"
	"testing"

	"tare/internal/lab/envtest"
)

func TestMain(m *testing.M) { envtest.Main(m, Infos()) }

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"": nil, "0": {0}, "0-2,5": {0, 1, 2, 5}, "1023": {1023}} {
		if got, err := parseCPUs(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("parseCPUs(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"a", "-", "1-", "2-1", "1024", "0,,1", "+1", "0-99999"} {
		if got, err := parseCPUs(in); err == nil {
			t.Errorf("parseCPUs(%q) = %v, want an error", in, got)
		}
	}
}

func FuzzParseCPUs(f *testing.F) {
	f.Add("0-1,3")
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := parseCPUs(list)
		if err == nil && len(cpus) > 2*(maxCPU+1) {
			t.Fatalf("%q gives %d processors", list, len(cpus))
		}
		for _, n := range cpus {
			if n < 0 || n > maxCPU {
				t.Fatalf("%q gives processor %d", list, n)
			}
		}
	})
}
