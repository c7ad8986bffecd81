package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/run/schedule"
	"tare/internal/run/supply"
	"tare/internal/sys/benchfmt"
	"tare/internal/unit"
)

// planCommand is `tare plan`.
type planCommand struct {
	*app
}

func (cmd *planCommand) command() *cobra.Command {
	c := &cobra.Command{Use: "plan", Short: "Check a plan file, say in words what it does, or help an editor with it"}
	c.AddCommand(cmd.checkCommand(), cmd.explainCommand(), cmd.metricsCommand(), cmd.schemaCommand())
	return c
}

func (cmd *planCommand) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use: "check PLAN...", Short: "Say what is wrong with plan files, and start nothing",
		Long: `Read plan files as "tare run" does and say what is wrong with them: file, line, column, what was
expected, and the nearest valid name. It also finds a log that a workload needs and that is missing, and work that does
not fit this machine's disk. All files are checked; - is standard input. The exit code is 2 if there is a mistake in
any.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			wrong := false
			for _, name := range args {
				p, _, err := cmd.read(c.Context(), name)
				if err != nil {
					fmt.Fprintf(cmd.err, "tare: %s\n", printable(err.Error()))
					wrong = true
					continue
				}
				f := schedule.NewForecast(p, cmd.kind)
				fmt.Fprintf(cmd.out, "%s: ok: %s, %s, %s to decide\n", printableLine(shownPlan(name)),
					unit.Plural(f.Targets, "target"), unit.Plural(f.Workloads, "workload"),
					unit.Plural(f.Cells, "cell"))
			}
			if wrong {
				return codeError{exitUsage}
			}
			return nil
		},
	}
}

func (cmd *planCommand) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain PLAN", Short: "Say in words what a plan does, and start nothing",
		Long: `Say in words what "tare run PLAN" does on this machine: which environments it opens and what their
settings mean, which work it runs there, what is compared with what, when it decides and ends, how long that takes, how
much disk it needs, and what it leaves behind. Nothing is started or changed; - is standard input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, lacking, err := cmd.read(c.Context(), args[0])
			if err != nil {
				return err
			}
			x := &explanation{app: cmd.app, plan: p, width: cmd.width(100), lacking: lacking}
			return x.write(c.Context())
		},
	}
}

