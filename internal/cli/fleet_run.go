package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/fleet"
	"tare/internal/lab/driver/ssh"
	"tare/internal/lab/env"
	"tare/internal/plan"
	"tare/internal/run/collect"
	"tare/internal/run/dispatch"
	"tare/internal/run/inventory"
	"tare/internal/show/report"
	"tare/internal/suggest"
	"tare/internal/unit"
)

// The engines that run parts.
const (
	onSlurm = "slurm"
	onSSH   = "ssh"
)

func engines() []string { return []string{onSlurm, onSSH} }

// fleetRunCommand is `tare fleet run`.
type fleetRunCommand struct {
	*app
	on, hosts, group, dir, by, tare, ssh string
	sbatch                               []string
	patience, every                      time.Duration
	atOnce                               int
	quiet                                bool
	store                                storeFlag
}

func (cmd *fleetRunCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "run PLAN --on slurm|ssh", Short: "Have many hosts run a plan, and judge them together",
		Long: `Have each host run the whole plan by itself, and judge the hosts together.

On Slurm each node has a job of its own, exclusive and requeued if the node goes down. The folder of --out must be on a
file system that the nodes share. By ssh, tare puts itself and the plan into a private folder on each host and starts the
part there, at most --at-once at a time; the result is fetched and nothing stays behind.

This command only submits and watches. Stop it with Ctrl-C, and the hosts go on; call it again, and it goes on watching:
no host is measured twice and none is lost. A part that ends without a result goes on where it was, and is asked for
three times at most. Hosts that stay away are given up after --patience and are missing in the report; calling the
command again gives them another chance. When all parts have ended, it collects and reports, as "tare fleet collect" and
"tare fleet report" do.

    tare fleet run plan.yaml --on slurm -o nodes                              all nodes
    tare fleet run plan.yaml --on slurm -o nodes --hosts 'n[1-40]' --sbatch --partition=batch --sbatch --time=30
    tare fleet run plan.yaml --on ssh -o nodes --hosts a,b,me@c:2222
    tare fleet run plan.yaml --on ssh -o nodes --hosts inventory.ini --group web
    tare fleet run plan.yaml --on ssh -o nodes --hosts hosts.txt --ssh 'identity=/home/me/.ssh/fleet&dir=/scratch'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.run(c.Context(), args[0]) },
	}
	fl := c.Flags()
	fl.StringVar(&cmd.on, "on", "", "what runs the parts: "+strings.Join(engines(), ", "))
	fl.StringVar(&cmd.hosts, "hosts", "",
		"a,b,c, a file with one on each line, an Ansible inventory, or on Slurm n[1-40] [all of the cluster]")
	fl.StringVar(&cmd.group, "group", "", "ssh: only this group of the inventory that --hosts names")
	fl.StringVarP(&cmd.dir, "out", "o", "tare-fleet", "the fleet's folder, made by tare")
	fl.StringArrayVar(&cmd.sbatch, "sbatch", nil,
		"Slurm: an argument for sbatch, such as --partition=batch (repeatable)")
	fl.StringVar(&cmd.ssh, "ssh", "", "ssh: settings for all hosts, as of the driver ssh: key=value&key=value")
	fl.IntVar(&cmd.atOnce, "at-once", 32, "ssh: most hosts that work at a time")
	fl.DurationVar(&cmd.patience, "patience", 10*time.Minute, "give up a host that is down or drained for so long")
	fl.DurationVar(&cmd.every, "every", 0, "time between two looks [5s on Slurm, 20s by ssh]")
	fl.StringVar(&cmd.tare, "tare", "", "Slurm: the program on the nodes [a copy of this one in the fleet's folder]")
	fl.StringVar(&cmd.by, "by", "", "what tells hosts apart: machine or name [machine]")
	cmd.store.register(fl)
	fl.BoolVarP(&cmd.quiet, "quiet", "q", false, "no progress; only the report")
	return c
}

func (cmd *fleetRunCommand) run(ctx context.Context, name string) error {
	switch {
	case cmd.on == "":
		return usagef("--on is missing: it says what runs the parts; there are: %s", strings.Join(engines(), ", "))
	case !slices.Contains(engines(), cmd.on):
		return usagef("--on: there is no engine %q%s", cmd.on, suggest.MeantOrAll(cmd.on, engines(), "there are:"))
	case cmd.every < 0 || cmd.patience < 0 || cmd.atOnce < 1:
		return usagef("--every and --patience must not be below 0, and --at-once must be above")
	case cmd.on != onSSH && cmd.group != "":
		return usagef("--group is for --on ssh")
	case cmd.on == onSSH && (len(cmd.sbatch) > 0 || cmd.tare != "") || cmd.on == onSlurm && cmd.ssh != "":
		return usagef("--sbatch and --tare are for --on slurm, and --ssh is for --on ssh")
	}
	by, err := tellApart(cmd.by)
	if err != nil {
		return err
	}
	src, err := readPlan(name)
	if err != nil {
		return err
	}
	_, identity, err := cmd.asked(ctx, name, src, &plan.Flags{})
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(cmd.dir)
	if err != nil {
		return err
	}
	if err := cmd.store.check(ctx, cmd.app); err != nil {
		return err
	}
	id, hosts, specs, err := cmd.begun(ctx, dir)
	if err != nil {
		return err
	}
	c := dispatch.Config{Dir: dir, Name: cmd.on, ID: id, Plan: identity, Hosts: hosts, Specs: specs,
		Patience: cmd.patience,
		Tell:     cmd.tell,
		Trouble:  func(err error) { fmt.Fprintf(cmd.err, "tare: %s; asking again\n", printableLine(err.Error())) },
	}
	if err := cmd.engine(&c, src); err != nil {
		return err
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

// engine fills in what runs the parts. c.Hosts are none where a run goes on.
func (cmd *fleetRunCommand) engine(c *dispatch.Config, src []byte) error {
	if cmd.on == onSlurm {
		work := filepath.Join(c.Dir, dispatch.WorkDir)
		c.Every = cmp.Or(cmd.every, 5*time.Second)
		c.Engine = &dispatch.Slurm{ID: c.ID, Work: work, Args: cmd.sbatch}
		c.Prepare = func(work string, s *dispatch.State) error { return cmd.prepare(work, src, len(s.Parts)) }
		return nil
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	hosts, specs := c.Hosts, c.Specs
	if len(hosts) == 0 {
		s, err := dispatch.ReadState(c.Dir)
		if err != nil {
			return err
		}
		for i := range s.Parts {
			hosts, specs = append(hosts, s.Parts[i].Host), append(specs, s.Parts[i].Spec)
		}
	}
	e := &dispatch.SSH{ID: c.ID, Dir: c.Dir, Tare: own, Plan: src, Parts: len(hosts), Specs: map[int]env.Spec{}}
	for i, h := range hosts {
		text := "ssh:" + h
		if i < len(specs) && specs[i] != "" {
			text = specs[i]
		}
		if text = "host=" + text; cmd.ssh != "" {
			text += map[bool]string{true: "&", false: "?"}[strings.Contains(text, "?")] + cmd.ssh
		}
		spec, err := env.ParseSpec(text)
		if err == nil {
			err = cmd.drivers.Check(spec)
		}
		if err == nil {
			_, err = ssh.Command(context.Background(), &spec, "true") // it is not run: its words are checked
		}
		if err != nil {
			return usagef("host %s: %v", h, err)
		}
		e.Specs[i+1] = spec
	}
	c.Engine, c.AtOnce, c.Together = e, cmd.atOnce, 16
	c.Every = cmp.Or(cmd.every, 20*time.Second)
	c.Prepare = func(string, *dispatch.State) error { return nil }
	return nil
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

// begun reads the fleet's id from its folder, or makes one, and the hosts with how they are reached. These are none
// where a run goes on and its own count.
func (cmd *fleetRunCommand) begun(ctx context.Context, dir string) (id string, hosts, specs []string, err error) {
	s, err := dispatch.ReadState(dir)
	switch {
	case err == nil:
		if id = s.ID; cmd.hosts == "" {
			return id, nil, nil, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return "", nil, nil, err
	default:
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return "", nil, nil, usagef("-o %s: the folder is not empty, and no fleet's run is in it; choose another",
				cmd.dir)
		}
		id = newRunID()
	}
	if cmd.on == onSSH {
		hosts, specs, err = cmd.sshHosts()
		return id, hosts, specs, err
	}
	_, err = os.Stat(cmd.hosts)
	if err == nil || strings.Contains(cmd.hosts, ",") && !strings.Contains(cmd.hosts, "[") {
		hosts, err = hostList(cmd.hosts)
		return id, hosts, nil, err
	}
	hosts, err = dispatch.SlurmHosts(ctx, cmd.hosts)
	if err != nil {
		return "", nil, nil, fmt.Errorf("ask Slurm for the nodes: %w", err)
	}
	if len(hosts) == 0 {
		return "", nil, nil, usagef("Slurm knows no nodes")
	}
	return id, hosts, nil, nil
}

// sshHosts reads --hosts: a list, a file with one host on each line, or an inventory of Ansible's.
func (cmd *fleetRunCommand) sshHosts() (hosts, specs []string, err error) {
	if cmd.hosts == "" {
		return nil, nil, usagef("--hosts is missing: name them, or a file with one on each line, or an inventory of " +
			"Ansible's")
	}
	src, isFile, err := hostsFile(cmd.hosts)
	if err != nil {
		return nil, nil, err
	}
	yaml := strings.HasSuffix(cmd.hosts, ".yaml") || strings.HasSuffix(cmd.hosts, ".yml")
	if !isFile || !yaml && !bytes.ContainsAny(src, "[=") {
		if cmd.group != "" {
			return nil, nil, usagef("--group: %s is no inventory: it has no groups", cmd.hosts)
		}
		hosts, err = hostList(cmd.hosts)
		return hosts, nil, err
	}
	list, err := inventory.Parse(src, yaml, cmd.group)
	if err != nil {
		return nil, nil, usagef("inventory %s: %v", cmd.hosts, err)
	}
	for _, h := range list {
		spec := env.Spec{Driver: onSSH, Arg: h.Address, Settings: map[string]string{}}
		if h.User != "" {
			spec.Settings["user"] = h.User
		}
		if h.Port != 0 {
			spec.Settings["port"] = strconv.Itoa(h.Port)
		}
		if h.Key != "" {
			spec.Settings["identity"] = cmd.keyFile(h.Key)
		}
		hosts, specs = append(hosts, h.Name), append(specs, spec.String())
	}
	return hosts, specs, nil
}

// keyFile is a path as an inventory has it, made whole.
func (cmd *fleetRunCommand) keyFile(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// prepare puts the plan, the script and the program into the folder that the nodes share.
func (cmd *fleetRunCommand) prepare(work string, src []byte, parts int) error {
	tare := cmd.tare
	if tare == "" {
		own, err := os.Executable()
		if err != nil {
			return err
		}
		tare = filepath.Join(work, "tare")
		in, err := os.Open(own)
		if err != nil {
			return err
		}
		defer in.Close()
		if err := writeWhole(tare, func(w io.Writer) error { _, err := io.Copy(w, in); return err }); err != nil {
			return err
		}
		if err := os.Chmod(tare, 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(work, "plan.yaml"), src, 0o644); err != nil {
		return err
	}
	return dispatch.PrepareSlurm(work, tare, parts)
}

// tell says what has become of a part.
func (cmd *fleetRunCommand) tell(p dispatch.Part) {
	if cmd.quiet && p.Phase != dispatch.Failed {
		return
	}
	text := p.Host
	if p.Job != "" {
		text += ", job " + p.Job
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	fmt.Fprintf(cmd.err, "%-9s  %s\n", p.Phase, printableLine(text))
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
