package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/lab/leftover"
	"tare/internal/plan"
	"tare/internal/run/collect"
	"tare/internal/run/dispatch"
	"tare/internal/sys/filelock"
	"tare/internal/sys/machine"
)

// fleetShardCommand is `tare fleet shard`.
type fleetShardCommand struct {
	*app
	flags runFlags
	host  string
	lock  string
	pack  bool
	print bool
}

func (cmd *fleetShardCommand) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "shard K/N PLAN", Short: "Run the whole plan on this host, as the K-th of N hosts of a fleet",
		Long: `Run the whole plan on this host and mark the bundle as that of the K-th of N hosts. K counts from 1.
Every host measures all of the plan: the fleet is divided, not the work. The mark says which plan that was and which
machine, so that "tare fleet collect" counts each machine once and knows which hosts are missing.

Called again, it goes on with the run that was interrupted on this machine, and does nothing if part K has been
finished: a scheduler may requeue it as it likes. A run that began on another machine is left alone, and a new one
begins beside it.

All hosts work on the same data: if the plan has no seed, it is derived from the plan's text. While another part works
on this machine, also one of another fleet or another user, it waits.

    srun tare fleet shard $((SLURM_ARRAY_TASK_ID + 1))/$SLURM_ARRAY_TASK_COUNT plan.yaml    an array from 0 on
    parallel -j20 ssh {} tare fleet shard {#}/40 plan.yaml :::: hosts
    tare fleet shard $CI_NODE_INDEX/$CI_NODE_TOTAL plan.yaml --pack                         parallel: in .gitlab-ci.yml`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("budget") {
				f.plan.Budget = &f.budget
			}
			return cmd.shard(c.Context(), args[0], args[1])
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "folder for the result [tare-part-K-of-N]")
	fl.StringVar(&cmd.host, "host", "", "what the fleet calls this host [$SLURMD_NODENAME, else the host's name]")
	fl.StringVar(&cmd.lock, "lock", "", "file whose lock keeps parts on one machine apart; none: no lock "+
		"[tare-fleet.lock where the system keeps locks]")
	f.store.register(fl)
	fl.BoolVar(&cmd.pack, "pack", false, "when it has ended, pack the result into one file beside it")
	fl.BoolVar(&cmd.print, "print", false, "with --pack: also print the packed result, as text for a log")
	fl.DurationVar(&f.budget, "budget", 0, "stop after this time and report the figures so far: 10m [the plan's]")
	fl.BoolVar(&f.dryRun, "dry-run", false, "print cells, blocks, disk space and expected time, and start nothing")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the report")
	fl.BoolVar(&f.ascii, "ascii", false, "draw the report with ASCII characters only")
	return c
}

// mostParts bounds N.
const mostParts = 1_000_000

// partOf reads K/N.
func partOf(text string) (k, n int, err error) {
	a, b, ok := strings.Cut(text, "/")
	k, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return 0, 0, usagef("%q is no part of a fleet: write K/N, such as 3/40 for the third of 40 hosts", text)
	case n < 1 || n > mostParts:
		return 0, 0, usagef("part %s: a fleet has from 1 to %d parts", text, mostParts)
	case k == 0:
		return 0, 0, usagef("part %s: parts count from 1; where a scheduler counts from 0, add 1", text)
	case k < 1 || k > n:
		return 0, 0, usagef("part %s: the first number is from 1 to the second", text)
	}
	return k, n, nil
}

