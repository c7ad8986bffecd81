package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"tare/internal/plan"
)

// densityCommand is `tare density`: a run whose question is how many copies of an environment a machine carries.
type densityCommand struct {
	*app
	run *runFlags
}

func (cmd *densityCommand) command() *cobra.Command {
	f := &runFlags{}
	cmd.run = f
	f.plan.Copies, f.plan.CopiesFlag = strconv.Itoa(plan.DefaultMost), "--max"
	c := &cobra.Command{
		Use:   "density",
		Short: "Say how many copies of an environment do the same work at once",
		Long: `Do the same work in 1, 2, 4 and more copies of an environment at once, and say how much each still does.

All copies of a trial begin together, and the numbers of copies take turns. For each number the report has what each
copy keeps of what one does alone, what all do together, the slowest copy, the tail latency and the memory of a copy,
and at the end the greatest number of which each still keeps the floor. Copies are opened as they are needed: when each
does far less than the floor, more are not tried, and when this machine's memory is used up, the report says so.

    tare density -e docker -w cpu.prime
    tare density -e box=namespace -e vm=qemu -w fs.smallfiles --floor 0.8 --max 8
    tare density -e docker:nginx -w command:command='make -j2' --max 1,2,3

"tare run --copies" does so beside all else that a run has, and a plan has copies.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.quick && f.full {
				return usagef("--quick and --full exclude each other")
			}
			if len(f.plan.Environments) == 0 || len(f.plan.Workloads) == 0 {
				return usagef("name an environment (-e), and the work to do in copies of it (-w)")
			}
			if err := f.ui.open(cmd.err, f.dryRun); err != nil {
				return err
			}
			defer f.ui.close(c.Context(), cmd.err)
			f.complete(c)
			p, err := plan.FromFlags(nil, f.plan, cmd.tables())
			if err != nil {
				return err
			}
			return (&runCommand{app: cmd.app, flags: f}).measure(c.Context(), p)
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&f.plan.Environments, "env", "e", nil,
		"an environment: NAME[=DRIVER[:ARG][?key=value&...]] (repeatable)")
	fl.StringArrayVarP(&f.plan.Workloads, "workload", "w", nil, "a workload: KIND[:key=value,...] (repeatable)")
	f.copiesFlags(fl, "max")
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result, made by tare [tare-DATE-TIME]")
	f.energyFlag(fl)
	fl.BoolVar(&f.quick, "quick", false, "trials of 0.3 s, at most 30 blocks (default)")
	fl.BoolVar(&f.full, "full", false, "trials of 1 s, at most 60 blocks")
	fl.DurationVar(&f.budget, "budget", 0, "stop after this time and report the figures so far: 10m")
	fl.IntVar(&f.plan.Blocks, "blocks", 0, "at most this many blocks")
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "seed of order and data [random, recorded]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print cells, blocks, disk space and expected time, and start nothing")
	f.ui.register(fl)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.strict, "strict", false,
		"exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be decided")
	f.failIf.flag(c)
	fl.BoolVar(&f.ascii, "ascii", false, "draw the report with ASCII characters only")
	fl.BoolVar(&f.details, "details", false, "show every metric, not only the primary ones")
	fl.BoolVar(&f.why, "why", false, whyDoc)
	return c
}
