package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"tare/internal/stats"
)

// fio sees a buffered read take longer than tare does. These rows tell why: what the same call takes in the least loop
// that C can have, and inside fio without what fio does around it.

//go:embed testdata/preadtime.c
var preadTimeSource []byte

//go:embed testdata/preadloop.c
var preadLoopSource []byte

var buffered = map[string]string{"direct": "no"}

func preadLoopRow() row {
	return row{
		name: "pread-loop", what: "time of such a read in a loop that does nothing else", peer: "C, gcc -O2",
		programs: []string{"gcc"},
		figures:  []figure{{unit: "s", agrees: true}},
		open: openRandread(buffered, func(ctx context.Context, b *bench, w *weighing, file string) (*contest, error) {
			loop := filepath.Join(b.dir, "preadloop")
			if err := compile(ctx, loop, preadLoopSource); err != nil {
				return nil, err
			}
			argv := []string{loop, file, strconv.Itoa(fioPass), strconv.FormatInt(w.work, 10)}
			return &contest{
				tare: w.period,
				peer: func(ctx context.Context) ([]float64, error) {
					out, err := program(ctx, argv...)
					if err != nil {
						return nil, err
					}
					ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
					return []float64{ns / 1e9}, err
				},
				notes: []string{w.note("reads"),
					"C: `preadloop FILE " + strings.Join(argv[2:], " ") + "` (`bench/testdata/preadloop.c`)"},
			}, nil
		}),
	}
}

func preadInFioRow() row {
	return row{
		name: "pread-in-fio", what: "time of the system call of such a read, in fio by a counter that is preloaded " +
			"into it", peer: "fio psync",
		programs: []string{"gcc", "fio"},
		figures:  []figure{{unit: "s", agrees: true, why: "a short call takes longer amid fio's bookkeeping"}},
		open: openRandread(buffered, func(ctx context.Context, b *bench, w *weighing, file string) (*contest, error) {
			counter := filepath.Join(b.dir, "preadtime.so")
			if err := compile(ctx, counter, preadTimeSource, "-shared", "-fPIC"); err != nil {
				return nil, err
			}
			argv := fioArgv(b, file, w.work, false)
			seen := []float64{}
			return &contest{
				tare: w.period,
				peer: func(ctx context.Context) ([]float64, error) {
					sums := filepath.Join(b.dir, "preadtime.sums")
					if err := os.WriteFile(sums, make([]byte, 24), 0o600); err != nil {
						return nil, err
					}
					got, err := fioPeer(append([]string{"env", "--chdir=" + b.dir,
						"LD_PRELOAD=./" + filepath.Base(counter), "PREAD_TIMES=" + sums}, argv...), w.work, false)(ctx)
					if err != nil {
						return nil, err
					}
					said, err := os.ReadFile(sums)
					if err != nil {
						return nil, err
					}
					s, err := preadTime(said, w.work)
					seen = append(seen, got[1]/s)
					return []float64{s}, err
				},
				after: func() []string {
					if len(seen) == 0 {
						return nil
					}
					return []string{fmt.Sprintf("fio itself, with the counter in it, saw a read take %.2f times as "+
						"long (median of %d runs)", stats.Median(seen), len(seen))}
				},
				notes: []string{w.note("reads"),
					"fio: the command line of `fio-buffered`, with `bench/testdata/preadtime.c` preloaded"},
			}, nil
		}),
	}
}

// preadTime is the mean time of a call in seconds, of what the counter kept.
func preadTime(sums []byte, work int64) (float64, error) {
	if len(sums) != 24 {
		return 0, fmt.Errorf("the counter kept %d bytes where 24 are due", len(sums))
	}
	at := func(i int) float64 { return float64(binary.NativeEndian.Uint64(sums[8*i:])) }
	if at(0) == 0 {
		return 0, errors.New("the counter saw no pread: it was not loaded, or the program reads by another call")
	}
	if at(0) != float64(work) {
		return 0, fmt.Errorf("the counter saw %.0f calls where %d are due", at(0), work)
	}
	return (at(1)/at(0) - at(2)) / 1e9, nil
}