func (cmd *fleetShardCommand) shard(ctx context.Context, part, name string) error {
	f := &cmd.flags
	k, n, err := partOf(part)
	if err != nil {
		return err
	}
	if cmd.print && !cmd.pack {
		return usagef("--print goes with --pack: what is printed is the packed result")
	}
	src, err := readPlan(name)
	if err != nil {
		return err
	}
	p, identity, err := cmd.asked(ctx, name, src, &f.plan)
	if err != nil {
		return err
	}
	mark := &bundle.Shard{Plan: identity, Number: k, Of: n, Host: cmd.hostName(), Facts: machine.Facts()}
	if len(mark.Host) > collect.LongestHost {
		return usagef("--host: a host's name has at most %d characters", collect.LongestHost)
	}
	var weak bool
	if mark.Machine, weak = machine.Identity(); weak {
		fmt.Fprintf(cmd.err, "tare: this machine has neither an id nor a network card of its own: its name tells it "+
			"from others\n")
	}
	if f.out == "" {
		f.out = fmt.Sprintf("tare-part-%d-of-%d", k, n)
	}
	if f.dryRun {
		return (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
	}
	mine, err := cmd.mine(ctx)
	if err != nil {
		return err
	}
	defer mine.Release()
	began := time.Now()
	release, err := cmd.alone(ctx, fmt.Sprintf("part %d of %d", k, n))
	if err != nil {
		return err
	}
	defer release()
	mark.WaitedS = time.Since(began).Round(time.Second).Seconds()
	ran := cmd.carryOut(ctx, p, mark)
	if !cmd.pack || ran != nil {
		return ran
	}
	return cmd.packed()
}

// asked returns the plan for this host, and the identity of the plan for all hosts: one that says missing: skip may be
// less on this one. A plan without environments means the host alone, whatever else a machine has.
func (a *app) asked(ctx context.Context, name string, src []byte, flags *plan.Flags) (*plan.Plan, string, error) {
	t := a.tablesHere(ctx)
	t.Here = nil
	flags.SeedElse = plan.SeedOf(src)
	p, err := plan.ParseWithFlags(name, src, *flags, t)
	if err != nil {
		return nil, "", err
	}
	all := p
	if p.Missing == plan.Skip {
		t.Available, t.LeftOut = nil, nil
		if all, err = plan.ParseWithFlags(name, src, *flags, t); err != nil {
			return nil, "", err
		}
	}
	return p, plan.Identity(all), nil
}

// hostName is the fleet's name of this host.
func (cmd *fleetShardCommand) hostName() string {
	if cmd.host != "" {
		return cmd.host
	}
	if name := cmd.getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// carryOut begins the part, goes on with it, or finds that it is done.
func (cmd *fleetShardCommand) carryOut(ctx context.Context, p *plan.Plan, mark *bundle.Shard) error {
	f := &cmd.flags
	first := f.out
	for n := 1; n <= 1000; n++ {
		if n > 1 {
			f.out = fmt.Sprintf("%s-%d", first, n)
		}
		b, err := bundle.Open(f.out)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, bundle.ErrNotBundle) {
			f.shard = mark
			return (&runCommand{app: cmd.app, flags: f}).measure(ctx, p)
		}
		if err != nil {
			return err
		}
		switch s := b.Manifest.Shard; {
		case s == nil || s.Plan != mark.Plan || s.Number != mark.Number || s.Of != mark.Of:
			return usagef("%s holds another result (run %s); name another folder with -o", f.out,
				printableLine(b.Manifest.RunID))
		case b.Manifest.State == bundle.Finished:
			fmt.Fprintf(cmd.err, "part %d of %d is finished: %s\n", mark.Number, mark.Of, printableLine(f.out))
			return f.store.record(ctx, cmd.app, f.quiet, f.out) // an earlier call may not have come so far
		case s.Machine == mark.Machine:
			f.resume = f.out
			return (&runCommand{app: cmd.app, flags: f}).resume(ctx)
		default:
			fmt.Fprintf(cmd.err, "%s was begun on %s and stays as it is; this host begins anew\n",
				printableLine(f.out), printableLine(s.Host))
		}
	}
	return usagef("%s and the 999 names after it are taken: name a folder with -o", first)
}

func (cmd *fleetShardCommand) packed() error {
	out := filepath.Clean(cmd.flags.out) + bundle.Ext
	// A bundle that an earlier call packed stays: a finished part does not change.
	if _, err := os.Stat(out); err != nil {
		if err := bundle.Pack(cmd.flags.out, out); err != nil {
			return err
		}
		fmt.Fprintf(cmd.err, "packed     %s\n", printableLine(out))
	}
	if !cmd.print {
		return nil
	}
	f, err := os.Open(out)
	if err != nil {
		return err
	}
	defer f.Close()
	return dispatch.WriteLogged(cmd.out, f)
}

// ownLock is the suffix of the file whose lock is held while a part is carried out, or waits for its machine. `tare
// fleet run` asks by it whether the part goes on.
const ownLock = ".lock"

// lease bounds the life of the lock of a node that has gone, on a network file system.
const lease = 3 * time.Minute

// mine keeps a second call for the same folder away. It waits, because what holds the lock may be a node that has gone.
func (cmd *fleetShardCommand) mine(ctx context.Context) (*filelock.Lock, error) {
	path := filepath.Clean(cmd.flags.out) + ownLock
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	late := fmt.Errorf("another tare carries out %s", cmd.flags.out)
	waiting, cancel := context.WithTimeoutCause(ctx, lease, late)
	defer cancel()
	l, err := filelock.Take(waiting, path, func() {
		fmt.Fprintf(cmd.err, "waiting    another tare carries out %s\n", printableLine(cmd.flags.out))
	})
	if errors.Is(err, late) {
		return nil, late
	}
	return l, err
}

// lockName is the name of the lock that keeps parts on one machine apart.
const lockName = "tare-fleet.lock"

// lockPlaces are the folders in which all users of a machine can meet. A scheduler may give each job a /tmp of its own,
// and some systems let only root write to the other.
func lockPlaces() []string {
	if runtime.GOOS == "windows" {
		return []string{filepath.Join(os.TempDir(), lockName)}
	}
	return []string{"/run/lock/" + lockName, "/tmp/" + lockName}
}

// alone waits until no other part works on this machine, and says in the lock that this one does.
func (cmd *fleetShardCommand) alone(ctx context.Context, part string) (release func(), err error) {
	places := lockPlaces()
	switch cmd.lock {
	case "":
	case "none":
		return func() {}, nil
	default:
		places = []string{cmd.lock}
	}
	var held []*filelock.Lock
	release = func() {
		for _, l := range held {
			l.Release()
		}
	}
	waited := false
	for _, path := range places {
		l, err := filelock.Take(ctx, path, func() {
			fmt.Fprintf(cmd.err, "waiting    another part of a fleet works on this machine%s\n", holder(path))
			waited = true
		})
		switch {
		case err == nil:
			held = append(held, l)
			_ = l.Say(cmd.holds(part)) // where it cannot be said, others wait all the same
		case ctx.Err() != nil || cmd.lock != "":
			release()
			return nil, err
		}
	}
	if len(held) == 0 {
		fmt.Fprintf(cmd.err, "tare: no lock can be taken in %s: nothing keeps another part off this machine\n",
			strings.Join(places, " or "))
	}
	if waited { // who reads the log sees that the wait is over
		fmt.Fprintf(cmd.err, "begins     %s\n", part)
	}
	return release, nil
}

// holds is the text of this process in a lock that it holds: its identity, and in words its work.
func (cmd *fleetShardCommand) holds(part string) string {
	self, err := leftover.Self()
	if err != nil {
		return ""
	}
	who := ""
	if u, err := user.Current(); err == nil {
		who = " of user " + u.Username
	}
	return fmt.Sprintf("%s\n%s, process %d%s, since %s UTC\n%s\n", self, part, self.PID, who,
		time.Now().UTC().Format("2006-01-02 15:04"), self.Where)
}

// holder says in words who holds a lock; "" where that is not known. What a process wrote that was killed does not
// count.
func holder(path string) string {
	owner, text, _ := strings.Cut(filelock.Said(path), "\n")
	who, err := leftover.ParseOwner(owner)
	text, where, whole := strings.Cut(text, "\n")
	who.Where, _, _ = strings.Cut(where, "\n")
	if err != nil || !whole || !who.Alive() {
		return ""
	}
	return ": " + printableLine(text)
}
