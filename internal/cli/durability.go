package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	work "tare/internal/measure/workload/durability"
	"tare/internal/record"
	"tare/internal/run/durability"
	"tare/internal/sys/nbd"
)

// durabilityFlags are the flags of `tare durability`.
type durabilityFlags struct {
	env     string
	cuts    int
	control int
	classes []string
	faults  []string
	by      string
	seed    uint64
	out     string
	format  string
	quiet   bool
}

// durabilityCommand is `tare durability`.
type durabilityCommand struct {
	*app
	flags durabilityFlags
}

func (cmd *durabilityCommand) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "durability", Short: "Cut the power of a virtual machine and check whether acknowledged writes survived",
		Long: `Serve the disk of a virtual machine, let programs in it write and flush, cut the power at a random moment, boot again, and
look for every record that was acknowledged before. Each class of promise gets a verdict: DISPROVED with the record that
was lost and the remedy, NOT DISPROVED with the number of cuts and the bound that follows, or UNTESTED. No verdict says
"safe". It works with ` + strings.Join(cmd.cuttable(), ", ") + `, as far as tare makes the machine.

Two controls check the test itself: with settings that ignore flushes, every cut must lose records, or the test has no
power; with settings that pass them on, no cut may lose any, or the test is not sound.

What ends first at a cut (--by): the disk, as when the host loses its power; the machine's process, killed (kill); or the
machine, switched off by its product (poweroff: VBoxManage controlvm NAME poweroff). Then the disk loses what was not
flushed.

Classes: ` + strings.Join(classNames(), ", ") + `.
Faults, in turn: drop (what was not flushed is gone), reorder (a random part of it is there), tear (writes are torn between
sectors).`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cmd.durability(c.Context()) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.env, "env", "e", "", "the environment: vm=qemu?cache=none, vb=virtualbox?controller=ide")
	fl.IntVar(&f.cuts, "cuts", 20, "number of power cuts")
	fl.IntVar(&f.control, "control", 2, "number of cuts of each control")
	fl.StringSliceVar(&f.classes, "classes", nil, "classes to test [all]")
	fl.StringSliceVar(&f.faults, "faults", nil, "faults, in turn [drop,reorder,tear]")
	fl.StringVar(&f.by, "by", string(durability.ByDisk), "what ends first at a cut: disk, kill or poweroff")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the moments, the faults and the data [random]")
	fl.StringVarP(&f.out, "out", "o", "", "keep the ledger and the result in this new folder")
	fl.StringVar(&f.format, "format", "text", "text or json")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the result")
	c.AddCommand((&auditCommand{app: cmd.app}).command())
	return c
}

func classNames() []string {
	names := []string{}
	for _, c := range work.Classes() {
		names = append(names, c.String())
	}
	return names
}

// cuttable are the drivers whose machines can be tested.
func (cmd *durabilityCommand) cuttable() (names []string) {
	for _, d := range cmd.drivers.All() {
		if d.Plug != nil {
			names = append(names, d.Name)
		}
	}
	return names
}

