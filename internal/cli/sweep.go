package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/judge/verdict"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// sweepCommand is `tare sweep`: which one setting moves a figure.
type sweepCommand struct {
	*app
	run      *runFlags
	only     []string
	pairs    bool
	variants []env.Variant
	of       string // the environment of a mount; "" where an environment is swept
	base     env.Spec
}

func (cmd *sweepCommand) command() *cobra.Command {
	f := &runFlags{}
	cmd.run = f
	c := &cobra.Command{
		Use:   "sweep -e ENVIRONMENT [-m MOUNT] -w WORKLOAD",
		Short: "Find out which one setting of an environment or a mount moves a figure",
		Long: `Make targets that differ from one in a single setting each, weigh them against it in turn, and rank the settings by
what they change, with one error rate for all of them.

Of more than five candidates, those that differ most after five blocks get the rest of the time; the error rate still
holds for all of them. With --blocks of ten or fewer all get all blocks.

With -m the settings of that mount are tried, in one environment, else those of the environment. Settings that cannot
move the workload are left out: a network card for work on files, for instance. "tare list environments NAME" and "tare
list mounts NAME" show which values are tried; --try has others in their place.

    tare sweep -e 'vm=qemu?cache=writethrough' -w fs.randwrite:fsync=each,size=16MiB
    tare sweep -e vm=qemu -m 'vm:share=9p?msize=4096' -w fs.seqread:size=16MiB
    tare sweep -e docker -w syscall:op=forkexec --try security=seccomp=unconfined --try runtime=crun
    tare sweep -e vm=qemu -w fs.randread --pairs            then the best ones together, too`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.ui.open(cmd.err, f.dryRun); err != nil {
				return err
			}
			defer f.ui.close(c.Context(), cmd.err)
			f.plan.Budget = &f.budget
			return cmd.sweep(c.Context())
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.plan.Environments, "env", "e", nil, "the environment: NAME[=DRIVER[:ARG][?key=value&...]]")
	fl.StringArrayVarP(&f.plan.Mounts, "mount", "m", nil,
		"a folder in it, whose settings are tried: ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]]")
	fl.StringArrayVarP(&f.plan.Workloads, "workload", "w", nil, "a workload: KIND[:key=value,...] (repeatable)")
	fl.StringArrayVar(&cmd.only, "try", nil, "a `SETTING=VALUE` to try, in the place of all others (repeatable)")
	fl.BoolVar(&cmd.pairs, "pairs", false, "then weigh the settings that help most together, two at a time")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-DATE-TIME]")
	fl.DurationVar(&f.budget, "budget", 10*time.Minute, "stop after this time and rank by what is known")
	fl.IntVar(&f.plan.Blocks, "blocks", 0, "at most this many blocks")
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "seed of order and data [random, recorded]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print cells, blocks, disk space and expected time, and start nothing")
	f.energyFlag(fl)
	f.ui.register(fl)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.ascii, "ascii", false, "draw the report with ASCII characters only")
	fl.BoolVar(&f.details, "details", false, "show every metric, not only the primary ones")
	fl.BoolVar(&f.why, "why", false, whyDoc)
	return c
}

