package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	drivers "tare/internal/lab/driver/all"
	"tare/internal/lab/env"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/show/report"
)

// abTrial is the least length of a trial of `tare ab`: with two variants and the null control the first look comes
// after some seconds.
const abTrial = 150 * time.Millisecond

// abLabel is the label of the one workload, as in --fail-if 'slower(new, command, 5%)'.
const abLabel = "command"

// abCommand is `tare ab`: a plan of one command whose variants are targets, and a table that is made for them.
type abCommand struct {
	*app
	run   runFlags
	flags abFlags
}

// abFlags has the flags about the variants.
type abFlags struct {
	names                      []string
	environment, dir           string
	shell                      string
	noShell                    bool
	setup                      []string
	prepare, conclude, cleanup []string
	input                      string
	ignore, check              bool
	timeout                    time.Duration
	lists, scans, vars         []string // NAME=...
	images                     []string
	git                        bool
	repo, build                string
	revisions                  []string // names of the revisions
	export                     string   // of hyperfine
	figures                    string   // FORMAT[:FILE] of a suite of benchmarks
	metrics                    []string
	count                      int // of figures that are taken from what the commands print
}

func (cmd *abCommand) command() *cobra.Command {
	f, a := &cmd.run, &cmd.flags
	c := &cobra.Command{
		Use:   "ab [flags] COMMAND COMMAND...",
		Short: "Compare commands, revisions, images or settings with each other, in turn, with a verdict",
		Long: `Run commands in turn, each many times, and show what each takes compared with the first, with an interval
and a verdict. The first stands against itself, too, so that it is known how well this machine repeats itself.

    tare ab './old' './new'                                      two commands; quote each
    tare ab -L threads=1,2,4 'sort --parallel={threads} big'     one command with other values
    tare ab --env-var GOGC=100,off './server --selftest'         a variable of the environment
    tare ab --git main HEAD --build make -- ./bin/x bench        revisions of this repository, each built once
    tare ab --image app:1 --image app:2 -- app bench             the same command in containers of other images
    tare ab --figures go './old -test.bench=.' './new -test.bench=.'  suites of benchmarks, case by case
    tare ab -e lab=ssh:user@lab './old' './new'                  elsewhere; with --git what was built here goes there
    tare ab --import hyperfine.json                              what a hyperfine export says, and what not

There is no shell unless --shell says so: the line is split at blanks, and quotes and backslashes work. After --, the
command may also be given as words. Output is thrown away, or compared with --check-output.

A clear difference is reported after ten blocks, some seconds for short commands. An unclear one goes on for up to
thirty blocks; then the report says how many would be enough and how long they take. The result is a bundle like that of
"tare run": tare report, verify, compare and rerun read it. In --fail-if, the workload is called command: --fail-if
'slower(new, command, 5%)'.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := refuseHyperfine(c.Flags()); err != nil {
				return err
			}
			if a.export != "" {
				return cmd.imported(c, args)
			}
			if f.quick && f.full {
				return usagef("--quick and --full exclude each other")
			}
			f.complete(c)
			return cmd.compare(c.Context(), c.ArgsLenAtDash(), args)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&a.environment, "env", "e", env.Host,
		"where the commands run: NAME[=DRIVER[:ARG][?key=value&...]]; each variant has one of its own")
	fl.StringArrayVarP(&a.names, "command-name", "n", nil, "name of a variant, or of a command (repeatable)")
	fl.StringVarP(&a.shell, "shell", "S", "none",
		"default (sh), or a shell with its options; its start is subtracted")
	fl.BoolVarP(&a.noShell, "no-shell", "N", false, "no shell, as without it")
	fl.StringArrayVarP(&a.setup, "setup", "s", nil,
		"command once before all runs of a variant, not timed (once for all, or once for each command)")
	fl.StringArrayVarP(&a.prepare, "prepare", "p", nil,
		"command before each run, not timed (once for all, or once for each command)")
	fl.StringArrayVarP(&a.conclude, "conclude", "C", nil, "command after each run, not timed")
	fl.StringArrayVarP(&a.cleanup, "cleanup", "c", nil, "command after the runs of each trial, not timed")
	fl.StringVar(&a.input, "input", "", "file to use as standard input")
	fl.StringVar(&a.dir, "dir", "", "working directory [this one; elsewhere than on this host, an empty one]")
	fl.DurationVar(&a.timeout, "timeout", 10*time.Minute, "a run that takes longer is stopped and fails")
	fl.BoolVarP(&a.ignore, "ignore-failure", "i", false, "any exit code is a success")
	fl.BoolVar(&a.check, "check-output", false,
		"refuse a verdict if the outputs differ, and show the first difference")
	fl.StringArrayVarP(&a.lists, "parameter-list", "L", nil,
		"values for {NAME} in the commands: NAME=a,b,c (repeatable)")
	fl.StringArrayVarP(&a.scans, "parameter-scan", "P", nil, "numbers for {NAME}: NAME=MIN..MAX or NAME=MIN..MAX..STEP")
	fl.StringArrayVar(&a.vars, "env-var", nil, "values of a variable of the environment: NAME=a,b (repeatable)")
	fl.BoolVar(&a.git, "git", false,
		"what stands before -- are git revisions, each checked out in a worktree of its own")
	fl.StringVar(&a.repo, "repo", ".", "with --git: a folder of the repository")
	fl.StringVar(&a.build, "build", "", "with --git: command of a shell that builds a revision, once, not timed")
	fl.StringArrayVar(&a.revisions, "revision-name", nil,
		"with --git: name of a revision in variants, such as base (once for each)")
	fl.StringArrayVar(&a.images, "image", nil, "an image for a container of Docker's, or of Podman's with -e podman "+
		"(repeatable)")
	fl.StringVar(&a.figures, "figures", "", "the command is a suite of benchmarks: compare the figure that it prints "+
		"of each case, FORMAT[:FILE] (go, criterion, jmh, pytest, google, or an expression with the groups name, "+
		"value and perhaps unit); FILE has the output of one run")
	fl.StringArrayVar(&a.metrics, "metric", nil, "compare a figure that the commands print: "+
		"NAME:UNIT:lower|higher:re:REGEX or NAME:UNIT:lower|higher:json:/pointer (repeatable)")
	fl.StringVar(&a.export, "import", "", "show what a file of hyperfine --export-json says, and run nothing")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-DATE-TIME]")
	fl.BoolVar(&f.quick, "quick", false, "trials of 0.15 s, at most 30 blocks (default)")
	fl.BoolVar(&f.full, "full", false, "trials of 1 s, at most 60 blocks")
	fl.DurationVar(&f.budget, "budget", 0, "stop after this time and report the figures so far: 30s")
	fl.IntVar(&f.plan.Blocks, "blocks", 0, "at most this many blocks")
	f.energyFlag(fl)
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "seed of the order [random, recorded]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show variants, blocks and expected time, and start nothing")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.strict, "strict", false,
		"exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be decided")
	f.failIf.flag(c)
	fl.BoolVar(&f.ascii, "ascii", false, "ASCII characters only")
	fl.BoolVar(&f.details, "details", false, "show every figure with its interval, and the facts of the machine")
	fl.BoolVar(&f.why, "why", false, whyDoc)
	addHyperfine(fl)
	return c
}

// compare carries out what the command line asks for.
func (cmd *abCommand) compare(ctx context.Context, dash int, args []string) error {
	place, err := cmd.flags.place()
	if err != nil {
		return err
	}
	revisions, lines, err := cmd.flags.split(dash, args)
	if err != nil {
		return err
	}
	// Before anything is checked out: a mistake in the rest is told at once.
	all, err := cmd.flags.variants(lines, revisions, place)
	if err != nil {
		return err
	}
	if !cmd.flags.git {
		return cmd.measure(ctx, all)
	}
	release, err := cmd.checkOut(ctx, revisions, all)
	if err == nil {
		err = cmd.measure(ctx, all)
	}
	if failed := release(); err == nil {
		err = failed
	}
	return err
}

// measure makes a plan of the variants and carries it out as any other.
func (cmd *abCommand) measure(ctx context.Context, all []variant) error {
	if err := cmd.suite(ctx, all); err != nil {
		return err
	}
	p, err := cmd.plan(all)
	if err != nil {
		return err
	}
	f := &cmd.run
	f.render = report.Variants
	if !f.quiet {
		for i, v := range all {
			title := ""
			if i == 0 {
				title = "variants"
			}
			fmt.Fprintf(cmd.err, "%-10s %s: %s\n", title, v.spec.Name, printableLine(v.about))
		}
	}
	return (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
}

// plan makes the plan: one workload, and a target for each variant.
func (cmd *abCommand) plan(all []variant) (*plan.Plan, error) {
	k, ok := cmd.kind("command")
	if !ok {
		return nil, errors.New("this tare has no workload command")
	}
	params, err := k.Resolve(all[0].params)
	if err == nil {
		_, err = k.New(params)
	}
	if err != nil {
		return nil, usageError{err}
	}
	w := plan.Workload{Label: abLabel, Kind: k.Name, Params: params, Vary: map[string]workload.Params{}}
	f := cmd.run.plan
	for _, v := range all {
		own, err := k.Resolve(v.params)
		if err == nil {
			_, err = k.New(own)
		}
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", v.spec.Name, err)}
		}
		vary := workload.Params{}
		for _, p := range k.Params {
			if own[p.Name] != params[p.Name] {
				vary[p.Name] = own[p.Name]
			}
		}
		if len(vary) > 0 {
			w.Vary[v.spec.Name] = vary
		}
		f.Environments = append(f.Environments, v.spec.Name+"="+v.spec.String())
	}
	f.Baseline = all[0].spec.Name
	// Variants differ by what they do and not by where they run: opening that place again would say little more of
	// them, and take away the looks by which a clear answer comes early.
	base := &plan.Plan{Alpha: plan.DefaultAlpha, Mode: f.Mode, Sessions: 1, Workloads: []plan.Workload{w}}
	if f.Mode != plan.Full {
		base.Trial = abTrial
	}
	if cmd.flags.count > 1 {
		base.Looks = cmd.flags.looks(f.Blocks, len(all), base.Alpha)
		f.Blocks = 0
	}
	return plan.FromFlags(base, f, cmd.tables())
}

// place is the environment in which the commands run.
func (a *abFlags) place() (env.Spec, error) {
	s, err := env.ParseSpec(a.environment)
	if err != nil {
		return s, usageError{fmt.Errorf("-e: %w", err)}
	}
	switch {
	case len(a.images) == 0:
	case a.git:
		return s, usagef("--git and --image exclude each other")
	case a.environment == env.Host:
		s = env.Spec{Driver: firstEngine()}
	case !takesImage(s.Driver) || s.Arg != "":
		return s, usagef("--image needs containers: leave -e out, or give -e docker or -e podman with settings and " +
			"without an image")
	}
	if !a.git && a.build != "" {
		return s, usagef("--build needs --git")
	}
	return s, nil
}

// onHost tells whether commands run on this machine itself.
func onHost(s env.Spec) bool { return drivers.Known().Nature(s.Driver).Host }

// takesImage tells whether a driver makes containers from images.
func takesImage(driver string) bool { return drivers.Known().Nature(driver).Arg == env.NamesImage }

// firstEngine is the driver that makes containers where the user names none.
func firstEngine() string {
	names := drivers.Known().Names()
	return names[slices.IndexFunc(names, takesImage)]
}

// split tells the revisions from the commands. Where one command is meant, it may stand behind -- as words.
func (a *abFlags) split(dash int, args []string) (revisions, lines []string, err error) {
	one := a.git || len(a.images) > 0 || len(a.lists)+len(a.scans)+len(a.vars) > 0
	lines = args
	switch {
	case a.git && dash < 0:
		return nil, nil, usagef("--git takes the revisions before -- and the command behind it: tare ab --git main " +
			"HEAD -- ./bin/x bench")
	case a.git:
		revisions, lines = args[:dash], args[dash:]
		if len(revisions) < 2 {
			return nil, nil, usagef("--git takes two revisions or more before --, not %d", len(revisions))
		}
	case dash > 0:
		return nil, nil, usagef("give all commands before --, or one as words behind it")
	}
	if n := len(a.revisions); n > 0 && n != len(revisions) {
		return nil, nil, usagef("--revision-name is given %d times, for %d revisions", n, len(revisions))
	}
	if len(lines) > 1 && one && dash >= 0 {
		lines = []string{quoteWords(lines)}
	}
	if len(lines) == 0 {
		return nil, nil, usagef("give commands to compare, each in quotes: tare ab './old' './new'\nsee %q",
			"tare ab --help")
	}
	return revisions, lines, nil
}

// quoteWords makes a line that is split into exactly these words.
func quoteWords(words []string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, quoteArg(w))
	}
	return strings.Join(quoted, " ")
}
