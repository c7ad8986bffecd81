package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/calldiff"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/perf"
	"tare/internal/run/schedule"
	"tare/internal/run/supply"
	"tare/internal/run/tracing"
	"tare/internal/show/flame"
	"tare/internal/show/report"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// whyCommand is `tare why`.
type whyCommand struct {
	*app
	environments []string
	rounds       int
	by           string
	format, file string
	flame        string
	keep         bool
	all, quiet   bool
}

const (
	defaultRounds = calldiff.LeastRounds + 1 // the least would have to agree without exception
	mostRounds    = 100
)

func (cmd *whyCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "why BUNDLE [CELL]", Short: "Repeat a few trials of one cell with tracing, and say which calls differ",
		Long: `Repeat a few trials of one cell and of its baseline, in turn, each also with tracing on. Then say which
system calls (how many, how long, how many bytes, which errors), page faults, waits and sleeps make the difference, for
each unit of work.

CELL is TARGET,WORKLOAD as the report has them; one of the two is enough. Without it, it is the cell with the largest
difference that was shown. The work is the bundle's. Nothing is written to the bundle without --keep.

Tracing is by programs in the kernel (BPF; root), else by stopping the work at each call (ptrace), which gives no times;
work that makes many calls is then done in part, as much as two seconds hold.
In a virtual machine, and on a machine reached by ssh, an agent with a tracer in it traces the work in its own kernel;
what serves it on this machine is shown separately. Linux only.

--flame and --keep have further trials sampled by perf, which must be installed, and show where both sides spend their
time on processors: a differential flame graph. --flame writes it to a file. --keep keeps it in the bundle, apart from
what the run measured: "tare report out -o page.html" has it with the cell.

    tare why out
    tare why out box --keep
    tare why out box
    tare why out 'box,fs.randread size=64MiB' --rounds 9`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return cmd.why(c.Context(), args) },
	}
	fl := c.Flags()
	fl.StringArrayVarP(&cmd.environments, "environment", "e", nil,
		"use this spec for the environment of that name: NAME=DRIVER[:ARG][?key=value&...] (repeatable)")
	fl.IntVar(&cmd.rounds, "rounds", defaultRounds,
		"how often each side is traced, 2 to 100; a cause is named from 6 on")
	fl.StringVar(&cmd.by, "by", tracing.Auto, "how to trace: "+oneOf(tracing.Ways()))
	fl.StringVar(&cmd.format, "format", "text", "text or json")
	fl.StringVarP(&cmd.file, "out", "o", "", "write to this file; - is standard output [-]")
	fl.StringVar(&cmd.flame, "flame", "",
		"also write a differential flame graph to this file, as SVG; by perf, where it is installed")
	fl.BoolVar(&cmd.keep, "keep", false,
		"keep a differential flame graph in the bundle, for the page of its report; by perf, where it is installed")
	fl.BoolVar(&cmd.all, "all", false, "show every call, not only those that differ most")
	fl.BoolVarP(&cmd.quiet, "quiet", "q", false, "no progress; only the result")
	return c
}