// sweep derives the targets, weighs them and ranks the settings.
func (cmd *sweepCommand) sweep(ctx context.Context) error {
	f := cmd.run
	if len(f.plan.Environments) != 1 || len(f.plan.Mounts) > 1 || len(f.plan.Workloads) == 0 {
		return usagef("name one environment (-e), at most one mount in it (-m), and the work that matters (-w)")
	}
	if err := cmd.derive(ctx); err != nil {
		return err
	}
	p, err := plan.FromFlags(nil, cmd.flags(cmd.variants), cmd.tables())
	if err != nil {
		return err
	}
	cmd.screen(p)
	ran := (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
	if f.dryRun || ran != nil {
		return ran
	}
	best, err := cmd.rank(f.out, cmd.variants)
	if err != nil || !cmd.pairs || len(best) < 2 {
		return err
	}
	return cmd.pair(ctx, best)
}

// goOn is the number of settings of each workload that get the rest of the time after the first blocks.
const goOn = 4

// screen has the plan screen its candidates where that saves something. Few blocks leave nothing to save.
func (cmd *sweepCommand) screen(p *plan.Plan) {
	if len(p.Targets) <= goOn+2 || p.MaxBlocks() <= 2*plan.ScreenBlocks {
		return
	}
	p.Screen = goOn
	if cmd.run.dryRun || !cmd.run.quiet {
		fmt.Fprintf(cmd.err, "stages     %d blocks of all %d settings, then of the %d that move a workload most\n",
			plan.ScreenBlocks, len(cmd.variants), goOn)
	}
}

// derive finds the specs that differ in one setting.
func (cmd *sweepCommand) derive(ctx context.Context) error {
	f := cmd.run
	base, err := env.ParseSpec(f.plan.Environments[0])
	if err != nil {
		return usageError{err}
	}
	if err := cmd.drivers.Check(base); err != nil {
		return usageError{err}
	}
	info, _ := cmd.drivers.Lookup(base.Driver)
	settings, in := info.Settings, base
	var mount *env.Spec
	if len(f.plan.Mounts) == 1 {
		of, m, err := env.ParseMount(f.plan.Mounts[0])
		if err != nil {
			return usageError{err}
		}
		cmd.of, base, mount = of, m, &m
	}
	cmd.base = base
	// Faults of the target or the work are told once, and not of each setting.
	if _, err := plan.FromFlags(nil, cmd.flags(nil), cmd.tables()); err != nil {
		return err
	}
	if mount != nil {
		kind, ok := info.MountKind(mount.Driver)
		if cmd.of != in.Name || !ok {
			return usagef("-m %s: there is no such mount in %s; tare list mounts shows the kinds", f.plan.Mounts[0],
				in.Name)
		}
		settings = kind.Settings
	}
	all, err := cmd.candidates(base, settings)
	if err != nil {
		return err
	}
	available := cmd.available(ctx)
	ok, why := available(in, nil)
	if ok && mount != nil {
		ok, why = available(in, mount)
	}
	if !ok {
		return usagef("%s cannot be opened here: %s", cmd.target(base.Name), printableLine(why))
	}
	var without reasons
	for _, v := range all {
		err := error(nil)
		ok, why := true, ""
		if mount == nil {
			if err = cmd.drivers.Check(v.Spec); err == nil {
				ok, why = available(v.Spec, nil)
			}
		} else if err = cmd.drivers.CheckMountIn(cmd.of+":"+v.Name, in, v.Spec); err == nil {
			ok, why = available(in, &v.Spec)
		}
		if err != nil {
			ok, why = false, err.Error()
		}
		if !ok {
			for _, of := range []string{"mount " + cmd.of + ":", "environment "} { // a name that nobody gave
				why = strings.TrimPrefix(why, of+v.Name+": ")
			}
			without.add(v.Setting+"="+v.Value, why)
			continue
		}
		cmd.variants = append(cmd.variants, v)
	}
	without.tell(cmd.err)
	switch {
	case len(cmd.variants) > 0:
		return nil
	case len(cmd.only) > 0:
		return usagef("nothing of what --try names is left to try in %s", cmd.target(base.Name))
	}
	return usagef("no setting of %s is left to try for this work; name some with --try SETTING=VALUE",
		cmd.target(base.Name))
}

// reasons are the reasons why settings are not tried, in the order in which they came up.
type reasons struct {
	why  []string
	what map[string][]string // by reason
}

func (r *reasons) add(what, why string) {
	if r.what == nil {
		r.what = map[string][]string{}
	}
	if r.what[why] == nil {
		r.why = append(r.why, why)
	}
	r.what[why] = append(r.what[why], what)
}

// tell says each reason once.
func (r *reasons) tell(w io.Writer) {
	for _, why := range r.why {
		fmt.Fprintf(w, "without    %s: %s\n", printableLine(strings.Join(r.what[why], ", ")), printableLine(why))
	}
}

// candidates are the settings that are worth trying, or those that --try names.
func (cmd *sweepCommand) candidates(base env.Spec, settings []env.Setting) ([]env.Variant, error) {
	if len(cmd.only) == 0 {
		return env.Vary(base, settings, cmd.moved()...), nil
	}
	var chosen []env.Setting
	for i, text := range cmd.only {
		d, value, err := trySetting(text, base, settings)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(cmd.only[:i], text):
			return nil, usagef("--try %s is given twice", text)
		case value == d.In(base):
			fmt.Fprintf(cmd.err, "without    %s=%s: %s has it already\n", d.Name, value, base.Name)
			continue
		}
		chosen = append(chosen, env.Setting{Name: d.Name, Default: d.Default, Try: []string{value}})
	}
	return env.Vary(base, chosen), nil
}

