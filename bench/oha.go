package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"tare/internal/sys/proc"
)

// findOha is the program that TARE_OHA names, or the one that is installed.
func findOha() (string, error) {
	name := os.Getenv("TARE_OHA")
	if name == "" {
		name = "oha"
	}
	path, err := proc.LookPath(name)
	if err != nil {
		return "", missing{"oha is not installed; scripts/deps.sh oha prints the path of one, to be named with " +
			"TARE_OHA=PATH"}
	}
	return path, nil
}

// readyOha has oha send so many requests.
func readyOha(ctx context.Context, _ *bench, url string, asked int) (*paced, error) {
	oha, err := findOha()
	if err != nil {
		return nil, err
	}
	version, err := program(ctx, oha, "--version")
	if err != nil {
		return nil, err
	}
	argv := []string{oha, "--no-tui", "--output-format", "csv", "--latency-correction", "-c",
		strconv.Itoa(scheduleConnections), "-q", strconv.Itoa(scheduleRate), "-n", strconv.Itoa(asked), url}
	return &paced{
		late: func(ctx context.Context) (us float64, made int, err error) {
			out, err := program(ctx, argv...)
			if err != nil {
				return 0, 0, err
			}
			return ohaLate(bytes.NewReader(out), scheduleRate, asked)
		},
		note: strings.TrimSpace(string(version)) + ": `oha " + strings.Join(argv[1:], " ") + "`, with as many " +
			"threads as it takes by itself, while tare has one; how late a request is, is its request-start since it " +
			"was due, if the one that was sent most in time was not late at all",
	}, nil
}

// ohaLate returns the 99th percentile, in us, of how long after they were due requests were sent, by the times in oha's
// report. They count from when oha began, which is a little before the first request is due: so the request that was
// sent most in time counts as not late. Requests that failed are not in the report.
func ohaLate(report io.Reader, rate float64, asked int) (us float64, made int, err error) {
	lines, err := csv.NewReader(report).ReadAll()
	if err != nil {
		return 0, 0, fmt.Errorf("read oha's report: %w", err)
	}
	if len(lines) == 0 || lines[0][0] != "request-start" || lines[0][len(lines[0])-1] != "status" {
		return 0, 0, fmt.Errorf("read oha's report: it does not begin with the names of its columns: %.200q", lines)
	}
	lines = lines[1:]
	if len(lines) != asked || asked == 0 {
		return 0, 0, fmt.Errorf("oha made %d requests where %d were asked for: the work is not the same", len(lines),
			asked)
	}
	sent := make([]int64, len(lines))
	for i, line := range lines {
		if line[len(line)-1] != "200" {
			return 0, 0, fmt.Errorf("read oha's report: a request failed: %.200q", line)
		}
		at, err := strconv.ParseFloat(line[0], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read oha's report: %w", err)
		}
		if !(at >= 0 && at < 1e6) {
			return 0, 0, fmt.Errorf("read oha's report: a request was sent after %v s", at)
		}
		sent[i] = int64(math.Round(at * 1e9))
	}
	return latest(sent, rate), len(sent), nil
}
