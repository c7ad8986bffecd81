package durability

import (
	"context"
	"errors"
	"fmt"
	"os"

	"tare/internal/measure/workload"
)

// Cost is the 1st percentile of the time of n flushes in dir, in seconds. It does the work of durability.fsync in a new
// directory below dir and removes it.
func Cost(ctx context.Context, dir string, n int64) (p1 float64, err error) {
	own, err := os.MkdirTemp(dir, "tare-flush-")
	if err != nil {
		return 0, fmt.Errorf("find the cost of a flush: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own)) }()
	t := &flushes{size: costSize}
	b := &workload.Bench{Dir: own, Work: n}
	if err = t.Setup(ctx, b); err == nil {
		err = t.Measure(ctx, b)
	}
	if e := t.Cleanup(b); err == nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("find the cost of a flush in %s: %w", dir, err)
	}
	return t.p1(), nil
}

// costSize is the default of durability.fsync's parameter size, in bytes.
const costSize = 1 << 20