func (cmd *whyCommand) why(ctx context.Context, args []string) error {
	switch {
	case cmd.rounds < 2 || cmd.rounds > mostRounds:
		return usagef("--rounds is 2 to %d, not %d", mostRounds, cmd.rounds)
	case !slices.Contains(tracing.Ways(), cmd.by):
		return usagef("--by is %s, not %q%s", oneOf(tracing.Ways()), cmd.by, suggest.DidYouMean(cmd.by, tracing.Ways()))
	case cmd.format != "text" && cmd.format != "json":
		return usagef("--format is text or json, not %q%s", cmd.format,
			suggest.DidYouMean(cmd.format, []string{"text", "json"}))
	}
	if err := cmd.canKeep(args[0]); err != nil {
		return err
	}
	for _, name := range []string{cmd.file, cmd.flame} {
		if err := writable(name); err != nil {
			return err
		}
	}
	b, err := cmd.load(args[0])
	if err != nil {
		return err
	}
	cmd.complain(b)
	if err := noSelftest(b.Bundle, b.trials, args[0], "traced"); err != nil {
		return err
	}
	if b.Plan.Once() {
		return usagef("the worktrees that this result is of are removed; call tare ab --git again")
	}
	cell, note, err := chooseCell(b, args[1:])
	if err != nil {
		return err
	}
	p, err := cmd.planFor(ctx, b, cell)
	if err != nil {
		return err
	}
	var sampler *perf.Recorder
	if flag := cmd.sampling(); flag != "" {
		if sampler, err = perf.Open(ctx); err != nil {
			return usageError{fmt.Errorf("%s: %w", flag, err)}
		}
		defer sampler.Close()
	}
	tracer, err := tracing.Open(ctx, cmd.by)
	if err != nil {
		return fmt.Errorf("system calls cannot be traced here: %w", err)
	}
	defer tracer.Close()
	if !cmd.quiet {
		fmt.Fprintf(cmd.err, "cell       %s\n", printableLine(cellText(cell)))
		if note != "" {
			fmt.Fprintf(cmd.err, "           %s\n", printableLine(note))
		}
	}
	in, res, err := cmd.trace(ctx, p, cell, tracer, sampler)
	switch {
	case err != nil && ctx.Err() != nil:
		fmt.Fprintln(cmd.err, "tare: stopped before the end; of trials that are traced nothing is kept")
		return codeError{exitFailed}
	case err != nil:
		return err
	}
	if err := cmd.tellWhy(calldiff.Explain(in)); err != nil || sampler == nil {
		return err
	}
	return cmd.draw(in, res, args[0])
}

// sampling is the flag that asks for samples; "" if none does.
func (cmd *whyCommand) sampling() string {
	switch {
	case cmd.flame != "":
		return "--flame"
	case cmd.keep:
		return "--keep"
	}
	return ""
}

// canKeep returns the reason why a bundle takes no flame graph, before minutes are spent on one.
func (cmd *whyCommand) canKeep(name string) error {
	if !cmd.keep {
		return nil
	}
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return usagef("--keep writes to the folder of a bundle, and %s is a packed one: unpack it with `tare bundle "+
			"unpack`, or draw the graph with --flame FILE", name)
	}
	return bundle.Keeps(name)
}

// draw writes the flame graph to its file and to the bundle.
func (cmd *whyCommand) draw(in *calldiff.Input, res *schedule.RepeatResult, name string) error {
	for _, target := range []string{in.Baseline.Name, in.Target.Name} {
		if why := res.Unsampled[target]; why != "" {
			return fmt.Errorf("there is no flame graph, because %s could not be sampled: %s", target,
				printableLine(why))
		}
	}
	p := &flame.Picture{Title: fmt.Sprintf("%s in %s against %s", in.Workload, in.Target.Name, in.Baseline.Name),
		Unit: in.Unit, Base: sampledSide(res, in.Baseline.Name), Side: sampledSide(res, in.Target.Name)}
	kept, err := flame.Graph(p)
	switch {
	case errors.Is(err, flame.ErrNothing):
		return errors.New("there is no flame graph, because one side used hardly any CPU time: perf took no sample " +
			"of it")
	case err != nil:
		return err
	}
	if cmd.flame != "" {
		if err := writeWhole(cmd.flame, func(w io.Writer) error { return flame.SVG(w, p) }); err != nil {
			return err
		}
		cmd.note("flame      %s\n", cmd.flame)
	}
	if !cmd.keep {
		return nil
	}
	kept.Workload, kept.Made = in.Workload, time.Now().UTC().Truncate(time.Second)
	path, err := bundle.Keep(name, kept)
	if err != nil {
		return err
	}
	cmd.note("kept       %s; its page has it: tare report %s -o page.html\n", path, quoteArg(name))
	return nil
}

// note says something besides the result.
func (cmd *whyCommand) note(format string, words ...string) {
	if cmd.quiet {
		return
	}
	args := make([]any, len(words))
	for i, w := range words {
		args[i] = printableLine(w)
	}
	fmt.Fprintf(cmd.err, format, args...)
}

// sampledSide are the trials of a target that were sampled.
func sampledSide(res *schedule.RepeatResult, target string) flame.Side {
	s := flame.Side{Name: target, Inside: res.Inside[target]}
	for i := range res.Trials {
		if t := &res.Trials[i]; t.Target == target && t.Sampled {
			s.Rounds = append(s.Rounds, flame.Round{Profile: t.Profile, Work: t.Record.Work})
		}
	}
	return s
}

