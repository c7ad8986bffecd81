package main

import (
	"bytes"
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

// scheduleRow compares http.load with a peer that has an open model.
func scheduleRow(name, peer string, ready readyPaced) row {
	return row{
		name: name, what: fmt.Sprintf("http.load, %d requests per second at equal distances to nginx over loopback, "+
			"at most %d at a time: how late the latest hundredth of them is sent", scheduleRate, scheduleConnections),
		peer: peer, programs: []string{"nginx"},
		figures: []figure{{name: "99th percentile", unit: "us", goal: 1, atMost: true}},
		open:    openSchedule(peer, ready),
	}
}

// paced is a peer with an open model, made ready.
type paced struct {
	// late has it send the requests, and returns the 99th percentile in us of how late, and how many it sent.
	late func(ctx context.Context) (us float64, made int, err error)
	note string // the command line, and what its figure is
}

// readyPaced makes a peer ready that is to send so many requests.
type readyPaced func(ctx context.Context, b *bench, url string, asked int) (*paced, error)

// openSchedule compares how exactly requests are sent when they are due. A peer for it must have an open model, and
// tell when it sent each request, which wrk2 does not.
func openSchedule(name string, ready readyPaced) func(context.Context, *bench) (*contest, error) {
	return func(ctx context.Context, b *bench) (*contest, error) {
		s := &site{page: loadPage, connections: scheduleConnections}
		if err := s.start(ctx, b); err != nil {
			return nil, err
		}
		asked := int(max(b.length, time.Second).Seconds() * scheduleRate)
		peer, err := ready(ctx, b, s.url, asked)
		if err != nil {
			return nil, errors.Join(err, s.server.Close())
		}
		w, err := b.weigh(ctx, "http.load", map[string]string{"url": s.url,
			"connections": strconv.Itoa(scheduleConnections), "rate": strconv.Itoa(scheduleRate)})
		if err != nil {
			return nil, errors.Join(err, s.server.Close())
		}
		w.work = int64(asked)
		least := asked
		return &contest{
			tare: w.metric("late_p99_us"),
			peer: func(ctx context.Context) ([]float64, error) {
				late, made, err := peer.late(ctx)
				least = min(least, made)
				return []float64{late}, err
			},
			notes: []string{strings.ReplaceAll(w.note("requests"), s.url, "URL"),
				strings.ReplaceAll(peer.note, s.url, "URL")},
			after: func() []string {
				if least == asked {
					return w.doubts()
				}
				return append(w.doubts(), fmt.Sprintf("%s sent at least %d of the %d requests of a run", name, least,
					asked))
			},
			close: func() error { return errors.Join(w.close(), s.server.Close()) },
		}, nil
	}
}

// readyVegeta has vegeta send its requests for the time in which so many are due.
func readyVegeta(ctx context.Context, b *bench, url string, asked int) (*paced, error) {
	vegeta, err := b.buildVegeta(ctx)
	if err != nil {
		return nil, err
	}
	n, results := strconv.Itoa(scheduleConnections), filepath.Join(b.dir, "vegeta.bin")
	length := time.Duration(asked) * time.Second / scheduleRate
	argv := []string{vegeta, "attack", "-rate", strconv.Itoa(scheduleRate), "-duration", length.String(),
		"-connections", n, "-workers", n, "-max-workers", n, "-max-body", "0", "-output", results}
	hide := strings.NewReplacer(vegeta, "vegeta", results, "FILE")
	return &paced{
		late: func(ctx context.Context) (us float64, made int, err error) {
			if _, err := proc.Run(ctx, strings.NewReader("GET "+url+"\n"), argv...); err != nil {
				return 0, 0, err
			}
			out, err := program(ctx, vegeta, "encode", "-to", "csv", results)
			if err != nil {
				return 0, 0, err
			}
			return vegetaLate(bytes.NewReader(out), scheduleRate, asked)
		},
		note: "vegeta v12.13.0: `" + hide.Replace(strings.Join(argv, " ")) + "`, on all processors, while tare has " +
			"one thread; how late a request is, is its time in FILE since it was due, if the one that was sent most " +
			"in time was not late at all; those that it did not send within the duration do not count",
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
	return latest(sent, rate), len(sent), nil
}

// latest returns the 99th percentile, in us, of how long after they were due requests were sent, by when each was, in
// ns. The one that was sent most in time counts as not late.
func latest(sent []int64, rate float64) (us float64) {
	slices.Sort(sent)
	late := make([]float64, len(sent))
	for i, at := range sent {
		late[i] = float64(at-sent[0]) - float64(i)*1e9/rate
	}
	slices.Sort(late)
	return (late[int(math.Ceil(0.99*float64(len(late))))-1] - late[0]) / 1e3
}
