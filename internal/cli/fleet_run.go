package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/plan"
	"tare/internal/run/collect"
	"tare/internal/run/dispatch"
	"tare/internal/show/report"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// The engines that run parts.
const (
	onSlurm      = "slurm"
	onSSH        = "ssh"
	onKubernetes = "kubernetes"
)

func engines() []string { return []string{onSlurm, onSSH, onKubernetes} }

// engineOf are the flags that are for one engine only.
var engineOf = map[string]string{
	"sbatch": onSlurm, "local": onSlurm,
	"ssh": onSSH, "group": onSSH, "at-once": onSSH, "ansible": onSSH,
	"image": onKubernetes, "selector": onKubernetes, "pod": onKubernetes, "volume": onKubernetes,
	"kubectl": onKubernetes,
}

// fleetRunCommand is `tare fleet run`.
type fleetRunCommand struct {
	*app
	on, hosts, group, dir, by, ssh, local string
	plays                                 string // the plan's folder
	image, selector, pod, volume          string
	sbatch, tare, kubectl                 []string
	patience, every                       time.Duration
	atOnce                                int
	quiet, ansible, dryRun                bool
	store                                 storeFlag
}

func (cmd *fleetRunCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "run PLAN --on slurm|ssh|kubernetes", Short: "Have many hosts run a plan, and judge them together",
		Long: `Have each host run the whole plan by itself, and judge the hosts together.

On Slurm each node has a job of its own, exclusive and requeued if the node goes down. The plan's section slurm says
what the job asks for (partition, account, time limit); --sbatch overrides it. The folder of --out must be on a file
system that the nodes share; else --local names a folder that each node has for itself, and program and result go over
Slurm. By ssh, tare puts itself and the plan into a private folder on each host and starts the part there, at most
--at-once at a time; the result is fetched and nothing stays behind. On Kubernetes each node has a Job of its own, of an
image with tare in it; no other part of a fleet runs on the node meanwhile, and the result comes by the log or a volume.

This command only submits and watches. Stop it with Ctrl-C, and the hosts go on; call it again, and it goes on watching:
no host is measured twice and none is lost. A part that ends without a result is started again and goes on where it was,
three times at most. Hosts that stay away are given up after --patience and are missing in the report; calling the
command again gives them another chance. When all parts have ended, it collects and reports, as "tare fleet collect" and
"tare fleet report" do.

    tare fleet run plan.yaml --on slurm -o nodes                              all nodes
    tare fleet run plan.yaml --on slurm -o nodes --hosts 'n[1-40]' --sbatch --partition=batch --sbatch --time=30
    tare fleet run plan.yaml --on slurm -o nodes --local /var/tmp --sbatch @job.sh      no shared folder
    tare fleet run plan.yaml --on kubernetes -o nodes --image registry.local/tare:1 --selector pool=batch
    tare fleet run plan.yaml --on ssh -o nodes --hosts a,b,me@c:2222
    tare fleet run plan.yaml --on ssh -o nodes --hosts inventory.ini --group web --dry-run
    tare fleet run plan.yaml --on ssh -o nodes --hosts hosts.txt --ssh 'identity=/home/me/.ssh/fleet&dir=/scratch'`,
		Args: cobra.ExactArgs(1),
	}
	fl := c.Flags()
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := cmd.misplaced(fl); err != nil {
			return err
		}
		return cmd.run(c.Context(), args[0])
	}
	fl.StringVar(&cmd.on, "on", "", "what runs the parts: "+strings.Join(engines(), ", "))
	fl.StringVar(&cmd.hosts, "hosts", "",
		"a,b,c, a file with one on each line, by ssh an Ansible inventory, on Slurm n[1-40] [all of the cluster]")
	fl.StringVar(&cmd.group, "group", "", "ssh: only this group of the inventory that --hosts names")
	fl.BoolVar(&cmd.ansible, "ansible", false,
		"ssh: have ansible-inventory read --hosts; this runs the inventory's programs and plugins")
	fl.StringVarP(&cmd.dir, "out", "o", "tare-fleet", "the fleet's folder, made by tare")
	fl.StringArrayVar(&cmd.sbatch, "sbatch", nil,
		"Slurm: an argument for sbatch, such as --partition=batch; @FILE: the #SBATCH lines of a script (repeatable)"+
			" [those of the plan's section slurm]")
	fl.StringVar(&cmd.local, "local", "", "Slurm: the nodes share no folder; work below this one of each node's own")
	fl.StringVar(&cmd.ssh, "ssh", "", "ssh: settings for all hosts, as of the driver ssh: key=value&key=value")
	fl.IntVar(&cmd.atOnce, "at-once", 32, "ssh: most hosts that work at a time")
	fl.DurationVar(&cmd.patience, "patience", 10*time.Minute, "give up a host that is down or drained for so long")
	fl.DurationVar(&cmd.every, "every", 0, "time between two looks [5s on Slurm, 20s by ssh, 10s on Kubernetes]")
	fl.StringArrayVar(&cmd.tare, "tare", nil, "by ssh and on Slurm: OS/ARCH=FILE, a tare of this build for hosts of "+
		"another platform (repeatable); on Slurm and Kubernetes: its path there [a copy of this one; the image's]")
	fl.StringVar(&cmd.image, "image", "", "Kubernetes: an image with tare in it [that of --pod]")
	fl.StringVar(&cmd.selector, "selector", "", "Kubernetes: the nodes with these labels [all but the control plane's]")
	fl.StringVar(&cmd.pod, "pod", "", "Kubernetes: file with the Pod that parts run as; tare fills in the rest")
	fl.StringVar(&cmd.volume, "volume", "", "Kubernetes: where parts keep their bundles: claim=NAME, claim=NAME,at=DIR"+
		" where DIR has the same files here, or host=DIR of the node")
	fl.StringArrayVar(&cmd.kubectl, "kubectl", nil,
		"Kubernetes: an argument for kubectl, such as --namespace=bench (repeatable)")
	fl.StringVar(&cmd.by, "by", "", "what tells hosts apart: machine or name [machine; on Kubernetes name]")
	cmd.store.register(fl)
	fl.BoolVar(&cmd.dryRun, "dry-run", false, "print the hosts and how each is reached or asked for; start nothing")
	fl.BoolVarP(&cmd.quiet, "quiet", "q", false, "no progress; only the report")
	return c
}

