package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

func sysbenchRow(name string, threads, limit int) row {
	return row{
		name: name, what: fmt.Sprintf("prime numbers below %d, %d thread(s)", limit, threads), peer: "sysbench cpu",
		programs: []string{"sysbench"},
		figures:  []figure{{unit: "events/s", goal: 0.97, agrees: true}},
		open: func(ctx context.Context, b *bench) (*contest, error) {
			w, err := b.weigh(ctx, "cpu.prime", map[string]string{"max": strconv.Itoa(limit),
				"threads": strconv.Itoa(threads)})
			if err != nil {
				return nil, err
			}
			argv := []string{"sysbench", "cpu", fmt.Sprintf("--threads=%d", threads),
				fmt.Sprintf("--cpu-max-prime=%d", limit),
				fmt.Sprintf("--events=%d", w.work), "--time=0", "run"}
			return &contest{
				tare: w.metric("events_per_second"),
				peer: func(ctx context.Context) ([]float64, error) {
					out, err := program(ctx, argv...)
					if err != nil {
						return nil, err
					}
					rate, events, err := parseSysbench(string(out))
					if err != nil {
						return nil, err
					}
					if events != w.work {
						return nil,
							fmt.Errorf("sysbench did %d events where %d were asked for: the work is not the same",
								events, w.work)
					}
					return []float64{rate}, nil
				},
				notes: []string{w.note("events"), "sysbench: `" + strings.Join(argv, " ") + "`"},
				after: w.doubts,
				close: w.close,
			}, nil
		},
	}
}

var (
	sysbenchRate   = regexp.MustCompile(`(?m)^\s*events per second:\s+([0-9]+\.?[0-9]*)\s*$`)
	sysbenchEvents = regexp.MustCompile(`(?m)^\s*total number of events:\s+([0-9]+)\s*$`)
)

// parseSysbench reads the events per second and the events done from the report of sysbench 1.0.
func parseSysbench(out string) (rate float64, events int64, err error) {
	r, n := sysbenchRate.FindStringSubmatch(out), sysbenchEvents.FindStringSubmatch(out)
	if r == nil || n == nil {
		return 0, 0, fmt.Errorf("read sysbench's report: it tells of no events per second: %.200q", out)
	}
	if rate, err = strconv.ParseFloat(r[1], 64); err == nil {
		events, err = strconv.ParseInt(n[1], 10, 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read sysbench's report: %w", err)
	}
	if rate <= 0 {
		return 0, 0, fmt.Errorf("read sysbench's report: %v events per second", rate)
	}
	return rate, events, nil
}
