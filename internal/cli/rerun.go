package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/judge/failif"
	"tare/internal/judge/history"
	"tare/internal/judge/rundiff"
	"tare/internal/lab/env"
	"tare/internal/measure/sysinfo"
	"tare/internal/plan"
	"tare/internal/show/report"
	"tare/internal/suggest"
)

// rerunCommand is `tare rerun`.
type rerunCommand struct {
	*app
	flags struct {
		environments []string
		fail         failIf
	}
}

func (cmd *rerunCommand) command() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use: "rerun BUNDLE", Short: "Repeat a result with the same plan, seed and work on this machine",
		Long: `Repeat a result with the same plan, seed and frozen work, and compare the new result with the old one at the end.

On another machine, environments are matched by name and driver. Before anything starts, tare shows what is missing and
how the machines differ. An environment whose driver or program is missing is left out; --environment NAME=SPEC replaces
it. The work stays the same, so trials are shorter on a faster machine.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("budget") {
				f.plan.Budget = &f.budget
			}
			if err := cmd.flags.fail.parse(); err != nil {
				return err
			}
			old, err := cmd.load(args[0])
			if err != nil {
				return err
			}
			cmd.complain(old)
			if err := noSelftest(old.Bundle, old.trials, args[0], "repeated"); err != nil {
				return err
			}
			return cmd.rerun(c.Context(), old.side(), f, cmd.flags.environments, &cmd.flags.fail)
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&cmd.flags.environments, "environment", "e", nil,
		"use this spec for the environment of that name: NAME=DRIVER[:ARG][?key=value&...] (repeatable)")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-DATE-TIME]")
	fl.DurationVar(&f.budget, "budget", 0, "stop after this time and report the figures so far: 10m [the plan's]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what differs and what would be done, and start nothing")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.strict, "strict", false,
		"exit with 4 when a cell, a change or a --fail-if condition cannot be decided")
	fl.BoolVar(&f.ascii, "ascii", false, "draw the report with ASCII characters only")
	fl.BoolVar(&f.details, "details", false, "show every metric, not only the primary ones")
	cmd.flags.fail.flag(c)
	return c
}

// rerun repeats old and compares.
func (cmd *rerunCommand) rerun(ctx context.Context, old *rundiff.Side, f *runFlags, environments []string,
	fail *failIf) error {
	if old.Plan.Once() {
		return usagef("the worktrees that this result is of are removed; call tare ab --git again")
	}
	p, lost, err := cmd.match(ctx, old.Plan, environments)
	if err != nil {
		return err
	}
	if old.Redacted && metered(p) {
		copied := *p
		copied.Energy, p = nil, &copied
		lost = append(lost,
			"energy is not measured: the command of its meter was replaced when the result was redacted")
	}
	if f.plan.Budget != nil {
		p.Budget = *f.plan.Budget
	}
	fmt.Fprintf(cmd.err, "again      run %s of %s: seed %d, with the work as it was frozen\n",
		printableLine(old.Result.Run.ID),
		old.Created.UTC().Format(time.DateTime), p.Seed)
	for i := range p.Targets {
		e := &p.Targets[i]
		if was, ok := old.Plan.Target(e.Name); ok && was.Text != e.Text && e.Like == "" {
			lost = append(lost, fmt.Sprintf("%s is %s, and was %s", e.Name, e.Text, was.Text))
		}
	}
	for _, l := range append(lost, cmd.unlike(ctx, old)...) {
		fmt.Fprintf(cmd.err, "differs    %s\n", printableLine(l))
	}
	expected := failif.Expected(p, cmd.kind)
	if _, err := fail.judge(append(expected, failif.ExpectedChanges(expected)...)); err != nil {
		return err
	}
	ran := (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
	// A cell without a verdict ends a strict run with a code of its own; the comparison is due all the same.
	code, inconclusive := errors.AsType[codeError](ran)
	inconclusive = inconclusive && code.code == exitInconclusive
	if f.dryRun || ran != nil && !inconclusive {
		return ran
	}
	now, err := cmd.load(f.out)
	if err != nil {
		return err
	}
	cmd.complain(now)
	sides := []rundiff.Side{*old, *now.side()}
	c := rundiff.Compare(sides)
	fmt.Fprintln(cmd.out)
	if err := rundiff.Text(cmd.out, c, rundiff.Options{Details: f.details, ASCII: f.ascii, Wrap: report.Wrap,
		Width: cmd.width(100)}); err != nil {
		return err
	}
	outcomes, err := fail.judgeComparison(c, sides)
	if err != nil {
		return err
	}
	cmd.tell(outcomes)
	return ending(outcomes, f.strict, !inconclusive && told(c))
}

// metered tells whether a plan names the command of a meter.
func metered(p *plan.Plan) bool { return p.Energy != nil && len(p.Energy.Meter) > 0 }

// match makes of a bundle's plan one that this machine can carry out, and says what had to be left out.
func (cmd *rerunCommand) match(ctx context.Context, old *plan.Plan,
	environments []string) (p *plan.Plan, lost []string, err error) {
	p = old
	if len(environments) > 0 {
		flags, err := replacements(old, environments)
		if err != nil {
			return nil, nil, err
		}
		if p, err = plan.FromFlags(old, flags, cmd.tables()); err != nil {
			return nil, nil, err
		}
	}
	gone := map[string]bool{}
	for _, x := range cmd.lacking(ctx, p) {
		replace := fmt.Sprintf("; replace it with --environment %s=SPEC", x.target)
		if x.target == p.Baseline {
			return nil, nil, fmt.Errorf("rerun: the baseline %s is not available here: %s%s", x.target, x.why, replace)
		}
		gone[x.target] = true
		lost = append(lost, fmt.Sprintf("%s is left out: %s%s", x.target, x.why, replace))
	}
	unknown := map[string]bool{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		if _, ok := cmd.kind(w.Kind); !ok {
			unknown[w.Label] = true
			lost = append(lost, fmt.Sprintf("workload %s is left out: this version of tare has no %s", w.Label, w.Kind))
		}
	}
	p = p.Without(gone, unknown)
	if len(p.Workloads) == 0 || len(p.Targets) < min(2, len(old.Targets)) {
		return nil, nil, fmt.Errorf("rerun: nothing is left to compare: %s", strings.Join(lost, "; "))
	}
	return p, lost, nil
}

// lack is a target that this machine cannot have, and why.
type lack struct{ target, why string }

// lacking lists the targets of a plan that this machine cannot have.
func (cat *catalog) lacking(ctx context.Context, p *plan.Plan) (out []lack) {
	here := cat.probe(ctx)
	gone := map[string]bool{}
	for i := range p.Targets {
		e := &p.Targets[i]
		if e.Like != "" {
			continue // it goes with what it is, and with where its neighbour runs
		}
		if why := cat.cannot(p, e, here, gone); why != "" {
			gone[e.Name] = true
			out = append(out, lack{e.Name, why})
		}
	}
	return out
}

// replacements reads what is to be taken in the place of the plan's environments and mounts.
func replacements(p *plan.Plan, environments []string) (plan.Flags, error) {
	var f plan.Flags
	names := []string{}
	for i := range p.Targets {
		if p.Targets[i].Like == "" {
			names = append(names, p.Targets[i].Name)
		}
	}
	for _, text := range environments {
		name, _, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return f, usagef("--environment %s: write NAME=SPEC with a name from the plan: %s", text,
				strings.Join(names, ", "))
		case !slices.Contains(names, name):
			return f, usagef("--environment %s: there is no environment %q in the plan%s", text, name,
				suggest.MeantOrAll(name, names, "there are:"))
		}
		if _, _, mount := env.CutMount(name); mount {
			f.Mounts = append(f.Mounts, text)
		} else {
			f.Environments = append(f.Environments, text)
		}
	}
	return f, nil
}

// cannot returns the reason why an environment or a mount cannot be had on this machine; "" when none is known.
func (cat *catalog) cannot(p *plan.Plan, e *plan.Target, here []env.Status, gone map[string]bool) string {
	if e.IsMount() {
		of, ok := p.Target(e.Of)
		if !ok || gone[e.Of] {
			return e.Of + " is missing"
		}
		if err := cat.drivers.CheckMount(e.Name, of.Spec.Driver, e.Spec); err != nil {
			return err.Error()
		}
		// Another machine, or a redacted bundle, has no such directory.
		in, _ := cat.drivers.Lookup(of.Spec.Driver)
		if k, _ := in.MountKind(e.Spec.Driver); k.ArgHere {
			if info, err := os.Stat(e.Spec.Arg); err != nil || !info.IsDir() {
				return "there is no directory " + e.Spec.Arg
			}
		}
		return ""
	}
	if err := cat.drivers.Check(e.Spec); err != nil {
		return err.Error()
	}
	for i, d := range cat.drivers.All() {
		if d.Name == e.Spec.Driver && !here[i].OK {
			why := d.Name + " does not work here: " + here[i].Detail
			if here[i].Remedy != "" {
				why += " (get it: " + here[i].Remedy + ")"
			}
			return why
		}
	}
	return ""
}

// unlike lists what this machine has otherwise than the one that the result is of.
func (cmd *rerunCommand) unlike(ctx context.Context, old *rundiff.Side) []string {
	then := history.HostFacts(old.Result, old.Plan)
	if then == nil {
		return []string{"the result does not say which machine it is from: it has no local environment"}
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = os.TempDir()
	}
	now := sysinfo.Collect(ctx, dir)
	var out []string
	add := func(what, was, is string) {
		if was != is {
			out = append(out, fmt.Sprintf("%s: %s then, %s now", what, orUnknown(was), orUnknown(is)))
		}
	}
	add("system", then.OS+"/"+then.Arch, now.OS+"/"+now.Arch)
	if !old.Redacted {
		add("host", then.Hostname, now.Hostname)
	}
	add("kernel", then.Kernel, now.Kernel)
	add("processor", then.CPU, now.CPU)
	add("threads", strconv.Itoa(then.Threads), strconv.Itoa(now.Threads))
	add("governor", then.Extra["cpu.governor"], now.Extra["cpu.governor"])
	add("memory", gib(then.MemoryBytes), gib(now.MemoryBytes))
	return out
}

func gib(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
