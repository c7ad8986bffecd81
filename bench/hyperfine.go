package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/stats"
)

// timed is the command that is timed: nearly all of its time is the start and the end of a process.
const timed = "/bin/true"

// The runs of one side in one pair. Of more than the upper bound tare would keep only some times.
const (
	leastRuns = 200
	mostRuns  = workload.MaxSamples
)

// openHyperfine compares the times of many runs of one command.
func openHyperfine(ctx context.Context, b *bench) (*contest, error) {
	if _, err := os.Stat(timed); err != nil {
		return nil, missing{timed + " is not there"}
	}
	w, err := b.weigh(ctx, "command", map[string]string{"command": timed, "shell": "none"})
	if err != nil {
		return nil, err
	}
	w.work = min(max(w.work, leastRuns), mostRuns)
	report := filepath.Join(b.dir, "hyperfine.json")
	argv := []string{"hyperfine", "-N", "--style=none", "--warmup=3", "--runs=" + strconv.FormatInt(w.work, 10),
		"--export-json", report, timed}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			o, err := w.run(ctx)
			if err != nil {
				return nil, err
			}
			return meanAndSpread(o.Result.Samples["seconds"], w.work)
		},
		peer: func(ctx context.Context) ([]float64, error) {
			if _, err := program(ctx, argv...); err != nil {
				return nil, err
			}
			text, err := os.ReadFile(report)
			if err != nil {
				return nil, err
			}
			times, err := parseHyperfine(text)
			if err != nil {
				return nil, err
			}
			return meanAndSpread(times, w.work)
		},
		notes: []string{w.note("runs"), "hyperfine: `" + strings.ReplaceAll(strings.Join(argv, " "), report, "FILE") +
			"`"},
		after: w.doubts,
		close: w.close,
	}, nil
}

// meanAndSpread returns the mean and the sample standard deviation, as hyperfine prints them, of both sides' times
// alike.
func meanAndSpread(times []float64, runs int64) ([]float64, error) {
	if int64(len(times)) != runs || runs < 2 {
		return nil, fmt.Errorf("there are %d times of %d runs", len(times), runs)
	}
	mean, sum := stats.Mean(times), 0.0
	for _, t := range times {
		sum += (t - mean) * (t - mean)
	}
	return []float64{mean, math.Sqrt(sum / float64(len(times)-1))}, nil
}

// parseHyperfine reads the time of each run, in seconds, from hyperfine's JSON report of one command.
func parseHyperfine(text []byte) ([]float64, error) {
	var report struct {
		Results []struct {
			Times     []float64 `json:"times"`
			ExitCodes []*int    `json:"exit_codes"`
		} `json:"results"`
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("read hyperfine's report: %w", err)
	}
	if len(report.Results) != 1 || len(report.Results[0].Times) == 0 {
		return nil, fmt.Errorf("read hyperfine's report: it tells of %d commands instead of one, or of no times",
			len(report.Results))
	}
	for _, c := range report.Results[0].ExitCodes {
		if c == nil || *c != 0 {
			return nil, fmt.Errorf("read hyperfine's report: a run failed")
		}
	}
	return report.Results[0].Times, nil
}
