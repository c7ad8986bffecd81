package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/lab/leftover"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/semantics"
	"tare/internal/sys/proc"
)

// targetCard is the card of one target, or the reason why there is none.
type targetCard struct {
	Target string            `json:"target"`
	FS     string            `json:"fs,omitempty"` // file system and options, from the kernel inside
	Mount  *record.Mount     `json:"mount,omitempty"`
	Card   []record.Property `json:"card,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// cardCommand is `tare card`.
type cardCommand struct {
	*app
	flags struct {
		plan    plan.Flags
		format  string
		details bool
	}
}

func (cmd *cardCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "card", Short: "Test how files behave in a folder: locks, change events, caches, names",
		Long: `Open environments, test files in their mounts from inside and from the host, and print the results. Only lags are
measured, and nothing is kept. An environment without -m is tested in its own working directory.

    tare card -e box=namespace -m box:bind
    tare card -e vm=qemu -m vm:9p -m vm:virtiofs --details
    tare card -e host -m host:data=dir:/mnt/share --format json

An answer with ! causes trouble for developers. A mount takes up to 20 s, on a slow machine
up to 80, a copy by rsync up to five minutes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if cmd.flags.format != "text" && cmd.flags.format != "json" {
				return usagef("--format is text or json, not %q", cmd.flags.format)
			}
			if len(cmd.flags.plan.Environments) == 0 {
				return usagef("name an environment: -e host, or -e box=namespace -m box:bind")
			}
			cmd.flags.plan.Workloads = []string{cmd.kinds[0].Name} // a plan has one; none is run
			p, err := plan.FromFlags(nil, cmd.flags.plan, cmd.tables())
			if err != nil {
				return err
			}
			return cmd.cards(c.Context(), p, cmd.flags.format, cmd.flags.details)
		},
	}
	fl := c.Flags()
	fl.StringArrayVarP(&cmd.flags.plan.Environments, "env", "e", nil,
		"an environment: NAME[=DRIVER[:ARG][?key=value&...]] (repeatable)")
	fl.StringArrayVarP(&cmd.flags.plan.Mounts, "mount", "m", nil,
		"a folder in an environment: ENVIRONMENT:NAME[=KIND[:ARG][?key=value&...]] (repeatable)")
	fl.StringVar(&cmd.flags.format, "format", "text", "text or json")
	fl.BoolVar(&cmd.flags.details, "details", false, "show what was tested and observed")
	return c
}

// cards makes the cards of a plan's environments, one environment after the other, and prints them. An environment that
// cannot be opened leaves the others alone, and makes the exit code 1.
func (cmd *cardCommand) cards(ctx context.Context, p *plan.Plan, format string, details bool) error {
	cmd.holding("temporary files are removed")
	runID := newRunID()
	scratch, release, err := leftover.New(cmd.scratchBase(), runID)
	if err != nil {
		return fmt.Errorf("make the run's private directory: %w", err)
	}
	defer release()
	agents := deploy.NewStore(filepath.Join(scratch, "agents"))
	defer agents.Close()
	var all []targetCard
	for i := range p.Targets {
		e := &p.Targets[i]
		if !e.Opens() {
			continue
		}
		dir := filepath.Join(scratch, e.Name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("environment %s: make directory: %w", e.Name, err)
		}
		o := env.Options{Spec: e.Spec, RunID: runID, Dir: dir, Agents: agents, Log: cmd.log.With("env", e.Name)}
		for _, m := range p.Mounts(e.Name) {
			o.Mounts = append(o.Mounts, m.Spec)
		}
		got, err := cmd.cardsOf(ctx, o)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			got = append(got, targetCard{Target: e.Name, Error: printableLine(err.Error())})
		}
		all = append(all, got...)
	}
	if format == "json" {
		enc := json.NewEncoder(cmd.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(all); err != nil {
			return err
		}
	} else if err := printCards(cmd.out, all, details); err != nil {
		return err
	}
	for _, t := range all {
		if t.Error != "" {
			return codeError{exitFailed}
		}
	}
	return nil
}

