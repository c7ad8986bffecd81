package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/proc"
)

// The row for the open model.
const (
	scheduleRate        = 20000
	scheduleConnections = 64
)

// openSchedule compares how exactly requests are sent when they are due. wrk2 and oha are no packages of Debian 12
// and no Go modules. vegeta is one, has an open model, and tells when it sent each request.
func openSchedule(ctx context.Context, b *bench) (*contest, error) {
	vegeta, err := b.buildVegeta(ctx)
	if err != nil {
		return nil, err
	}
	s := &site{page: loadPage, connections: scheduleConnections}
	if err := s.start(ctx, b); err != nil {
		return nil, err
	}
	n := strconv.Itoa(scheduleConnections)
	w, err := b.weigh(ctx, "http.load", map[string]string{"url": s.url, "connections": n,
		"rate": strconv.Itoa(scheduleRate)})
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	length := max(b.length, time.Second)
	w.work = int64(length.Seconds() * scheduleRate)
	results := filepath.Join(b.dir, "vegeta.bin")
	argv := []string{vegeta, "attack", "-rate", strconv.Itoa(scheduleRate), "-duration", length.String(),
		"-connections", n, "-workers", n, "-max-workers", n, "-max-body", "0", "-output", results}
	hide, least := strings.NewReplacer(vegeta, "vegeta", results, "FILE"), w.work
	return &contest{
		tare: w.metric("late_p99_us"),
		peer: func(ctx context.Context) ([]float64, error) {
			if _, err := proc.Run(ctx, strings.NewReader("GET "+s.url+"\n"), argv...); err != nil {
				return nil, err
			}
			out, err := program(ctx, vegeta, "encode", "-to", "csv", results)
			if err != nil {
				return nil, err
			}
			late, made, err := vegetaLate(strings.NewReader(string(out)), scheduleRate, int(w.work))
			least = min(least, int64(made))
			return []float64{late}, err
		},
		notes: []string{
			strings.ReplaceAll(w.note("requests"), s.url, "URL"),
			"vegeta v12.13.0: `" + hide.Replace(strings.Join(argv, " ")) + "`, on all processors, while tare has one " +
				"thread; how late a request is, is its time in FILE since it was due, if the one that was sent most " +
				"in time was not late at all; those that it did not send within the duration do not count",
			"wrk2 and oha are no packages of Debian 12 and no Go modules, so vegeta stands for them",
		},
		after: func() []string {
			return append(w.doubts(), fmt.Sprintf("vegeta sent at least %d of the %d requests of a run", least, w.work))
		},
		close: func() error { return errors.Join(w.close(), s.server.Close(), os.Remove(results)) },
	}, nil
}

// buildVegeta makes it from its Go module, of the version that the project's tools name.
func (b *bench) buildVegeta(ctx context.Context) (string, error) {
	path := filepath.Join(b.dir, "vegeta")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	gomod, err := program(ctx, "go", "env", "GOMOD")
	if err != nil {
		return "", err
	}
	tools := filepath.Join(filepath.Dir(strings.TrimSpace(string(gomod))), "tools", "go.mod")
	cmd := proc.Command(ctx, "go", "build", "-modfile="+tools, "-o", path, "github.com/tsenart/vegeta/v12")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if _, err := proc.RunCmd(cmd, nil); err != nil {
		return "", fmt.Errorf("build vegeta: %w", err)
	}
	return path, nil
}

// vegetaLate returns the 99th percentile, in us, of how long after they were due requests were sent, by the times in
// vegeta's report. When it began is not in the report: the request that was sent most in time counts as not late. Those
// that it did not send before the end are not in it, and do not count.
func vegetaLate(report io.Reader, rate float64, asked int) (us float64, made int, err error) {
	var sent []int64
	for r := csv.NewReader(report); ; {
		line, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read vegeta's report: %w", err)
		}
		if len(line) < 6 || line[1] != "200" {
			return 0, 0, fmt.Errorf("read vegeta's report: a request failed: %.200q", line)
		}
		at, err := strconv.ParseInt(line[0], 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("read vegeta's report: %w", err)
		}
		sent = append(sent, at)
	}
	if len(sent) == 0 || len(sent) > asked*11/10 {
		return 0, 0, fmt.Errorf("vegeta made %d requests where %d were asked for: the work is not the same", len(sent),
			asked)
	}
	slices.Sort(sent)
	late := make([]float64, len(sent))
	for i, at := range sent {
		late[i] = float64(at-sent[0]) - float64(i)*1e9/rate
	}
	slices.Sort(late)
	return (late[int(math.Ceil(0.99*float64(len(late))))-1] - late[0]) / 1e3, len(sent), nil
}
