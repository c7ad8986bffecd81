package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/plan"
	"tare/internal/run/collect"
	"tare/internal/show/report"
	"tare/internal/suggest"
	"tare/internal/sys/machine"
	"tare/internal/version"
)

// qualifyCommand is `tare qualify`.
type qualifyCommand struct {
	*app
	flags                     runFlags
	bundle, by, host, lock    string
	format, tolerance, margin string
	blocks                    int
	options                   fleet.Options
}

func (cmd *qualifyCommand) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "qualify FLEET", Short: "Tell whether this machine is as good as others of its kind",
		Long: `Tell whether this machine, a fresh instance or a node back from repair, is as good as others of its kind:
the hosts of FLEET, a folder of "tare fleet collect" or of bundles. It runs the fleet's own plan here in short form: one
session, the blocks of the plan's first look, five minutes at most. --bundle judges a result that is there already, and
measures nothing.

    pass         in every figure the machine is shown to cost less than the tolerance more than its kind
    fail         in some figure it costs more than hosts of the kind differ by, and by more than the margin
    cannot tell  neither; it says how many hosts or blocks would be enough

Of machines that are of the kind at most 5 % fail, over all figures; of machines that cost more than the tolerance in
any figure at most 5 % pass. Hosts of the history that lie apart are left out of the kind, and so is what this machine
was before. The facts that it does not share with its kind are named, the most telling first.

The exit code is 0 for pass, 3 for fail and 4 for cannot tell.

    tare qualify nodes
    tare qualify nodes --tolerance 5% --blocks 30 --budget 20m
    tare qualify nodes --bundle tare-qualify-20261126-031500 --format json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.qualify(c.Context(), args[0]) },
	}
	fl := c.Flags()
	fl.StringVar(&cmd.bundle, "bundle", "", "judge this bundle, and measure nothing")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-qualify-DATE-TIME]")
	fl.DurationVar(&f.budget, "budget", 5*time.Minute, "stop measuring after this time; 0 for no end")
	fl.IntVar(&cmd.blocks, "blocks", 0, "so many blocks [those of the plan's first look]")
	fl.StringVar(&cmd.tolerance, "tolerance", "10%", "a machine that costs as much more than its kind must not pass")
	fl.StringVar(&cmd.margin, "margin", "", "extra cost up to which a machine does not fail [the plan's]")
	fl.StringVar(&cmd.by, "by", "",
		"of a folder of bundles: what tells hosts apart: machine or name [machine]")
	fl.StringVar(&cmd.host, "host", "", "what this machine is called [$SLURMD_NODENAME, else the host's name]")
	fl.StringVar(&cmd.lock, "lock", "", "file whose lock keeps parts on one machine apart; none: no lock "+
		"[tare-fleet.lock where the system keeps locks]")
	fl.StringVar(&cmd.format, "format", "text", oneOf(qualifyFormats()))
	fl.BoolVar(&cmd.options.Details, "details", false, "name what differs in a machine that passes, too")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print cells, blocks, disk space and expected time, and start nothing")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the result")
	return c
}

func qualifyFormats() []string {
	var names []string
	for _, f := range fleet.QualificationFormats() {
		names = append(names, f.Name)
	}
	return names
}

// shareOf reads a share that a flag names: 10% or 0.1. Without a sign, more than 1 was hardly meant.
func shareOf(flag, text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 10) {
		return 0, usagef("--%s is a share from 0%% to 1000%%, such as 10%%, not %q", flag, text)
	}
	if !percent && v > 1 {
		return 0, usagef("--%s %s: %s%% or %g%%? Write it with the sign", flag, number, number, 100*v)
	}
	return v, nil
}

// demand reads what the machine is held to.
func (cmd *qualifyCommand) demand() (d fleet.Demand, err error) {
	d.Margin = -1
	if d.Tolerance, err = shareOf("tolerance", cmd.tolerance); err != nil {
		return d, err
	}
	if d.Tolerance == 0 {
		return d, usagef("--tolerance must be more than nothing: no machine is shown to cost not a bit more")
	}
	if cmd.margin != "" {
		if d.Margin, err = shareOf("margin", cmd.margin); err != nil {
			return d, err
		}
	}
	return d, nil
}

func (cmd *qualifyCommand) qualify(ctx context.Context, dir string) error {
	i := slices.Index(qualifyFormats(), cmd.format)
	if i < 0 {
		return usagef("--format is %s, not %q%s", oneOf(qualifyFormats()), cmd.format,
			suggest.DidYouMean(cmd.format, qualifyFormats()))
	}
	d, err := cmd.demand()
	if err != nil {
		return err
	}
	by, err := tellApart(cmd.by)
	if err != nil {
		return err
	}
	if cmd.bundle != "" && (cmd.flags.out != "" || cmd.flags.dryRun || cmd.blocks != 0) {
		return usagef("--bundle measures nothing: leave --out, --blocks and --dry-run out")
	}
	o, done, err := cmd.fleetOptions(fleet.Rules{By: by})
	if err != nil {
		return err
	}
	defer done()
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return usagef("%s is a file: name the folder of a fleet, made by tare fleet collect, or one of bundles", dir)
	}
	history, theirs, err := collect.History(ctx, dir, o)
	if err != nil {
		return err
	}
	name := cmd.bundle
	if name == "" {
		if history.Build != version.Build {
			return usagef("%s was measured by build %.20s, and this is build %.20s: builds may do other work under "+
				"the same name; use the tare of the fleet", dir, history.Build, version.Build)
		}
		if err := cmd.measure(ctx, theirs); err != nil || cmd.flags.dryRun {
			return err
		}
		name = cmd.flags.out
	}
	host, mine, err := collect.One(name, o)
	if err != nil {
		return err
	}
	if host.Build != history.Build {
		return usagef("%s was made by build %.20s, and the fleet by build %.20s", name, host.Build, history.Build)
	}
	if why := theirs.OtherWork(mine); why != "" {
		return usagef("%s cannot be held against this fleet: %s", name, why)
	}
	if cmd.host != "" {
		host.Name = cmd.host
	}
	q := fleet.Qualify(history, fleet.Candidate{Bundle: name, Host: host}, d)
	cmd.options.Wrap, cmd.options.Width = report.Wrap, cmd.width(100)
	switch err := fleet.QualificationFormats()[i].Render(cmd.out, q, cmd.options); {
	case err != nil:
		return err
	case q.Verdict == fleet.Fail:
		return codeError{exitCondition}
	case q.Verdict != fleet.Pass:
		return codeError{exitInconclusive}
	}
	return nil
}

// unfrozen returns the plan without the work that the fleet's host found for itself, as other hosts of the fleet ran
// it: on a machine that is ten times slower, trials would take ten times as long. Where a trial's units are not alike,
// the work stays.
func (cmd *qualifyCommand) unfrozen(p *plan.Plan) *plan.Plan {
	out := p.Afresh()
	for i := range out.Workloads {
		if k, ok := cmd.kind(out.Workloads[i].Kind); ok && k.SameWork {
			out.Workloads[i].Work = p.Workloads[i].Work
		}
	}
	return out
}

// measure runs the fleet's plan on this machine in short form.
func (cmd *qualifyCommand) measure(ctx context.Context, theirs *plan.Plan) error {
	f := &cmd.flags
	if f.budget < 0 || cmd.blocks < 0 {
		return usagef("--budget and --blocks must not be below 0")
	}
	if least := theirs.Looks[0]; cmd.blocks > 0 && cmd.blocks < least {
		return usagef("--blocks: the fleet's plan has %d blocks at least", least)
	}
	if theirs.Once() {
		return usagef("the worktrees that this fleet measured are removed: its work cannot be repeated")
	}
	gone := map[string]bool{}
	for _, x := range cmd.lacking(ctx, theirs) {
		if x.target == theirs.Baseline {
			return fmt.Errorf("the baseline %s of the fleet's plan is not available here: %s", x.target, x.why)
		}
		gone[x.target] = true
		fmt.Fprintf(cmd.err, "left out   %s: %s\n", printableLine(x.target), printableLine(x.why))
	}
	p := cmd.unfrozen(theirs.Without(gone, nil)).Short(cmd.blocks, f.budget)
	if len(p.Workloads) == 0 {
		return errors.New("nothing of the fleet's plan can be measured here")
	}
	shard := &fleetShardCommand{app: cmd.app, host: cmd.host, lock: cmd.lock}
	f.shard = &bundle.Shard{Plan: plan.Identity(p), Number: 1, Of: 1, Host: shard.hostName(), Facts: machine.Facts()}
	f.shard.Machine, _ = machine.Identity()
	if len(f.shard.Host) > collect.LongestHost {
		return usagef("--host: a host's name has at most %d characters", collect.LongestHost)
	}
	if f.out == "" && !f.dryRun {
		f.out = "tare-qualify-" + time.Now().Format("20060102-150405")
	}
	// The verdict on the machine is told once, at the end.
	f.render = func(io.Writer, *report.Model) error { return nil }
	if f.dryRun {
		return (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
	}
	began := time.Now()
	release, err := shard.alone(ctx, "tare qualify")
	if err != nil {
		return err
	}
	defer release()
	f.shard.WaitedS = time.Since(began).Round(time.Second).Seconds()
	err = (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
	if err == nil || errors.As(err, new(codeError)) {
		fmt.Fprintf(cmd.err, "result     %s\n", printableLine(f.out))
	}
	return err
}