// openTime bounds the opening of an environment for its cards: an emulated machine needs a while to boot.
const openTime = 3 * time.Minute

// cardsOf opens one environment and makes its cards.
func (cmd *cardCommand) cardsOf(ctx context.Context, o env.Options) (cards []targetCard, err error) {
	info, ok := cmd.drivers.Lookup(o.Driver)
	if !ok {
		return nil, fmt.Errorf("environment %s: there is no driver %q", o.Name, o.Driver)
	}
	opening, cancel := proc.WithTimeout(ctx, info.Patience(o.Spec, openTime))
	defer cancel()
	opened, err := info.Driver.Open(opening, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	s, err := deploy.Attach(opening, opened, o.RunID)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	mounts := []env.Mounted{{}} // the environment's own directory
	if m, ok := opened.(env.Mounter); ok && len(o.Mounts) > 0 {
		mounts = m.Mounts()
	}
	for i := range mounts {
		m := &mounts[i]
		t := targetCard{Target: o.Name}
		if m.Name != "" {
			t.Target, t.Mount = o.Name+":"+m.Name, &m.Mount
		}
		fmt.Fprintf(cmd.err, "trying     %s\n", t.Target)
		if err := fill(ctx, s, m, &t); err != nil {
			if ctx.Err() != nil {
				return cards, ctx.Err()
			}
			t.Error = printableLine(err.Error())
		}
		cards = append(cards, t)
		if !s.Alive() {
			return cards, fmt.Errorf("%s: the agent was lost; the remaining tests were not done", o.Name)
		}
	}
	return cards, nil
}

// fill puts the mount in place where that is left to do, and makes its card.
func fill(ctx context.Context, s *deploy.Conn, m *env.Mounted, t *targetCard) error {
	if m.Err != nil {
		return m.Err
	}
	if m.Order != nil {
		if _, err := s.Mount(ctx, m.Order); err != nil {
			return err
		}
	}
	facts, err := s.FactsAt(ctx, m.Mount.Dir)
	if err != nil {
		return fmt.Errorf("collect facts of %s: %w", t.Target, err)
	}
	if why := facts.Extra["work_dir.error"]; why != "" {
		return errors.New(why)
	}
	t.FS = facts.WorkFS
	var options string
	m.Mount.Type, options, _ = strings.Cut(facts.WorkFS, " (")
	m.Mount.Source, m.Mount.Options = facts.Extra["work.source"], strings.TrimSuffix(options, ")")
	t.Card, err = semantics.For(ctx, s, m, 0)
	return err
}

// printCards lays the cards side by side: a line for each property that was tried anywhere.
func printCards(w io.Writer, all []targetCard, details bool) error {
	var order []record.Property
	answers := map[string][]string{}
	head := "\t"
	for i, t := range all {
		head += t.Target + "\t"
		for _, p := range t.Card {
			if answers[p.Name] == nil {
				answers[p.Name] = make([]string, len(all))
				order = append(order, p)
			}
			if answers[p.Name][i] = p.Answer; p.Rating == "bad" {
				answers[p.Name][i] += " !"
			}
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(order) > 0 {
		fmt.Fprintln(table, head)
	}
	for _, p := range order {
		fmt.Fprintf(table, "%s\t%s\t\n", p.Title, strings.Join(answers[p.Name], "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, t := range all {
		if t.Error != "" {
			fmt.Fprintf(w, "\n%s: %s\n", t.Target, t.Error)
		}
		if !details {
			continue
		}
		fmt.Fprintf(w, "\n%s  %s\n", t.Target, t.FS)
		for _, p := range t.Card {
			fmt.Fprintf(w, "  %s: %s\n%s\n", p.Title, p.Answer, wrap(p.Detail, 4, 110))
		}
	}
	return nil
}