// durabilityOptions returns the options of a test by the flags, and an error for wrong ones.
func (cmd *durabilityCommand) durabilityOptions() (o durability.Options, err error) {
	f := &cmd.flags
	if f.format != "text" && f.format != "json" {
		return o, usagef("--format is text or json, not %q", f.format)
	}
	if o.Spec, err = env.ParseSpec(cmp.Or(f.env, "vm=qemu")); err != nil {
		return o, usageError{err}
	}
	if err := cmd.drivers.Check(o.Spec); err != nil {
		return o, usageError{err}
	}
	if o.Spec.Get("disk", "") != "" {
		return o, usagef("disk=%s: in this test tare serves the disk itself; leave the setting out",
			o.Spec.Get("disk", ""))
	}
	info, _ := cmd.drivers.Lookup(o.Spec.Driver)
	o.Info, o.Able, o.By = info, cmd.cuttable(), durability.By(f.by)
	o.Cuts, o.Control, o.Seed = f.cuts, f.control, f.seed
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if len(f.classes) == 0 {
		f.classes = classNames()
	}
	for _, name := range f.classes {
		c, err := work.ParseClass(name)
		if err != nil {
			return o, usagef("--classes: %w", err)
		}
		o.Classes = append(o.Classes, c)
	}
	if len(f.faults) == 0 {
		o.Faults = nbd.Faults()
	}
	for _, name := range f.faults {
		fault, err := nbd.ParseFault(name)
		if err != nil {
			return o, usagef("--faults: %w", err)
		}
		o.Faults = append(o.Faults, fault)
	}
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

func (cmd *durabilityCommand) durability(ctx context.Context) (err error) {
	f := &cmd.flags
	o, err := cmd.durabilityOptions()
	if err != nil {
		return err
	}
	cmd.holding("temporary files are removed")
	// Not the result's folder: sockets are made in it, whose paths must be short.
	dir, release, err := leftover.New("", newRunID())
	if err != nil {
		return fmt.Errorf("make a directory to work in: %w", err)
	}
	defer func() { err = errors.Join(err, release()) }()
	out := f.out
	if out == "" {
		out = filepath.Join(dir, "result")
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return fmt.Errorf("make folder for the result: %w; name a folder with -o that does not exist yet", err)
	}
	store := deploy.NewStore(filepath.Join(dir, "agents"))
	defer store.Close()
	o.Agents, o.RunID, o.Dir, o.Log = store, newRunID(), dir, cmd.log.With("env", o.Spec.Name)
	if !f.quiet {
		o.Told = cmd.durabilityProgress
	}
	ledger, err := durability.CreateLedger(filepath.Join(out, "ledger.ndjson"))
	if err != nil {
		return err
	}
	r, err := durability.Pull(ctx, o, ledger)
	err = errors.Join(err, ledger.Close())
	if r == nil || len(r.Pulls) == 0 {
		return err
	}
	// Results from before the end are told also where the end came early.
	if e := cmd.durabilityResult(r, out, f.format); e != nil {
		return errors.Join(err, e)
	}
	if err == nil && (!r.Power || !r.Sound) {
		return codeError{exitFailed}
	}
	return err
}

// durabilityResult writes the result into its folder and prints it.
func (cmd *durabilityCommand) durabilityResult(r *durability.Result, dir, format string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	b = append(b, '\n')
	if err := os.WriteFile(filepath.Join(dir, "durability.json"), b, 0o644); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if format == "json" {
		_, err = cmd.out.Write(b)
		return err
	}
	return cmd.durabilityReport(r)
}

func (cmd *durabilityCommand) durabilityProgress(p *durability.CutResult) {
	fmt.Fprintf(cmd.err, "cut %3d  %-16s %-18s %-8s after %4.1f s: %4d acknowledged, %4d lost; %4d writes "+
		"were not flushed; cycle %4.1f s\n",
		p.Number, p.Target, p.Settings, p.Cut.Fault, p.After, p.Acknowledged, len(p.Losses), p.Cut.Pending, p.Took)
}

// durabilityReport prints the verdicts.
func (cmd *durabilityCommand) durabilityReport(r *durability.Result) error {
	tw := tabwriter.NewWriter(cmd.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "what was promised\tverdict\tcuts\tacknowledged\tlost\tof these torn\trolled back\tout of order")
	for i := range r.Rows {
		w := &r.Rows[i]
		verdict := w.Verdict
		switch {
		case w.Verdict == record.NotDisproved:
			verdict += fmt.Sprintf(" (bound %.2g)", w.Bound)
		case w.Verdict == record.Disproved && !w.Promised:
			verdict = "lost, but never promised"
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", w.Doc, verdict, w.Cuts, w.Acknowledged, w.Lost, w.Torn,
			w.RolledBack, w.Reordered)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(cmd.out)
	if r.Power && r.Sound && !r.Stopped {
		fmt.Fprintln(cmd.out, "Controls: with flushes ignored every cut lost records, with flushes passed on none did.")
	}
	fmt.Fprintf(cmd.out, "%s: %s\n", r.Verdict.Verdict, r.Verdict.Text)
	if r.Verdict.Layer != "" {
		fmt.Fprintf(cmd.out, "Tested down to %s.\n", r.Verdict.Layer)
	}
	for _, e := range r.Verdict.Evidence {
		fmt.Fprintf(cmd.out, "  %s\n", e)
	}
	for _, s := range r.Verdict.Settings {
		fmt.Fprintf(cmd.out, "  Why: %s. Remedy: %s.\n", s.Text, s.Remedy)
	}
	longest := 0.0
	for i := range r.Pulls {
		longest = max(longest, r.Pulls[i].Took)
	}
	_, err := fmt.Fprintf(cmd.out, "%d cuts, the longest cycle %v; seed %d\n", len(r.Pulls),
		time.Duration(longest*float64(time.Second)).Round(100*time.Millisecond), r.Seed)
	return err
}