// trySetting reads what --try names.
func trySetting(text string, base env.Spec, settings []env.Setting) (*env.Setting, string, error) {
	name, value, ok := strings.Cut(text, "=")
	i := slices.IndexFunc(settings, func(s env.Setting) bool { return s.Name == name })
	if i < 0 {
		names := []string{}
		for _, s := range settings {
			names = append(names, s.Name)
		}
		return nil, "", usagef("--try %s: expected SETTING=VALUE with a setting of %s%s", text, base.Driver,
			suggest.MeantOrAll(name, names, "there are:"))
	}
	d := &settings[i]
	if !ok || value == "" {
		such := "VALUE"
		if j := slices.IndexFunc(d.Try, func(v string) bool { return v != d.In(base) }); j >= 0 {
			such = d.Try[j]
		}
		return nil, "", usagef("--try %s: give it a value: --try %s=%s", text, name, such)
	}
	return d, value, nil
}

// moved says which settings can move the workloads.
func (cmd *sweepCommand) moved() (moved []string) {
	for _, w := range cmd.run.plan.Workloads {
		name, _, _ := strings.Cut(w, ":")
		k, ok := cmd.kind(name)
		switch {
		case !ok: // said elsewhere
		case k.Needs.Peer:
			moved = append(moved, env.MovesNetwork)
		case k.Needs.FS:
			moved = append(moved, env.MovesFiles)
		}
	}
	return moved
}

// flags are those of a run that weighs the variants against the base.
func (cmd *sweepCommand) flags(variants []env.Variant) plan.Flags {
	f := cmd.run.plan
	f.Baseline = cmd.target(cmd.base.Name)
	for i := range variants {
		text := variants[i].Name + "=" + variants[i].String()
		if cmd.of == "" {
			f.Environments = append(slices.Clip(f.Environments), text)
		} else {
			f.Mounts = append(slices.Clip(f.Mounts), cmd.of+":"+text)
		}
	}
	return f
}

// target is the name of a variant's target.
func (cmd *sweepCommand) target(name string) string {
	if cmd.of != "" {
		return cmd.of + ":" + name
	}
	return name
}

// rank prints what each setting moves, the most helpful first, and returns the variants that were shown to cost less in
// the first workload, the best first.
func (cmd *sweepCommand) rank(dir string, variants []env.Variant) (best []env.Variant, err error) {
	r, err := cmd.load(dir)
	if err != nil {
		return nil, err
	}
	for i := range r.Plan.Workloads {
		w := r.Plan.Workloads[i].Label
		cells := cmd.cells(r.result, w, variants)
		fmt.Fprintf(cmd.out, "\nWhat moves %s in %s\n", printableLine(w), cmd.target(cmd.base.Name))
		cmd.table(cmd.out, cells)
		shown := slices.DeleteFunc(slices.Clone(cells), func(c swept) bool {
			return c.cell.Verdict != record.Different || c.cell.Ratio.Center >= 1
		})
		if len(shown) == 0 {
			fmt.Fprintf(cmd.out, "None of these settings was shown to make it cheaper.\n")
			continue
		}
		flag := "-e"
		if cmd.of != "" {
			flag = "-m"
		}
		v := shown[0].variant
		name := cmd.target(cmd.base.Name)
		v.Name = cmd.base.Name
		fmt.Fprintf(cmd.out, "Use: %s %s\n", flag, quoteArg(name+"="+v.String()))
		if i == 0 {
			for _, c := range shown {
				best = append(best, c.variant)
			}
		}
	}
	return best, nil
}

