package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/measure/workload/command"
	"tare/internal/stats"
	"tare/internal/sys/benchfmt"
)

// spareBlocks are those that a suite gets beyond the least that one case among all needs to be told apart.
const spareBlocks = 3

// suite has the figures of a suite's cases, or those that --metric describes, taken from what the commands print.
func (cmd *abCommand) suite(ctx context.Context, all []variant) error {
	a := &cmd.flags
	lines := slices.Clone(a.metrics)
	if a.figures != "" {
		more, err := cmd.cases(ctx, all)
		if err != nil {
			return err
		}
		lines = append(lines, more...)
	}
	for i := range all {
		if len(lines) > 0 {
			all[i].params["metric"] = strings.Join(lines, "\n")
		}
	}
	a.count = len(lines)
	return nil
}

// looks are the blocks after which a comparison of so many figures decides: once, at the end. A case that stands alone
// among hundreds needs more blocks than a first look has, and the first case must not end the run for all.
func (a *abFlags) looks(blocks, variants int, alpha float64) []int {
	if blocks > 0 {
		return []int{blocks}
	}
	const least = 10 // as a first look
	return []int{max(least, stats.MinBlocks(a.count*(variants-1), alpha)+spareBlocks)}
}

// cases makes the lines of the parameter metric, for the cases that each variant has.
func (cmd *abCommand) cases(ctx context.Context, all []variant) ([]string, error) {
	format, file, _ := strings.Cut(cmd.flags.figures, ":")
	if _, err := benchfmt.New(cmd.flags.figures); err == nil && strings.Contains(format, "(") {
		format, file = cmd.flags.figures, "" // an expression may have colons
	}
	parse, err := benchfmt.New(format)
	if err != nil {
		return nil, usageError{fmt.Errorf("--figures: %w", err)}
	}
	var s *benchfmt.Suite
	switch {
	case file != "":
		out, err := (&planCommand{app: cmd.app}).readFigures(file)
		if err != nil {
			return nil, err
		}
		if s, err = parse(out); err != nil {
			return nil, usageError{fmt.Errorf("read the benchmarks of %s: %w", shownPlan(file), err)}
		}
		fmt.Fprintf(cmd.err, "note       the cases are those of %s: a variant that does not print all of them has no "+
			"figures\n", shownPlan(file))
	case cmd.run.dryRun:
		fmt.Fprintln(cmd.err, "note       the cases are known after one run of each variant, so they are not counted "+
			"here")
		return nil, nil
	case !onHost(all[0].spec):
		return nil, usagef("--figures: to know its cases, the suite is run once on this machine, and here it runs " +
			"elsewhere; give a file with the output of one run: --figures go:output.txt")
	default:
		if s, err = cmd.sharedCases(ctx, all, parse); err != nil {
			return nil, err
		}
	}
	return (&planCommand{app: cmd.app}).lines(s, format, false)
}

// sharedCases runs each variant once, not timed, and keeps the cases that all of them have.
func (cmd *abCommand) sharedCases(ctx context.Context, all []variant, parse benchfmt.Parser) (*benchfmt.Suite, error) {
	k, ok := cmd.kind("command")
	if !ok {
		return nil, fmt.Errorf("this tare has no workload command")
	}
	dir, err := os.MkdirTemp(cmd.scratchBase(), "tare-cases-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var suites []*benchfmt.Suite
	for i, v := range all {
		p, err := k.Resolve(v.params)
		if err != nil {
			return nil, usageError{err}
		}
		own := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(own, 0o700); err != nil {
			return nil, err
		}
		if !cmd.run.quiet {
			fmt.Fprintf(cmd.err, "cases      %s runs once, not timed\n", v.spec.Name)
		}
		out, err := command.Output(ctx, p, own)
		if err != nil {
			return nil, fmt.Errorf("run %s once to learn its cases: %w", v.spec.Name, err)
		}
		s, err := parse(out)
		if err != nil {
			return nil, usageError{fmt.Errorf("read the benchmarks of %s: %w", v.spec.Name, err)}
		}
		suites = append(suites, s)
	}
	shared, only := benchfmt.Shared(suites)
	for i, names := range only {
		for _, name := range names[:min(len(names), mostTold)] {
			fmt.Fprintf(cmd.err, "left out   %s: not every variant has it; %s does\n", printableLine(name),
				all[i].spec.Name)
		}
		if n := len(names) - mostTold; n > 0 {
			fmt.Fprintf(cmd.err, "left out   %d more cases that not every variant has, of %s\n", n, all[i].spec.Name)
		}
	}
	if len(shared.Cases) == 0 {
		return nil, usagef("the variants have no case in common, so there is nothing to compare")
	}
	return shared, nil
}