// misplaced refuses flags that are for another engine.
func (cmd *fleetRunCommand) misplaced(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if on := engineOf[f.Name]; on != "" && on != cmd.on && slices.Contains(engines(), cmd.on) && err == nil {
			err = usagef("--%s is for --on %s", f.Name, on)
		}
	})
	return err
}

func (cmd *fleetRunCommand) run(ctx context.Context, name string) error {
	switch {
	case cmd.on == "":
		return usagef("--on is missing: it says what runs the parts; there are: %s", strings.Join(engines(), ", "))
	case !slices.Contains(engines(), cmd.on):
		return usagef("--on: there is no engine %q%s", cmd.on, suggest.MeantOrAll(cmd.on, engines(), "there are:"))
	case cmd.every < 0 || cmd.patience < 0 || cmd.atOnce < 1:
		return usagef("--every and --patience must not be below 0, and --at-once must be above")
	}
	by, err := tellApart(cmd.by)
	if err != nil {
		return err
	}
	if by == "" && cmd.on == onKubernetes {
		by = fleet.ByName // a container does not know its machine, and no two nodes have one name
	}
	src, err := readPlan(name)
	if err != nil {
		return err
	}
	p, identity, err := cmd.asked(ctx, name, src, &plan.Flags{})
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cmd.dir)
	if err != nil {
		return err
	}
	if !cmd.dryRun {
		if err := cmd.store.check(ctx, cmd.app); err != nil {
			return err
		}
	}
	cmd.plays = filepath.Dir(name)
	id, hosts, specs, err := cmd.begun(ctx, dir)
	if err != nil {
		return err
	}
	teller := &fleetTeller{w: cmd.err, quiet: cmd.quiet, now: time.Now}
	c := dispatch.Config{Dir: dir, Name: cmd.on, ID: id, Plan: identity, Hosts: hosts, Specs: specs,
		Patience: cmd.patience,
		Tell:     teller.part, Round: teller.round,
		Trouble: func(err error) { fmt.Fprintf(cmd.err, "tare: %s; asking again\n", printableLine(err.Error())) },
	}
	if err := cmd.engine(ctx, &c, p, src); err != nil {
		return err
	}
	if cmd.dryRun {
		return cmd.foresee(&c)
	}
	cmd.holding("the hosts go on; call it again to go on watching")
	s, err := dispatch.Run(ctx, c)
	if errors.Is(err, dispatch.ErrOther) {
		return usageError{err}
	}
	if err != nil && ctx.Err() != nil {
		fmt.Fprintf(cmd.err, "tare: stopped watching; the hosts go on, and the same command goes on watching\n")
		return codeError{exitFailed}
	}
	if err != nil {
		return err
	}
	return cmd.judge(ctx, dir, by, s)
}

// tellApart reads --by.
func tellApart(text string) (fleet.By, error) {
	switch by := fleet.By(text); by {
	case "", fleet.ByMachine, fleet.ByName:
		return by, nil
	}
	return "", usagef("--by is machine or name, not %q%s", text, suggest.DidYouMean(text,
		[]string{string(fleet.ByMachine), string(fleet.ByName)}))
}

// judge collects what the parts left, and reports. Of a part that was given up, what it measured counts.
func (cmd *fleetRunCommand) judge(ctx context.Context, dir string, by fleet.By, s *dispatch.State) error {
	rules := fleet.Rules{By: by, Plan: s.Plan}
	var bundles []string
	for i := range s.Parts {
		p := &s.Parts[i]
		rules.Expected = append(rules.Expected, p.Host)
		if p.Phase == dispatch.Done {
			bundles = append(bundles, dispatch.Packed(dir, p))
			continue
		}
		folder := dispatch.Folder(dir, p)
		if _, err := os.Stat(filepath.Join(folder, bundle.ManifestFile)); err == nil {
			bundles = append(bundles, folder)
		}
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
		fmt.Fprintf(cmd.err, "%d of %s\n\n", len(a.Hosts), unit.Plural(a.Expected, "host"))
	}
	if err := fleet.Text(cmd.out, fleet.Judge(a), fleet.Options{Wrap: report.Wrap, Width: cmd.width(100)}); err != nil {
		return err
	}
	if len(a.Hosts) == 0 {
		fmt.Fprintln(cmd.err, "tare: nothing was measured")
		return codeError{exitFailed}
	}
	return cmd.store.recordFleet(ctx, cmd.app, cmd.quiet, dir)
}
