package fs

import (
	"context"
	"errors"
	"testing"
	"time"

	"tare/internal/workload"
)

func kind(t testing.TB, name string) *workload.Kind {
	t.Helper()
	for _, k := range Kinds() {
		if k.Name == name {
			return &k
		}
	}
	t.Fatalf("no kind %s", name)
	return nil
}

// trial makes one trial of a kind with the given parameters over the defaults.
func trial(t testing.TB, name string, given map[string]string) workload.Trial {
	t.Helper()
	k := kind(t, name)
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

// drive takes a trial through its life as a worker does. Cleanup always follows Setup.
func drive(w workload.Trial, b *workload.Bench) (err error) {
	ctx := context.Background()
	defer func() { err = errors.Join(err, w.Cleanup(b)) }()
	if err := w.Setup(ctx, b); err != nil {
		return err
	}
	start := time.Now()
	if err := w.Measure(ctx, b); err != nil {
		return err
	}
	b.Elapsed = time.Since(start)
	return w.(workload.Reporter).Report(b)
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
