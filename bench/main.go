// Command bench measures tare beside its peers (fio, sysbench, mbw, hyperfine) and prints ratios.
//
// It is opinionated in the way tare is. Both sides do the same amount of work, frozen beforehand. They take turns
// within one run, in an order drawn from a seed, so that a slow minute hits both. The answer is the ratio within pairs,
// with an interval; times of different days are never compared. tare goes its real way: driver, agent, fresh worker per
// trial. A goal that is missed is said, not hidden and not an error: the exit code is about whether it could be
// measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv("TARE_REQUIRE") != "", os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are what the command line says.
type settings struct {
	pairs  int
	length time.Duration
	seed   uint64
	dir    string
	out    string
	list   bool
	names  []string
}

const usage = `usage: go run ./bench [flags] [ROW...]

Measures tare beside its peers, row by row, and prints ratios. Without names all rows are measured.
"agreement" stands for the rows whose figures are to agree with the peer's, "grid" for those of the grid of tare and fio.

`

func parseArgs(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.IntVar(&s.pairs, "pairs", 15, "pairs of runs in each row; below 6 there is no interval")
	f.DurationVar(&s.length, "length", time.Second, "how long one run of one side is to take, at least")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the order within pairs and of tare's data")
	f.StringVar(&s.dir, "dir", "",
		"directory below which files are read; it is to lie on a disk (default: the system's for temporary files)")
	f.StringVar(&s.out, "o", "", "put the result between the markers of this Markdown file, in the place of the "+
		"last one of the same kind of processor; with names, in the place of these rows of it")
	f.BoolVar(&s.list, "list", false, "print the rows and leave")
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.names = f.Args()
	switch {
	case s.pairs < 1 || s.pairs > 1000:
		return s, fmt.Errorf("-pairs %d: give a number from 1 to 1000", s.pairs)
	case s.length < 50*time.Millisecond || s.length > time.Minute:
		return s, fmt.Errorf("-length %v: give a time from 50ms to 1m", s.length)
	}
	return s, nil
}

// run is the whole program. required says that a row that cannot be run is a failure.
func run(ctx context.Context, args []string, required bool, stdout, stderr io.Writer) int {
	s, err := parseArgs(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && s.list {
		for _, r := range rows() {
			fmt.Fprintf(stdout, "%-22s %s\n", r.name, r.what)
		}
		return 0
	}
	var chosen []row
	if err == nil {
		chosen, err = choose(rows(), s.names)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	if err := measure(ctx, s, chosen, required, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// choose picks rows by name, in the table's order.
func choose(all []row, names []string) ([]row, error) {
	if len(names) == 0 {
		return all, nil
	}
	known := []string{agreement, grid}
	for _, r := range all {
		known = append(known, r.name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("there is no row %q; the rows are %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool {
		return !slices.Contains(names, r.name) && !(slices.Contains(names, agreement) && r.agrees()) &&
			!(slices.Contains(names, grid) && strings.HasPrefix(r.name, grid+"-"))
	}), nil
}

// measure runs the chosen rows and writes what they gave.
func measure(ctx context.Context, s settings, chosen []row, required bool, stdout, stderr io.Writer) (err error) {
	b, err := newBench(s, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	began := time.Now()
	var outcomes []outcome
	for i := range chosen {
		o := b.row(ctx, &chosen[i])
		outcomes = append(outcomes, o)
		if ctx.Err() != nil {
			break
		}
	}
	text := render(outcomes, b.machine(context.WithoutCancel(ctx), chosen), s, began, time.Since(began))
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; the table holds what was measured until then")
	}
	if s.out != "" {
		if err := insert(s.out, b.processor(ctx), text, len(s.names) > 0); err != nil {
			return err
		}
	}
	return verdictOnRun(outcomes, required)
}

// verdictOnRun says whether everything that was to be measured was.
func verdictOnRun(outcomes []outcome, required bool) error {
	var errs []error
	for _, o := range outcomes {
		switch {
		case o.err != nil:
			errs = append(errs, fmt.Errorf("row %s: %w", o.row.name, o.err))
		case o.skipped != "" && required:
			errs = append(errs, fmt.Errorf("row %s was not run: %s, and TARE_REQUIRE is set", o.row.name, o.skipped))
		}
	}
	return errors.Join(errs...)
}
