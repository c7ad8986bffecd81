package developer

import (
	"context"
	"os"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/sys/proc"
)

// small are parameters that make each kind quick to prepare.
var small = map[string]map[string]string{
	"dev.walk": {"files": "192"}, "dev.status": {"files": "192"}, "dev.probe": {"packages": "20"},
	"dev.unpack": {"files": "512"}, "dev.remove": {"files": "512"}, "dev.edit": {}, "dev.journal": {"size": "256KiB"},
	"dev.compile": {"units": "5"}, "dev.build": {"units": "2", "headers": "5", "functions": "3"},
}

// works are amounts of work that do less than one pass, and more than one where a kind allows it.
var works = map[string][]int64{
	"dev.walk": {1, 3, 7}, "dev.status": {1, 192, 500}, "dev.probe": {1, 20, 33}, "dev.unpack": {1, 5},
	"dev.remove": {1, 5},
	"dev.edit":   {1, 64, 300}, "dev.journal": {1, 16, 50}, "dev.compile": {1, 5, 13}, "dev.build": {1},
}

func kind(t testing.TB, name string) *workload.Kind {
	t.Helper()
	return trialtest.Named(t, Kinds(), name)
}

// trial makes one trial of a kind with the given parameters over those in small.
func trial(t testing.TB, name string, given map[string]string) workload.Trial {
	t.Helper()
	return trialtest.New(t, Kinds(), name, with(small[name], given))
}

func with(base, over map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{base, over} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// weigh runs one trial that must succeed and report every metric.
func weigh(t testing.TB, dir, name string, work int64, given map[string]string) *workload.Bench {
	t.Helper()
	b := &workload.Bench{Dir: dir, Home: dir, Work: work, Seed: 7}
	if err := workload.Drive(context.Background(), trial(t, name, given), b); err != nil {
		t.Fatalf("%s %v work %d: %v", name, given, work, err)
	}
	for _, m := range kind(t, name).Metrics {
		if v := b.Metrics[m.Name]; !(v > 0) {
			t.Errorf("%s %v work %d: %s = %v", name, given, work, m.Name, v)
		}
	}
	if len(b.Metrics) != len(kind(t, name).Metrics) {
		t.Errorf("%s: metrics %v, and %d are declared", name, b.Metrics, len(kind(t, name).Metrics))
	}
	return b
}

// missing skips a test for want of something, and fails it where everything must be there.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

func needProgram(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := proc.LookPath(n); err != nil {
			missing(t, n+" is not installed")
		}
	}
}
