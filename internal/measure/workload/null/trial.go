package null

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"tare/internal/measure/workload"
)

// errRequested is the error of a trial that is told to fail.
var errRequested = errors.New("null workload fails as requested")

// trial is a trial of the kind null.
type trial struct {
	spin  int64
	fail  string
	hang  time.Duration
	check string
	noise float64 // share of extra work of this trial
	serve bool    // there is a service

	seed  uint64
	steps int64
	end   uint64 // result of the arithmetic
}

func newTrial(p workload.Params) (workload.Trial, error) {
	t := &trial{spin: p.Int("spin"), fail: p["fail"], hang: p.Duration("hang"), check: p["check"],
		serve: p.Bool("service")}
	// Not from the run's seed, which would give all trials of a run the same noise.
	t.noise = rand.Float64() * float64(p.Int("noise")) / 100
	return t, nil
}

func (t *trial) Setup(_ context.Context, b *workload.Bench) error {
	t.seed = b.Seed
	if t.fail == failSetup {
		return fmt.Errorf("set up: %w", errRequested)
	}
	if t.serve {
		return find(b)
	}
	return nil
}

func (t *trial) Measure(_ context.Context, b *workload.Bench) error {
	switch t.fail {
	case failMeasure:
		return fmt.Errorf("measure: %w", errRequested)
	case failPanic:
		panic(errRequested)
	case failKill:
		return t.kill()
	}
	if t.hang > 0 {
		time.Sleep(t.hang)
	}
	t.steps = int64(float64(b.Work*t.spin) * (1 + t.noise))
	t.end = spin(t.seed, t.steps)
	return nil
}

// kill kills this process. It returns only if that is refused.
func (t *trial) kill() error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		return fmt.Errorf("kill worker: %w", err)
	}
	select {}
}

func (t *trial) Report(b *workload.Bench) error {
	if t.fail == failReport {
		return fmt.Errorf("report: %w", errRequested)
	}
	if want := jump(t.seed, t.steps); t.end != want {
		return fmt.Errorf("verify %d steps: the result is %#x instead of %#x: this processor or its emulation "+
			"computes wrong results", t.steps, t.end, want)
	}
	b.Check("spin", strconv.FormatInt(t.spin, 10))
	if t.check != "" {
		b.Check("check", t.check)
	}
	b.Report("ns_per_op", float64(b.Elapsed)/float64(b.Work))
	return nil
}

func (t *trial) Cleanup(*workload.Bench) error {
	if t.fail == failCleanup {
		return fmt.Errorf("clean up: %w", errRequested)
	}
	return nil
}

// Constants of the 64-bit linear congruential generator of Knuth's MMIX.
const (
	multiplier = 6364136223846793005
	increment  = 1442695040888963407
)

// spin does n steps of the generator. Each needs the one before, so the time is n times the latency of a multiplication
// and an addition, on any processor.
func spin(x uint64, n int64) uint64 {
	for range n {
		x = x*multiplier + increment
	}
	return x
}

// jump gives the state after n steps in log2(n), by squaring the step; after F. Brown, "Random number generation with
// arbitrary strides", 1994.
func jump(x uint64, n int64) uint64 {
	m, c := uint64(multiplier), uint64(increment)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			x = x*m + c
		}
		c *= m + 1
		m *= m
	}
	return x
}