// swept is a variant with its cell.
type swept struct {
	variant env.Variant
	cell    *verdict.Cell
}

// cells are the variants' primary cells of a workload: those shown to differ first, by their ratios, then the others.
func (cmd *sweepCommand) cells(r *verdict.Result, workload string, variants []env.Variant) (all []swept) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload != workload || !c.Primary {
			continue
		}
		for _, v := range variants {
			if c.Target == cmd.target(v.Name) {
				all = append(all, swept{v, c})
			}
		}
	}
	rank := func(s swept) int {
		switch s.cell.Verdict {
		case record.Different:
			return 0
		case record.Withheld, record.Failed:
			return 3
		}
		if s.cell.UnlikeFlushes() {
			return 3
		}
		if s.cell.Screened {
			return 2
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b swept) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.cell.Ratio.Center, b.cell.Ratio.Center))
	})
	return all
}

// table prints them.
func (cmd *sweepCommand) table(w io.Writer, cells []swept) {
	width := 0
	for _, c := range cells {
		width = max(width, len(c.variant.Setting)+1+len(c.variant.Value))
	}
	for _, c := range cells {
		what := c.variant.Setting + "=" + c.variant.Value
		fmt.Fprintf(w, "  %-*s  %s\n", width, printableLine(what), effect(c.cell))
	}
}

// mostReason bounds the reason of a failure; the report has all of it.
const mostReason = 80

// effect is a setting's effect in a cell.
func effect(c *verdict.Cell) string {
	figure := fmt.Sprintf("%s [%s, %s]", unit.Number(c.Ratio.Center), unit.Number(c.Low), unit.Number(c.High))
	switch c.Verdict {
	case record.Different:
		if c.Ratio.Center < 1 {
			return figure + "  costs less"
		}
		return figure + "  costs more"
	case record.Equivalent:
		return figure + "  makes no difference that matters"
	case record.Failed:
		if c.Failure != nil {
			return "failed: " + unit.Cut(printableLine(c.Failure.Message), mostReason)
		}
		return "failed"
	case record.Withheld:
		return "not ranked: the report says why"
	}
	if c.UnlikeFlushes() {
		return figure + "  not ranked: it flushes differently"
	}
	if c.Screened {
		return fmt.Sprintf("%s  of %s only: others move it more", unit.Number(c.Ratio.Center),
			unit.Plural(c.Blocks, "block"))
	}
	return figure + "  not shown to differ"
}

// mostPaired bounds the settings that are weighed together.
const mostPaired = 3

// pair weighs the best settings two at a time, beside each by itself.
func (cmd *sweepCommand) pair(ctx context.Context, best []env.Variant) error {
	best = slices.DeleteFunc(slices.Clone(best), func(v env.Variant) bool { // one value of each setting
		return slices.IndexFunc(best, func(o env.Variant) bool { return o.Setting == v.Setting }) !=
			slices.IndexFunc(best, func(o env.Variant) bool { return o.Name == v.Name })
	})
	best = best[:min(len(best), mostPaired)]
	variants := slices.Clone(best)
	for i, a := range best {
		for _, b := range best[i+1:] {
			both := env.Variant{Spec: a.With(map[string]string{b.Setting: b.Value}),
				Setting: a.Setting + "=" + a.Value + " " + b.Setting, Value: b.Value}
			both.Name = fmt.Sprintf("%.30s-both%d", cmd.base.Name, len(variants)-len(best)+1)
			variants = append(variants, both)
		}
	}
	if len(variants) == len(best) {
		return nil
	}
	cmd.run.out += "-pairs"
	p, err := plan.FromFlags(nil, cmd.flags(variants), cmd.tables())
	if err != nil {
		return err
	}
	if err := (&runCommand{app: cmd.app, flags: cmd.run}).measure(ctx, p); err != nil {
		return err
	}
	_, err = cmd.rank(cmd.run.out, variants)
	return err
}
