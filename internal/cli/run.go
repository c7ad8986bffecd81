package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/bundle"
	"tare/internal/judge/failif"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/lab/leftover"
	"tare/internal/plan"
	"tare/internal/plan/study"
	"tare/internal/record"
	"tare/internal/run/schedule"
	"tare/internal/run/supply"
	"tare/internal/show/report"
	"tare/internal/suggest"
	"tare/internal/sys/proc"
	"tare/internal/version"
)

// runFlags are the flags of `tare run`.
type runFlags struct {
	plan    plan.Flags
	study   string
	cards   bool
	idle    bool
	flushes bool
	out     string
	resume  string
	dryRun  bool
	quick   bool
	full    bool
	budget  time.Duration
	quiet   bool
	strict  bool
	ascii   bool
	details bool
	why     bool
	failIf  failIf
	more    costOptions
	ui      uiFlags
	render  report.Renderer // of the report at the end; nil: Terminal
	shard   *bundle.Shard   // which part of a fleet's measurement it is; nil for a run of its own
	store   storeFlag
}

// runCommand is `tare run`.
type runCommand struct {
	*app
	flags *runFlags
}

func (cmd *runCommand) command() *cobra.Command {
	f := &runFlags{}
	cmd.flags = f
	c := &cobra.Command{
		Use:   "run [PLAN]",
		Short: "Run the same work in each environment, in turn, and show the ratios",
		Long: `Run the same work in each environment, in turn, and show what it costs in one compared with another.

Without a plan and without -e, tare measures what this machine has: the host, the built-in container, Docker if its
daemon answers, and the micro-VM, also with a disk that ignores flushes. Environments and workloads given by flags are
added to those of the plan. If all are bare names from the plan, they select from it instead.

    tare run
    tare run --study folders
    tare run plan.yaml
    tare run -e host -e box=namespace -e 'vm=qemu?accel=tcg&cpus=2&memory=1GiB' -w cpu.prime:max=20000 -w fs.randread:size=64MiB,bs=4KiB -o out
    tare run -e host -e lab=ssh:user@lab -w command:command='make -j2'
    tare run -e host -e other=local --beside other:cpu.prime:threads=8 -w cpu.prime -w fs.randread
    tare run -e vm=qemu -m vm:9p -m 'vm:loose=9p?cache=loose' -m vm:virtiofs -w fs.smallfiles -w fs.seqread:bs=4KiB..1MiB
    tare run --resume out

"tare list" shows the environments, mounts and workloads, "tare list workloads KIND" the parameters of one.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if f.quick && f.full {
				return usagef("--quick and --full exclude each other")
			}
			if err := f.ui.open(cmd.err, f.dryRun); err != nil {
				return err
			}
			defer f.ui.close(c.Context(), cmd.err)
			if f.resume != "" {
				for _, name := range []string{"env", "mount", "beside", "copies", "floor", "energy", "study",
					"baseline", "workload", "set", "out", "blocks", "seed", "quick", "full", "sessions"} {
					if c.Flags().Changed(name) {
						return usagef("--resume uses the plan and the folder of its bundle; leave --%s out", name)
					}
				}
				if len(args) > 0 {
					return usagef("--resume uses the plan of its bundle; leave %s out", args[0])
				}
				f.complete(c)
				return cmd.resume(c.Context())
			}
			if f.study != "" && len(args) > 0 {
				return usagef("--study has its own plan; leave %s out", args[0])
			}
			f.complete(c)
			p, err := cmd.resolve(c.Context(), args)
			if err != nil {
				return err
			}
			if c.Flags().Changed("cards") {
				p.Cards = f.cards
			}
			return cmd.measure(c.Context(), p)
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.plan.Environments, "env", "e", nil,
		"an environment: NAME[=DRIVER[:ARG][?key=value&...]] (repeatable)")
	fl.StringVar(&f.study, "study", "", "a plan that comes with tare: "+strings.Join(study.Names(), ", "))
	fl.StringArrayVarP(&f.plan.Mounts, "mount", "m", nil,
		"a folder in an environment: ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]] (repeatable)")
	fl.StringArrayVar(&f.plan.Beside, "beside", nil,
		"a neighbour: work in another environment while trials are timed: [NAME=]ENVIRONMENT:KIND[:key=value,...] "+
			"(repeatable)")
	f.copiesFlags(fl, "copies")
	fl.BoolVar(&f.idle, "idle-cost", false,
		"measure what each environment costs the host while it does nothing (5 s each)")
	f.energyFlag(fl)
	fl.BoolVar(&f.flushes, "durability", false,
		"first test what a flush does in each virtual machine (a few seconds each); always done for work that flushes")
	fl.BoolVar(&f.cards, "cards", false,
		"first test how files behave in each mount, for its semantics card (about 20 s each)")
	fl.StringVarP(&f.plan.Baseline, "baseline", "b", "",
		"the environment that the others are compared with [host, or else the first]")
	fl.StringArrayVar(&f.plan.Set, "set", nil,
		"other parameters for the plan's workloads of a kind or label: WORKLOAD:key=value,... (repeatable)")
	fl.StringArrayVarP(&f.plan.Workloads, "workload", "w", nil, "a workload: KIND[:key=value,...] (repeatable)")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-DATE-TIME]")
	fl.BoolVar(&f.quick, "quick", false, "trials of 0.3 s, at most 30 blocks (default)")
	fl.BoolVar(&f.full, "full", false, "trials of 1 s, at most 60 blocks, in several sessions where "+
		"that is affordable")
	fl.IntVar(&f.plan.Sessions, "sessions", 0, "open the environments so many times, for verdicts that outlive one of "+
		"them [1; with --full 6, where that is affordable]")
	fl.DurationVar(&f.budget, "budget", 0, "stop after this time and report the figures so far: 10m")
	fl.IntVar(&f.plan.Blocks, "blocks", 0, "at most this many blocks")
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "seed of order and data [random, recorded]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print cells, blocks, disk space and expected time, and start nothing")
	fl.StringVar(&f.resume, "resume", "", "continue an interrupted run: its bundle")
	f.ui.register(fl)
	f.store.register(fl)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.strict, "strict", false,
		"exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be decided")
	f.failIf.flag(c)
	f.more.flag(c)
	fl.BoolVar(&f.ascii, "ascii", false, "draw the report with ASCII characters only")
	fl.BoolVar(&f.details, "details", false, "show every metric, not only the primary ones")
	fl.BoolVar(&f.why, "why", false, whyDoc)
	return c
}

// copiesFlags are the flags about copies, the first one by this name.
func (f *runFlags) copiesFlags(fl *pflag.FlagSet, name string) {
	fl.StringVar(&f.plan.Copies, name, f.plan.Copies,
		"the work also in so many copies of each environment at once: 8 (2, 4 and 8 of them), or numbers such as 2,3,6")
	fl.Var((*share)(&f.plan.Floor), "floor",
		"try no more copies when each does far less than this share of what one does alone: 0.8 or 80% [50%]")
}

// share is a flag for a share, as a number or in percent, which the plan reads. It was a number only, and is still
// called one: what it takes has only grown.
type share string

func (s *share) Set(text string) error { *s = share(text); return nil }
func (s *share) String() string        { return string(*s) }
func (*share) Type() string            { return "float64" }

// energyFlag is the flag about energy.
func (f *runFlags) energyFlag(fl *pflag.FlagSet) {
	fl.StringVar(&f.plan.Energy, "energy", "", "read the energy that this machine takes for each trial: auto, rapl, "+
		"battery, or meter:COMMAND, which prints joules")
}

// complete passes on to the plan what was really given on the command line.
func (f *runFlags) complete(c *cobra.Command) {
	switch {
	case f.full:
		f.plan.Mode = plan.Full
	case f.quick:
		f.plan.Mode = plan.Quick
	}
	if c.Flags().Changed("budget") {
		f.plan.Budget = &f.budget
	}
}

// resolve makes the plan from the file, the flags, or what is here.
func (cmd *runCommand) resolve(ctx context.Context, args []string) (*plan.Plan, error) {
	f := cmd.flags
	t := cmd.tablesHere(ctx)
	switch {
	case f.study != "":
		s, ok := study.Lookup(f.study)
		if !ok {
			return nil, usagef("there is no study %q%s", f.study,
				suggest.MeantOrAll(f.study, study.Names(), "there are:"))
		}
		return plan.ParseWithFlags("study "+s.Name, s.Plan, f.plan, t)
	case len(args) == 1:
		src, err := readPlan(args[0])
		if err != nil {
			return nil, err
		}
		return plan.ParseWithFlags(args[0], src, f.plan, t)
	case len(f.plan.Workloads) == 0:
		name, src := defaultPlan(t.Here(), len(f.plan.Environments) > 0)
		return plan.ParseWithFlags(name, src, f.plan, t)
	case len(f.plan.Environments) == 0:
		f.plan.Environments = t.Here()
	}
	return plan.FromFlags(nil, f.plan, t)
}

func readPlan(name string) ([]byte, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(name, bundle.ManifestFile)); err == nil {
			return nil, usagef("%s is a bundle, not a plan: `tare rerun %[2]s` repeats it, `tare run --resume "+
				"%[2]s` continues it, `tare report %[2]s` shows it", name, quoteArg(name))
		}
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("read plan: %w", err)}
	}
	defer file.Close()
	src, err := io.ReadAll(io.LimitReader(file, plan.MaxFile+1))
	if err != nil {
		return nil, usageError{fmt.Errorf("read plan %s: %w", name, err)}
	}
	return src, nil
}

