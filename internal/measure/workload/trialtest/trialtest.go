// Package trialtest runs trials the way a worker does, for the tests of the kinds.
package trialtest

import (
	"testing"
	"time"

	"tare/internal/measure/workload"
)

// Named returns the kind of that name.
func Named(t testing.TB, kinds []workload.Kind, name string) *workload.Kind {
	t.Helper()
	for i := range kinds {
		if kinds[i].Name == name {
			return &kinds[i]
		}
	}
	t.Fatalf("there is no kind %s", name)
	return nil
}

// New returns a trial of the kind of that name, with what is given over its defaults.
func New(t testing.TB, kinds []workload.Kind, name string, given map[string]string) workload.Trial {
	t.Helper()
	k := Named(t, kinds, name)
	p, err := k.Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Run resolves the parameters, runs one trial of work units in a directory of its own, checks its figures, and returns
// what the trial left in its bench.
func Run(t testing.TB, kind *workload.Kind, given map[string]string, work int64) *workload.Bench {
	t.Helper()
	b, err := Try(t, kind, given, work)
	if err != nil {
		t.Fatalf("%s %v: %v", kind.Name, given, err)
	}
	CheckFigures(t, kind, given, b)
	return b
}

// CheckFigures checks that every declared metric and no other was reported, positive.
func CheckFigures(t testing.TB, kind *workload.Kind, given map[string]string, b *workload.Bench) {
	t.Helper()
	p, _ := kind.Resolve(given)
	controllers := "" // the figure that the controller adds
	if kind.HostCPU != nil {
		controllers, _ = kind.HostCPU(time.Second, 1)
	}
	declared := map[string]bool{}
	primary := 0
	for _, m := range kind.MetricsFor(p) {
		if m.Name == controllers {
			continue
		}
		declared[m.Name] = true
		if m.Primary {
			primary++
		}
		if v, ok := b.Metrics[m.Name]; !ok || !(v > 0) {
			t.Errorf("%s %v: metric %s is %v (reported: %t), want a positive figure", kind.Name, given, m.Name, v, ok)
		}
	}
	if primary != 1 {
		t.Errorf("%s %v: %d primary metrics, want one", kind.Name, given, primary)
	}
	for name := range b.Metrics {
		if !declared[name] {
			t.Errorf("%s %v: metric %s is reported but not declared", kind.Name, given, name)
		}
	}
	for name := range b.Samples {
		if !declared[name] {
			t.Errorf("%s %v: samples of %s, which is not declared", kind.Name, given, name)
		}
	}
}

// Try is Run for trials that may fail: it returns the first error. Cleanup is called whatever happens.
func Try(t testing.TB, kind *workload.Kind, given map[string]string, work int64) (*workload.Bench, error) {
	t.Helper()
	p, err := kind.Resolve(given)
	if err != nil {
		return nil, err
	}
	trial, err := kind.New(p)
	if err != nil {
		return nil, err
	}
	return TryTrial(t, trial, work)
}

// TryTrial is Try for a trial that was already made.
func TryTrial(t testing.TB, trial workload.Trial, work int64) (*workload.Bench, error) {
	t.Helper()
	b := &workload.Bench{Dir: t.TempDir(), Work: work, Seed: 42}
	return b, workload.Drive(t.Context(), trial, b)
}
