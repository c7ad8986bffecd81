package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"tare/internal/judge/fleet"
	"tare/internal/lab/leftover"
	"tare/internal/plan"
	"tare/internal/run/collect"
	"tare/internal/unit"
)

// fleetCollectCommand is `tare fleet collect`.
type fleetCollectCommand struct {
	*app
	plan, by, hosts string
	parts           int
	quiet           bool
	store           storeFlag
}

func (cmd *fleetCollectCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "collect DIR BUNDLE...", Short: "Check the bundles of many hosts and bring them together in one folder",
		Long: `Check the bundles of many hosts and bring those that count together in the folder DIR: folders and packed
files, or folders full of them. Call it again to add more; what is in DIR already is not counted twice.

A bundle counts if it is whole, of the same plan and made by the same build of tare as most others, and the only one of
its machine. "tare fleet shard" writes down which machine that is; other runs are told apart by processor, memory, name
and product. A bundle that does not count is named with the reason, and keeps no other from being counted.

--by name tells hosts by their names only: for nodes of a scheduler that share a machine, and for machines that were
cloned with their identity.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return cmd.collect(c.Context(), args[0], args[1:]) },
	}
	fl := c.Flags()
	fl.StringVar(&cmd.plan, "plan", "", "the plan that the bundles must be of [that of most of them]")
	fl.StringVar(&cmd.by, "by", "", "what tells hosts apart: machine or name [machine]")
	fl.StringVar(&cmd.hosts, "hosts", "", "the hosts that should be there: a,b,c, or a file with one on each line")
	fl.IntVar(&cmd.parts, "expect", 0, "how many hosts should be there [as many as there are parts]")
	cmd.store.register(fl)
	fl.BoolVarP(&cmd.quiet, "quiet", "q", false, "say only how many count")
	return c
}

func (cmd *fleetCollectCommand) collect(ctx context.Context, dir string, bundles []string) error {
	by, err := tellApart(cmd.by)
	if err != nil {
		return err
	}
	rules := fleet.Rules{By: by, Parts: cmd.parts}
	if cmd.parts < 0 || cmd.parts > mostParts {
		return usagef("--expect: a fleet has up to %d hosts", mostParts)
	}
	if rules.Expected, err = hostList(cmd.hosts); err != nil {
		return err
	}
	if cmd.plan != "" {
		src, err := readPlan(cmd.plan)
		if err != nil {
			return err
		}
		if _, rules.Plan, err = cmd.asked(ctx, cmd.plan, src, &plan.Flags{}); err != nil {
			return err
		}
	}
	if err := cmd.store.check(ctx, cmd.app); err != nil {
		return err
	}
	o, done, err := cmd.fleetOptions(rules)
	if err != nil {
		return err
	}
	defer done()
	a, err := collect.Add(ctx, dir, bundles, o)
	if err != nil {
		return err
	}
	if !cmd.quiet {
		for i, r := range a.Refused {
			if i == 50 {
				fmt.Fprintf(cmd.err, "refused    %d more: tare fleet report %s --details\n", len(a.Refused)-i,
					quoteArg(dir))
				break
			}
			fmt.Fprintf(cmd.err, "refused    %s: %s\n", printableLine(r.Bundle), printableLine(r.Text))
			if r.Remedy != "" {
				fmt.Fprintf(cmd.err, "           %s\n", printableLine(r.Remedy))
			}
		}
		for i, w := range a.Warnings {
			if i == 50 {
				fmt.Fprintf(cmd.err, "warning    %d more: tare fleet report %s --details\n", len(a.Warnings)-i,
					quoteArg(dir))
				break
			}
			fmt.Fprintf(cmd.err, "warning    %s\n", printableLine(w.Text))
		}
		for i, m := range a.Missing {
			if i == 20 {
				fmt.Fprintf(cmd.err, "missing    %d more\n", len(a.Missing)-i)
				break
			}
			fmt.Fprintf(cmd.err, "missing    %s\n", printableLine(m))
		}
	}
	fmt.Fprintf(cmd.out, "%s: %d of %s, %d refused; see: tare fleet report %s\n", printableLine(dir), len(a.Hosts),
		unit.Plural(a.Expected, "host"), len(a.Refused), quoteArg(dir))
	if len(a.Hosts) == 0 {
		fmt.Fprintln(cmd.err, "tare: no bundle counts")
		return codeError{exitFailed}
	}
	return cmd.store.recordFleet(ctx, cmd.app, cmd.quiet, dir)
}

// fleetOptions are the options with which a fleet's folder is read; done removes the files that were made for that.
func (a *app) fleetOptions(rules fleet.Rules) (o collect.Options, done func(), err error) {
	dir, release, err := leftover.New(a.scratchBase(), newRunID())
	if err != nil {
		return o, nil, fmt.Errorf("make a private directory: %w", err)
	}
	a.holding("the folder stays as it was")
	return collect.Options{Kinds: a.kind, Scratch: filepath.Clean(dir), Rules: rules}, func() { release() }, nil
}