// measure carries a fresh plan out.
func (cmd *runCommand) measure(ctx context.Context, p *plan.Plan) error {
	f := cmd.flags
	if err := cmd.checkFailIf(&f.failIf, p); err != nil {
		return err
	}
	if err := f.more.check(p); err != nil {
		return err
	}
	if err := supply.Check(p); err != nil {
		return usageError{err}
	}
	lacking, err := schedule.CheckFreeSpace(p, cmd.kind, cmd.drivers, cmd.scratchBase())
	if err != nil {
		return usageError{err}
	}
	for _, l := range lacking {
		fmt.Fprintf(cmd.err, "no space   %s\n", l)
	}
	if err := bundle.Vacant(f.out); err != nil && f.out != "" && !f.dryRun {
		return usageError{err}
	}
	if f.dryRun {
		var text strings.Builder
		cmd.forecast(&text, p, true)
		fmt.Fprint(cmd.err, strings.TrimSuffix(text.String(), "\n")+energyLine(ctx, p.Energy, true))
		err := sayLogs(ctx, cmd.err, p)
		fmt.Fprintln(cmd.err)
		return err
	}
	if err := f.store.check(ctx, cmd.app); err != nil {
		return err
	}
	if !f.quiet {
		fmt.Fprint(cmd.err, energyLine(ctx, p.Energy, false))
	}
	cmd.forecast(cmd.err, p, !f.quiet)
	runID := newRunID()
	var w *bundle.Writer
	if f.out == "" {
		w, f.out, err = bundle.CreateNew("tare-"+time.Now().Format("20060102-150405"), runID, p)
	} else {
		w, err = bundle.Create(f.out, runID, p)
	}
	if err != nil {
		return usageError{err} // no run can begin in such a folder
	}
	dir := f.out
	if f.shard != nil {
		if err := w.Mark(f.shard); err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return (&execution{app: cmd.app, plan: p, writer: w, dir: dir, runID: runID, flags: f}).carryOut(ctx)
}

// execution is one carrying out of a plan into a bundle.
type execution struct {
	*app
	plan   *plan.Plan
	writer *bundle.Writer
	dir    string
	runID  string
	flags  *runFlags
	prior  *bundle.Bundle // what a resumed run goes on from
	trials []record.Trial // of prior
	inject map[string]float64
	traces bool // agents can trace, where there are such
}

// recorded has what the flags say of the environments' price and power written to the bundle.
func (x *execution) recorded(o schedule.Opener) schedule.Opener {
	if x.flags == nil {
		return o
	}
	return x.flags.more.record(o)
}

func (x *execution) carryOut(ctx context.Context) (err error) {
	began := time.Now()
	result, trials, runErr := x.execute(ctx)
	x.flags.ui.finish(result, runErr)
	state := bundle.Finished
	if runErr != nil {
		state = bundle.Interrupted
	}
	if err := x.writer.Finish(state, time.Since(began).Seconds()); err != nil && runErr == nil {
		runErr = err
	}
	var outcomes []failif.Outcome
	if result != nil {
		result.Run.Finished = runErr == nil
		if outcomes, err = x.flags.failIf.judgeRun(&rundiff.Side{Result: result, Plan: x.plan, Trials: trials,
			Kinds: x.kind}); err != nil {
			return err
		}
		// A result that cannot be printed is in the bundle all the same, and the way to go on is told in any case.
		m := report.NewModel(result)
		m.Trials, m.Plan, m.FailIf, m.Bundle = trials, x.plan, outcomes, x.dir
		render := x.flags.render
		if render == nil {
			render = report.Terminal
		}
		options := printOptions{ascii: x.flags.ascii, details: x.flags.details, why: x.flags.why}
		if err := x.print(x.out, m, render, options); err != nil && runErr == nil {
			runErr = err
		}
		if err := x.flags.more.compute(result, x.plan).say(x.out, x.width(100)); err != nil && runErr == nil {
			runErr = err
		}
		x.tell(outcomes)
	}
	if runErr != nil {
		if ctx.Err() != nil || errors.Is(runErr, context.Canceled) {
			how := "continue with: tare run --resume " + quoteArg(x.dir)
			if x.plan.Once() {
				how = "it cannot go on, because its worktrees are removed; " + quoteArg(x.dir) +
					" has what was measured"
			}
			fmt.Fprintf(x.err, "tare: stopped before the end; %s\n", how)
			return codeError{exitFailed}
		}
		return runErr
	}
	if !verdict.HasFigures(result) {
		fmt.Fprintln(x.err, "tare: nothing was measured: no cell has a figure")
		return codeError{exitFailed}
	}
	if err := x.flags.store.record(ctx, x.app, x.flags.quiet, x.dir); err != nil {
		return err
	}
	return ending(outcomes, x.flags.strict, conclusive(result))
}

// execute runs the plan with a display and everything made for it removed afterwards.
func (x *execution) execute(ctx context.Context) (result *verdict.Result, trials []record.Trial, err error) {
	err = x.equip(ctx, func(c schedule.Config) (err error) {
		c.Sink, c.Evidence, c.Inject = x.writer, x.writer, x.inject
		if x.prior != nil {
			c.Prior, c.PriorTargets = x.trials, x.prior.Environments
			c.Header.Seconds = x.prior.Manifest.Seconds
		}
		x.flags.ui.attach(&c, x.dir)
		result, trials, err = schedule.Run(ctx, c)
		return err
	})
	return result, trials, err
}

// equip makes what a run needs beside its plan, has it used, and removes it.
func (x *execution) equip(ctx context.Context, use func(schedule.Config) error) error {
	x.holding("the running trial is dropped, everything made for the run is removed")
	scratch, release, err := leftover.New(x.scratchBase(), x.runID)
	if err != nil {
		return fmt.Errorf("make the run's private directory: %w", err)
	}
	defer release()
	store := deploy.NewStore
	if x.traces {
		store = deploy.NewTracers
	}
	agents := store(filepath.Join(scratch, "agents"))
	defer agents.Close()

	peer := deploy.NewPeer(agents)
	defer peer.Close()

	files := supply.New(filepath.Join(scratch, "files"))
	defer files.Close()
	if err := files.Prepare(ctx, x.plan, x.sayLog); err != nil {
		return err
	}
	if err := files.Same(ctx, x.plan, x.trials); err != nil { // there are some if the run is resumed
		return usageError{err}
	}

	show := x.display(ctx)
	defer show.close()
	drivers := &schedule.Drivers{Registry: x.drivers, Agents: agents, RunID: x.runID, Dir: scratch,
		Log: x.log, Idle: x.flags != nil && x.flags.idle,
		Flushes: verdict.Flushes(x.plan) || x.flags != nil && x.flags.flushes,
		Peer:    func(environment string) bool { return schedule.NeedsPeer(x.plan, x.kind, environment) }}
	c := schedule.Config{
		Plan: x.plan, Kinds: x.kind, Quiet: schedule.NewQuietHost(), Peer: peer,
		Files: files, Opener: x.recorded(drivers), Launcher: drivers,
		Header: verdict.Run{ID: x.runID, Version: version.Version, Build: version.Build},
		Events: show.event, Log: x.log,
	}
	return use(c)
}

// sayLog reports the account of a log.
func (x *execution) sayLog(text string) {
	if !x.flags.quiet {
		fmt.Fprintf(x.err, "log        %s\n", printableLine(text))
	}
}

// sayLogs writes the parts of a plan's logs that would be replayed, with their targets, and the other parts, with the
// reasons.
func sayLogs(ctx context.Context, out io.Writer, p *plan.Plan) error {
	for i := range p.Workloads {
		w := &p.Workloads[i]
		m, a, err := supply.Preview(ctx, w)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		var in []string
		for j := range p.Targets {
			if w.On(p.Targets[j].Name) {
				in = append(in, p.Targets[j].Name)
			}
		}
		fmt.Fprintf(out, "log        %s: %d of %d %s are replayed in %s\n", printableLine(w.Label),
			m.Statements.Replayed, m.Statements.Total, supply.Item(w), strings.Join(in, ", "))
		if m.Database != "" && w.Params["database"] == "" {
			fmt.Fprintf(out, "           database %s, the only one that it names\n", printableLine(m.Database))
		}
		for j := 0; a != nil && j < len(a.Reasons); j++ {
			if r := &a.Reasons[j]; r.Statements > 0 {
				fmt.Fprintf(out, "           %s %d: %s\n", r.Part, r.Statements, printableLine(r.Reason))
			}
		}
	}
	return nil
}

func (x *execution) display(ctx context.Context) display {
	switch {
	case x.flags.quiet:
		return silent{x.err}
	case x.errFD >= 0 && !x.plainTerminal():
		return newLive(ctx, x.err, x.plan.Budget, x.plan.MaxBlocks())
	}
	return newLines(x.err)
}

// conclusive tells whether every primary cell has a verdict.
func conclusive(r *verdict.Result) bool {
	for i := range r.Cells {
		switch c := &r.Cells[i]; c.Verdict {
		case record.Different, record.Equivalent, record.Measured:
		default:
			if c.Primary {
				return false
			}
		}
	}
	return true
}

func newRunID() string {
	b := make([]byte, 6)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// printable makes foreign text in several lines safe for a terminal.
func printable(s string) string { return proc.Printable([]byte(s)) }

func printableLine(s string) string {
	return proc.Line(s)
}

// quoteArg quotes a word for pasting into a shell, where it needs that.
func quoteArg(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+@%:,=") == "" && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
