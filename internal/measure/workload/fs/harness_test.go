package fs

import (
	"context"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
)

func kind(t testing.TB, name string) *workload.Kind {
	t.Helper()
	return trialtest.Named(t, Kinds(), name)
}

// trial makes one trial of a kind with the given parameters over the defaults.
func trial(t testing.TB, name string, given map[string]string) workload.Trial {
	t.Helper()
	return trialtest.New(t, Kinds(), name, given)
}

// drive takes a trial through its life.
func drive(w workload.Trial, b *workload.Bench) error {
	return workload.Drive(context.Background(), w, b)
}

// weigh runs one trial that must succeed.
func weigh(t testing.TB, dir, name string, work int64, given map[string]string) *workload.Bench {
	t.Helper()
	b := &workload.Bench{Dir: dir, Work: work, Seed: 7}
	if err := drive(trial(t, name, given), b); err != nil {
		t.Fatalf("%s %v work %d: %v", name, given, work, err)
	}
	return b
}