func (cmd *planCommand) metricsCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "metrics FORMAT [FILE]", Short: "Write the parameter metric for the cases of a suite of benchmarks",
		Long: `Read what a suite of benchmarks printed, and write the lines of the parameter "metric" by which the
workload "command" takes the figure of each case from the suite's output. The first case decides; the others are judged
together by their false discovery rate. FILE is the output of one run; without it, or with -, it is standard input.

` + suiteTable() + `
Each line has the name of its case, so a suite that prints other cases elsewhere fails instead of comparing two. What no
line can find by its name is told.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			parse, err := benchfmt.New(args[0])
			if err != nil {
				return usageError{err}
			}
			name := "-"
			if len(args) == 2 {
				name = args[1]
			}
			out, err := cmd.readFigures(name)
			if err != nil {
				return err
			}
			s, err := parse(out)
			if err != nil {
				return usageError{fmt.Errorf("read the benchmarks of %s: %w", shownPlan(name), err)}
			}
			return cmd.metrics(s, args[0], all)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "a line for each figure of a case, not only for its first")
	return c
}

// suiteTable lists the formats of suites.
func suiteTable() string {
	var b strings.Builder
	for _, f := range benchfmt.Formats() {
		fmt.Fprintf(&b, "    %-10s %s\n", f.Name, f.Doc)
	}
	return b.String()
}

func (cmd *planCommand) readFigures(name string) ([]byte, error) {
	in := cmd.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, usageError{fmt.Errorf("read benchmarks: %w", err)}
		}
		defer file.Close()
		in = file
	}
	out, err := io.ReadAll(io.LimitReader(in, benchfmt.MaxBytes+1))
	if err != nil {
		return nil, usageError{fmt.Errorf("read benchmarks: %w", err)}
	}
	return out, nil
}

// metrics writes the lines, and says what has none.
func (cmd *planCommand) metrics(s *benchfmt.Suite, format string, all bool) error {
	lines, err := cmd.lines(s, format, all)
	for _, l := range lines {
		if _, err := fmt.Fprintln(cmd.out, l); err != nil {
			return err
		}
	}
	return err
}

// lines makes the lines of the parameter metric, and says what has none.
func (cmd *planCommand) lines(s *benchfmt.Suite, format string, all bool) ([]string, error) {
	var own []string
	if k, ok := cmd.kind("command"); ok {
		for _, m := range k.Metrics {
			own = append(own, m.Name)
		}
	}
	lines, without := s.Lines(format, all, own...)
	for _, l := range s.Left[:min(len(s.Left), mostTold)] {
		fmt.Fprintf(cmd.err, "left out   %s: %s\n", printableLine(strings.TrimSpace(l.Case+" "+l.Figure)),
			printableLine(l.Why))
	}
	if n := len(s.Left) + s.More - mostTold; n > 0 {
		fmt.Fprintf(cmd.err, "left out   %d more\n", n)
	}
	for _, name := range without[:min(len(without), mostTold)] {
		fmt.Fprintf(cmd.err, "no line    %s: its unit has a colon or a blank\n", printableLine(name))
	}
	if n := len(without) - mostTold; n > 0 {
		fmt.Fprintf(cmd.err, "no line    %d more\n", n)
	}
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Text)
		if !l.Plain {
			fmt.Fprintf(cmd.err, "named      %s is %s\n", l.Name, printableLine(l.Case))
		}
	}
	if len(lines) == 0 {
		return nil, usagef("no case has a figure in a unit that a metric can have")
	}
	return texts, nil
}

// mostTold bounds what is told one by one.
const mostTold = 10

func (cmd *planCommand) schemaCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of plan files, for editors",
		Long: `Print the JSON Schema of plan files, with every driver, kind and setting of this version. Editors
complete and check plans with it: "tare init" writes a line into the plan that names plan.schema.json beside it.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			write := func(w io.Writer) error {
				_, err := w.Write(plan.JSONSchema(cmd.tables()))
				return err
			}
			if out == "" || out == "-" {
				return write(cmd.out)
			}
			return writeWhole(out, write)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "write to this file; - is standard output [-]")
	return c
}

// shownPlan is the name of a plan file in messages.
func shownPlan(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// read reads a plan and holds it against this machine, as a run does before it starts anything. lacking says where
// there is too little space although others have enough.
func (cmd *planCommand) read(ctx context.Context, name string) (p *plan.Plan, lacking []string, err error) {
	var src []byte
	if name == "-" {
		src, err = io.ReadAll(io.LimitReader(cmd.in, plan.MaxFile+1))
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("read plan: %w", err)}
		}
	} else if src, err = readPlan(name); err != nil {
		return nil, nil, err
	}
	if p, err = plan.ParseWithFlags(shownPlan(name), src, plan.Flags{}, cmd.tablesHere(ctx)); err != nil {
		return nil, nil, err
	}
	if err = supply.Check(p); err == nil {
		lacking, err = schedule.CheckFreeSpace(p, cmd.kind, cmd.drivers, cmd.scratchBase())
	}
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("%s: %w", shownPlan(name), err)}
	}
	return p, lacking, nil
}

// tablesHere are the tables that a plan is read by where it is to run: they know what this machine has.
func (a *app) tablesHere(ctx context.Context) plan.Tables {
	t := a.tables()
	t.Here = func() []string { return a.here(ctx) }
	t.Declared = func(s env.Spec) ([]env.Spec, error) { return a.declared(ctx, s) }
	t.Available, t.LeftOut = a.available(ctx), func(target, why string) {
		fmt.Fprintf(a.err, "without    %s: %s\n", target, printableLine(why))
	}
	return t
}
