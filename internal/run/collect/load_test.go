package collect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"tare/internal/judge/fleet"
	"tare/internal/version"
)

// largeFleet writes the folder of a fleet of n hosts with so many cells each. Its packed bundles are not real: what
// they say stands beside them.
func largeFleet(tb testing.TB, n, cells int) string {
	tb.Helper()
	dir := tb.TempDir()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(dir, hostsDir), 0o755))
	s := state{Schema: Schema, Plan: "p", Build: "b", By: fleet.ByMachine}
	for i := range n {
		name := fmt.Sprintf("n%05d", i)
		h := &fleet.Host{Name: name, Machine: name, RunID: name, Plan: "p", Build: "b", Finished: true, Trials: 1,
			Alpha: 0.05, Precision: 0.01, Facts: map[string]string{}}
		for f := range 60 {
			h.Facts[fmt.Sprintf("fact.number_%d", f)] = "the same everywhere"
		}
		for c := range cells {
			h.Measures = append(h.Measures, fleet.Measure{Key: fleet.Key{Workload: fmt.Sprintf("workload %d", c),
				Metric: "seconds", Target: "vm", Baseline: "host"}, Primary: true, Better: "lower",
				Center: 0.1 + 0.001*float64((i*7+c)%13), SE: 0.002, DF: 9, Margin: 0.02, Same: 0.02, Blocks: 10,
				Checks: "0123456789abcdef"})
		}
		file := name + "-0123456789ab.tare"
		path := filepath.Join(dir, hostsDir, file)
		must(os.WriteFile(path, []byte(name), 0o644))
		e, err := digest(path)
		must(err)
		e.File, e.Bundle = file, name
		s.Hosts = append(s.Hosts, e)
		src, err := json.Marshal(summary{Schema: Schema, Build: version.Build, SHA256: e.SHA256, Host: h})
		must(err)
		must(os.WriteFile(filepath.Join(dir, hostsDir, noteOf(file)), src, 0o644))
	}
	src, err := json.Marshal(&s)
	must(err)
	must(os.WriteFile(filepath.Join(dir, stateFile), src, 0o644))
	return dir
}

// BenchmarkReport reads and judges a fleet of 1,000 hosts with 60 cells each.
func BenchmarkReport(b *testing.B) {
	dir := largeFleet(b, 1000, 60)
	o := Options{Kinds: kindOf, Scratch: b.TempDir()}
	for b.Loop() {
		a, err := Load(b.Context(), dir, o)
		if err != nil {
			b.Fatal(err)
		}
		if r := fleet.Judge(a); len(r.Hosts) != 1000 || len(r.Cells) != 60 {
			b.Fatalf("%d hosts, %d cells", len(r.Hosts), len(r.Cells))
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-of-the-system")
}
