package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tare/internal/bundle"
	"tare/internal/record"
)

// abRows compare `tare ab` as a program with hyperfine: what a run costs with all around it, and when an answer is
// there.
func abRows() []row {
	return []row{
		{
			name: "ab", what: "/bin/true against itself in ten blocks, from the command line to the report: time for " +
				"each run",
			peer: "hyperfine -N", programs: []string{"hyperfine"}, open: openAb,
			figures: []figure{{unit: "s", goal: 1, atMost: true}},
		},
		{
			name: "ab-clear", what: "a program of some 20 ms against one with 10 % more to do, from the command line " +
				"to the report",
			peer: "hyperfine -N, as it is by default", programs: []string{"hyperfine", "awk"}, open: openAbClear,
			figures: []figure{
				{name: "time to the verdict", unit: "s", goal: 10, atMost: true, alone: true},
				{name: "beside hyperfine's", unit: "s"},
			},
		},
	}
}

// comparison is a run of `tare ab`.
type comparison struct {
	took    time.Duration
	runs    int64 // of the commands, in trials that are recorded
	verdict record.Verdict
}

// abBench runs `tare ab` of the source tree.
type abBench struct {
	tare, dir string
}

func newAbBench(ctx context.Context, b *bench) (*abBench, error) {
	tare, err := b.buildTare(ctx)
	return &abBench{tare, filepath.Join(b.dir, "ab")}, err
}

// compare runs it, and reads what it did.
func (a *abBench) compare(ctx context.Context, args ...string) (c comparison, err error) {
	began := time.Now()
	if _, err := program(ctx, append([]string{a.tare, "ab", "-q", "-o", a.dir}, args...)...); err != nil {
		return c, err
	}
	c.took = time.Since(began)
	defer func() { err = errors.Join(err, os.RemoveAll(a.dir)) }()
	b, err := bundle.Open(a.dir)
	if err != nil {
		return c, err
	}
	trials, err := b.Load()
	if err != nil {
		return c, err
	}
	for i := range trials {
		n, err := strconv.ParseInt(trials[i].State["runs"], 10, 64)
		if err != nil {
			return c, fmt.Errorf("trial %d does not say how many runs it had: %w", i, err)
		}
		c.runs += n
	}
	out, err := program(ctx, a.tare, "report", "--format", "json", a.dir)
	if err != nil {
		return c, err
	}
	c.verdict, err = primaryVerdict(out)
	return c, err
}

// primaryVerdict reads the verdict on the first primary figure from a report as JSON.
func primaryVerdict(report []byte) (record.Verdict, error) {
	var doc struct {
		Cells []struct {
			Primary bool           `json:"primary"`
			Verdict record.Verdict `json:"verdict"`
		} `json:"cells"`
	}
	if err := json.Unmarshal(report, &doc); err != nil {
		return "", fmt.Errorf("read tare's report: %w", err)
	}
	for _, c := range doc.Cells {
		if c.Primary && c.Verdict != "" {
			return c.Verdict, nil
		}
	}
	return "", errors.New("read tare's report: it has no verdict")
}

func (a *abBench) close() error { return os.Remove(a.tare) }

func openAb(ctx context.Context, b *bench) (*contest, error) {
	if _, err := os.Stat(timed); err != nil {
		return nil, missing{timed + " is not there"}
	}
	a, err := newAbBench(ctx, b)
	if err != nil {
		return nil, err
	}
	ours := []string{"--blocks", "10", timed, timed}
	first, err := a.compare(ctx, ours...)
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	runs := max(first.runs/2, leastRuns)
	argv := []string{"hyperfine", "-N", "--style=none", "--runs=" + strconv.FormatInt(runs, 10), timed, timed}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			c, err := a.compare(ctx, ours...)
			if err != nil {
				return nil, err
			}
			return []float64{c.took.Seconds() / float64(c.runs)}, nil
		},
		peer: func(ctx context.Context) ([]float64, error) {
			began := time.Now()
			if _, err := program(ctx, argv...); err != nil {
				return nil, err
			}
			return []float64{time.Since(began).Seconds() / float64(2*runs)}, nil
		},
		notes: []string{
			"tare: `tare ab -q " + strings.Join(ours, " ") + "`; runs of trials that are recorded count, those that " +
				"find out how much a trial does do not",
			"hyperfine: `" + strings.Join(argv, " ") + "`; as many runs, its first ones among them",
		},
		close: a.close,
	}, nil
}

// clearTime is about how long the program runs in which a difference is to be found.
const clearTime = 20 * time.Millisecond

// counting is a program that counts.
func counting(n int) string { return fmt.Sprintf("awk 'BEGIN { for (i = 0; i < %d; i++) x += i }'", n) }

func openAbClear(ctx context.Context, b *bench) (*contest, error) {
	a, err := newAbBench(ctx, b)
	if err != nil {
		return nil, err
	}
	n := 100_000
	for { // the start of awk is a part of it
		began := time.Now()
		if _, err := program(ctx, "sh", "-c", counting(n)); err != nil {
			return nil, errors.Join(err, a.close())
		}
		if took := time.Since(began); took >= clearTime || n > 1<<30 {
			break
		}
		n += n / 4
	}
	one, more := counting(n), counting(n+n/10)
	told := map[string]int{}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			c, err := a.compare(ctx, "-n", "one", "-n", "more", one, more)
			if err != nil {
				return nil, err
			}
			told[string(c.verdict)]++
			return []float64{c.took.Seconds(), c.took.Seconds()}, nil
		},
		peer: func(ctx context.Context) ([]float64, error) {
			began := time.Now()
			if _, err := program(ctx, "hyperfine", "-N", "--style=none", one, more); err != nil {
				return nil, err
			}
			took := time.Since(began).Seconds()
			return []float64{took, took}, nil
		},
		notes: []string{fmt.Sprintf("tare: `tare ab -q \"%s\" \"%s\"`", one, more),
			"hyperfine: `hyperfine -N` of both: at least ten runs and three seconds of each, without a verdict"},
		after: func() []string {
			var parts []string
			for _, v := range []record.Verdict{record.Different, record.Equivalent, record.Measured,
				record.Inconclusive, record.Withheld, record.Failed} {
				if n := told[string(v)]; n > 0 {
					parts = append(parts, fmt.Sprintf("%d %s", n, v))
				}
			}
			return []string{"verdicts, of the first run, too: " + strings.Join(parts, ", ")}
		},
		close: a.close,
	}, nil
}