// tellWhy writes the explanation.
func (cmd *whyCommand) tellWhy(e *calldiff.Explanation) error {
	render := func(w io.Writer) error {
		if cmd.format == "json" {
			j := json.NewEncoder(w)
			j.SetIndent("", "  ")
			return j.Encode(e)
		}
		return calldiff.Text(w, e, calldiff.Options{Width: cmd.width(100), Wrap: report.Wrap, All: cmd.all})
	}
	if cmd.file == "" || cmd.file == "-" {
		return render(cmd.out)
	}
	return writeWhole(cmd.file, render)
}

// cellText is a cell as the command line takes it, with its ratio.
func cellText(c *verdict.Cell) string {
	return fmt.Sprintf("%s,%s: %s of %s, %s", c.Target, c.Workload, unit.Number(c.Ratio.Center), c.Baseline, c.Verdict)
}

// chooseCell finds the cell that is meant; without a word, the one with the largest difference that was shown. note is
// what the user should know of the choice. A cell without figures has no difference to explain.
func chooseCell(b *loaded, words []string) (cell *verdict.Cell, note string, err error) {
	var all []*verdict.Cell
	for i := range b.result.Cells {
		if c := &b.result.Cells[i]; c.Primary && c.Target != c.Baseline {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil, "", usagef("the bundle has no cell that is compared with a baseline: %s",
			report.WhyNoRatio(b.result))
	}
	fits := all
	if len(words) > 0 {
		fits = slices.DeleteFunc(slices.Clone(all), func(c *verdict.Cell) bool { return !isCell(c, words[0]) })
	}
	if len(fits) == 0 {
		var list strings.Builder
		for _, c := range all {
			fmt.Fprintf(&list, "\n    %s,%s", printableLine(c.Target), printableLine(c.Workload))
		}
		return nil, "", usagef("there is no cell %q; there are:%s", words[0], list.String())
	}
	figured := slices.DeleteFunc(slices.Clone(fits), func(c *verdict.Cell) bool { return !(c.Ratio.Center > 0) })
	if len(figured) == 0 {
		c := fits[0]
		return nil, "", usagef("%s,%s has no ratio, so there is no difference to explain: %s", printableLine(c.Target),
			printableLine(c.Workload), printableLine(noFigure(b, c)))
	}
	shown := slices.DeleteFunc(slices.Clone(figured), func(c *verdict.Cell) bool {
		return c.Verdict != record.Different
	})
	if fits = shown; len(shown) == 0 {
		fits, note = figured, "no difference was shown there, so what follows may be chance"
	}
	cell = slices.MaxFunc(fits, func(a, b *verdict.Cell) int {
		return cmp.Compare(math.Abs(math.Log(a.Ratio.Center)), math.Abs(math.Log(b.Ratio.Center)))
	})
	return cell, note, nil
}

// noFigure returns the reason why a cell has no ratio.
func noFigure(b *loaded, c *verdict.Cell) string {
	for _, name := range []string{c.Baseline, c.Target} {
		for i := range b.Environments {
			if e := &b.Environments[i]; e.Name == name && e.Error != nil {
				return name + " did not open: " + e.Error.Message
			}
		}
	}
	if c.Failure != nil {
		return c.Failure.Message
	}
	if c.Verdict == record.Withheld {
		return "its verdict is withheld, and the report says why: tare report " + quoteArg(b.name)
	}
	for _, name := range []string{c.Baseline, c.Target} {
		done := slices.ContainsFunc(b.trials, func(t record.Trial) bool {
			return t.Workload == c.Workload && t.Target == name && t.Error == nil && !t.Warmup()
		})
		if !done {
			return "the bundle has no measured trial of it in " + name
		}
	}
	return "no block has a figure of both sides"
}

// isCell tells whether a word names a cell: TARGET,WORKLOAD, or one of them. A workload of one kind may be named by it.
func isCell(c *verdict.Cell, word string) bool {
	return word == c.Target || word == c.Workload || word == c.Kind || word == c.Target+","+c.Workload ||
		word == c.Target+","+c.Kind
}

// planFor is the bundle's plan with this cell only.
func (cmd *whyCommand) planFor(ctx context.Context, b *loaded, c *verdict.Cell) (*plan.Plan, error) {
	w, ok := b.Plan.Workload(c.Workload)
	if !ok {
		return nil, fmt.Errorf("the bundle's plan has no workload %s", c.Workload)
	}
	keep := map[string]bool{c.Target: true, c.Baseline: true}
	if to := w.Params[workload.ToParam]; to != "" { // the other end is there
		keep[to] = true
	}
	for _, h := range w.Crowd() {
		keep[h.Name] = true
	}
	gone, without := map[string]bool{}, map[string]bool{}
	for _, t := range b.Plan.Targets {
		if keep[t.Name] && t.IsMount() {
			keep[t.Of] = true
		}
	}
	for _, t := range b.Plan.Targets {
		gone[t.Name] = !keep[t.Name]
	}
	for _, other := range b.Plan.Workloads {
		without[other.Label] = other.Label != c.Workload
	}
	maps.DeleteFunc(gone, func(_ string, is bool) bool { return !is })
	p := b.Plan.Without(gone, without)
	if len(p.Workloads) != 1 {
		return nil, fmt.Errorf("%s is not compared in %s", c.Workload, c.Target)
	}
	p.Baseline, p.Budget, p.Sessions, p.MostSessions, p.Cards = c.Baseline, 0, 1, 0, false
	p.Workloads[0].Baseline, p.Workloads[0].Targets = "", []string{c.Baseline, c.Target}
	p, lost, err := (&rerunCommand{app: cmd.app}).match(ctx, p, cmd.environments)
	if err != nil {
		return nil, err
	}
	if len(lost) > 0 {
		return nil, fmt.Errorf("the cell cannot be repeated here: %s", strings.Join(lost, "; "))
	}
	if err := supply.Check(p); err != nil {
		return nil, usageError{err}
	}
	return p, nil
}

// trace repeats the trials.
func (cmd *whyCommand) trace(ctx context.Context, p *plan.Plan, c *verdict.Cell, tracer *tracing.Tracer,
	sampler *perf.Recorder) (*calldiff.Input, *schedule.RepeatResult, error) {
	x := &execution{app: cmd.app, plan: p, runID: newRunID(), flags: &runFlags{quiet: true}, traces: true}
	var res *schedule.RepeatResult
	began := time.Now()
	var first time.Time
	again := schedule.RepeatOptions{Workload: c.Workload, Target: c.Target, Baseline: c.Baseline, Rounds: cmd.rounds,
		Tracer: tracer, Begins: func(round int) {
			left := ""
			if round == 1 {
				first = time.Now()
			} else {
				each := time.Since(first) / time.Duration(round-1)
				left = ", about " + seconds(each*time.Duration(cmd.rounds-round+1)) + " to go"
			}
			if !cmd.quiet {
				fmt.Fprintf(cmd.err, "round      %d of %d, after %s%s\n", round, cmd.rounds,
					seconds(time.Since(began)), left)
			}
		}}
	if sampler != nil { // a nil in an interface would be none
		again.Profiler = sampler
	}
	err := x.equip(ctx, func(config schedule.Config) (err error) {
		res, err = schedule.Repeat(ctx, config, again)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	in := &calldiff.Input{Workload: c.Workload, Kind: c.Kind, Unit: "unit of work", Ratio: c.Ratio.Center,
		Way: tracer.Way, Lost: tracer.Lost, Share: res.Share, Baseline: sideOf(res, c.Baseline),
		Target: sideOf(res, c.Target)}
	if k, ok := cmd.kind(c.Kind); ok && k.WorkUnit != "" {
		in.Unit = k.WorkUnit
	}
	return in, res, nil
}

func sideOf(res *schedule.RepeatResult, target string) calldiff.Side {
	s := calldiff.Side{Name: target, Inside: res.Inside[target] || res.Within[target] != "",
		Within: res.Within[target], Hidden: res.Hidden[target], Serving: res.Serving[target], Lost: res.Lost[target]}
	for i := range res.Trials {
		if t := &res.Trials[i]; t.Target == target && !t.Sampled {
			s.Trials = append(s.Trials, calldiff.Trial{Round: t.Round, Work: t.Record.Work, ElapsedNS: t.Record.AgentNS,
				Trace: t.Trace, Outside: t.Outside, Exits: record.Exits(t.Record.State[record.HostExits])})
		}
	}
	return s
}
