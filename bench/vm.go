package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
)

// openBoot boots micro-VMs from nothing. What is timed is what a user waits for: QEMU's start, firmware, kernel,
// modules, scratch disk and the handshake with the agent.
func openBoot(ctx context.Context, b *bench) (*contest, error) {
	info, ok := drivers.Drivers().Lookup("qemu")
	if !ok {
		return nil, errors.New("there is no driver qemu")
	}
	status := info.Probe(ctx)
	if !status.OK {
		return nil, missing{status.Detail + "; " + status.Remedy}
	}
	if runtime.GOARCH != "amd64" {
		return nil, missing{"the machines q35 and microvm are of x86_64, and this is of " + runtime.GOARCH}
	}
	if _, err := b.agents(ctx); err != nil { // not to be built while the clock runs
		return nil, err
	}
	spec := func(machine string) env.Spec {
		return env.Spec{Name: machine, Driver: "qemu", Settings: map[string]string{"accel": "tcg", "machine": machine}}
	}
	machines := []string{"q35", "microvm"}
	var retried []string
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			took := make([]float64, len(machines))
			for _, i := range b.rng.Perm(len(machines)) {
				var err error
				if took[i], err = b.opening(ctx, spec(machines[i]), &retried); err != nil {
					return nil, err
				}
			}
			return took, nil
		},
		notes: []string{"tare: `-e vm=" + spec("q35").String() + "` and `-e vm=" + spec("microvm").String() +
			"`, everything else by default; " + status.Detail},
		after: func() []string { return retried },
	}, nil
}

// opening times an environment from nothing to handshake and closes it again. A boot that the driver had to repeat is
// noted; its time contains both.
func (b *bench) opening(ctx context.Context, spec env.Spec, retried *[]string) (seconds float64, err error) {
	began := time.Now()
	e, err := b.openEnv(ctx, spec)
	if err != nil {
		return 0, err
	}
	s, err := b.greet(ctx, e)
	took := time.Since(began)
	if err == nil {
		err = s.Close()
	}
	if r, ok := e.(env.Retrier); ok {
		for _, f := range r.Retries() {
			*retried = append(*retried, spec.Name+", booted again after: "+f.Message)
		}
	}
	return took.Seconds(), errors.Join(err, e.Close())
}
