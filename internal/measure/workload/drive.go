package workload

import (
	"context"
	"errors"

	"tare/internal/sys/clock"
)

// Drive takes a trial through its life as a worker does. Cleanup is called whatever happens.
func Drive(ctx context.Context, trial Trial, b *Bench) (err error) {
	defer func() { err = errors.Join(err, trial.Cleanup(b)) }()
	if err := trial.Setup(ctx, b); err != nil {
		return err
	}
	start := clock.Now()
	if err := trial.Measure(ctx, b); err != nil {
		return err
	}
	b.Elapsed = clock.Since(start)
	if r, ok := trial.(Reporter); ok {
		return r.Report(b)
	}
	return nil
}
