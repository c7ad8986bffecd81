package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/judge/history"
	"tare/internal/show/report"
	"tare/internal/unit"
)

// historyCommand is `tare history`, with the flags that its commands share.
type historyCommand struct {
	*app
	address string
	json    bool
}

func (cmd *historyCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "history", Short: "Record results and show how a cell's cost changes over time",
		Long: `Record results in a history, and show how a cell's ratio changed from run to run, with changes of its
level marked.

The history is a file in your data directory ($XDG_DATA_HOME/tare/history.db, ~/.local/share without it) or, for a team,
a PostgreSQL database: --store postgres://USER@HOST/DATABASE. A password does not belong on a command line, where every
user of the machine can read it: put it into PGPASSWORD or ~/.pgpass, or the whole URL into the variable TARE_STORE,
which is used when --store is not given. ~/.pg_service.conf, PGSERVICE and PGSSLMODE count as for psql, except that TLS
is required unless a mode is set. A run is recorded once, whatever the name of its bundle, and recording it
again is safe. A server keeps the packed bundles too: docs/store.md.`,
	}
	c.PersistentFlags().StringVar(&cmd.address, "store", "",
		"file or postgres:// URL of the history [$TARE_STORE, else a file in your data directory]")
	var patience time.Duration
	add := &cobra.Command{
		Use: "add BUNDLE [BUNDLE...]", Short: "Record results",
		Long: `Record results. A bundle that is damaged, or that somebody has changed, is refused and keeps no other
from being recorded. Recording a run again changes nothing, and a run that went on since then replaces its earlier
state. So the command may be called again after any failure. A server that cannot be reached, that has no connection
left or that goes away in the middle is tried again for as long as --patience says.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.historyAdd(c.Context(), args, patience) },
	}
	add.Flags().DurationVar(&patience, "patience", time.Minute, "try a server again for so long; 0: once")
	var limit int
	show := &cobra.Command{
		Use: "show", Short: "List the recorded runs and the cells with trends", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cmd.historyShow(c.Context(), limit) },
	}
	show.Flags().IntVarP(&limit, "limit", "n", 20, "show the newest runs only; 0 shows all")
	trend := &cobra.Command{
		Use: "trend TARGET/WORKLOAD[/METRIC]", Short: "Show a cell's ratio from run to run, with its changes marked",
		Long: `Show a cell's ratio from run to run, and mark where its level changed. Changes are found by permutation
tests of a single step and of any range of runs, and by runs whose intervals do not overlap. Their joint level is 1 %:
one trend in a hundred without a change shows one. A change is reported only if the medians on both sides differ by more
than 2 %. That takes at least six runs, three on each side with intervals far apart, and eleven if they are not. If no
change is found, the last line says how large a change would have been detected. Runs whose verdict was withheld are
shown but not used. Each machine, each baseline and each work with the workload's name has its own trend.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.historyTrend(c.Context(), args[0]) },
	}
	for _, s := range []*cobra.Command{show, trend} {
		s.Flags().BoolVar(&cmd.json, "json", false, "write JSON")
	}
	c.AddCommand(add, show, trend, cmd.fetchCommand(), cmd.pinCommand(), cmd.pruneCommand(), cmd.migrateCommand(),
		cmd.dashboardCommand())
	return c
}

// openHistory opens the store that the flags and the environment name. Only to add something is a file made that the
// flags name: a name that was mistyped is no empty history.
func (cmd *historyCommand) openHistory(ctx context.Context, add bool) (*history.Store, error) {
	return cmd.openWith(ctx, add, history.Options{})
}

func (cmd *historyCommand) openWith(ctx context.Context, add bool, o history.Options) (*history.Store, error) {
	address := cmd.address
	if address != "" {
		if err := history.CheckPublic(address); err != nil {
			return nil, usageError{fmt.Errorf("--store: %w", err)}
		}
		if _, err := os.Stat(address); !add && !strings.Contains(address, "://") && errors.Is(err, fs.ErrNotExist) {
			return nil, usagef("--store: there is no history %s; start one with \"tare history add BUNDLE --store %s\"",
				address, quoteArg(address))
		}
	} else if address = cmd.getenv("TARE_STORE"); address == "" {
		dir, err := cmd.dataDir()
		if err != nil {
			return nil, err
		}
		address = filepath.Join(dir, "tare", "history.db")
		if err := os.MkdirAll(filepath.Dir(address), 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of the history: %w", err)
		}
	}
	return history.OpenWith(ctx, address, o)
}

// dataDir is the folder of a user's data: by the XDG base directory specification, and on Windows by the system.
func (cmd *historyCommand) dataDir() (string, error) {
	for _, name := range []string{"XDG_DATA_HOME", "LOCALAPPDATA"} {
		if dir := cmd.getenv(name); filepath.IsAbs(dir) {
			return dir, nil
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data directory: %w; name a file with --store", err)
	}
	return filepath.Join(home, ".local", "share"), nil
}

func (cmd *historyCommand) historyAdd(ctx context.Context, args []string, patience time.Duration) (err error) {
	s, err := cmd.openWith(ctx, true, history.Options{Patience: patience, Waiting: cmd.waitsForStore})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	refused := 0
	for _, arg := range args {
		change, e, err := cmd.record(ctx, s, arg)
		switch {
		case errors.Is(err, errRefused):
			if len(args) == 1 {
				return err
			}
			refused++
			fmt.Fprintf(cmd.err, "tare: %s\n", printableLine(err.Error()))
			continue
		case err != nil:
			return err
		}
		fmt.Fprintf(cmd.out, "%-9s  run %s of %s, %d cells\n", change, printableLine(e.Result.Run.ID),
			e.Created.UTC().Format(time.DateTime), len(e.Result.Cells))
	}
	if refused > 0 {
		return fmt.Errorf("%s of %d not recorded", unit.Plural(refused, "bundle"), len(args))
	}
	return nil
}

func (cmd *historyCommand) historyShow(ctx context.Context, limit int) (err error) {
	s, err := cmd.openHistory(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	runs, err := s.Runs(ctx, limit)
	if err != nil {
		return err
	}
	cells, err := s.Cells(ctx)
	if err != nil {
		return err
	}
	if cmd.json {
		return cmd.writeJSON(struct {
			Runs  []history.Run      `json:"runs"`
			Cells []history.CellName `json:"cells"`
		}{runs, cells})
	}
	if len(runs) == 0 {
		fmt.Fprintln(cmd.out, `nothing is recorded yet; record a result with "tare history add BUNDLE"`)
		return nil
	}
	w := tabwriter.NewWriter(cmd.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "run\tbegan (UTC)\thost\tkernel\tcells\tblocks\tbundle")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", printableLine(r.ID), r.Created.UTC().Format(time.DateTime),
			orUnknown(printableLine(r.Host)),
			orUnknown(printableLine(r.Kernel)), r.Cells, r.Blocks, printableLine(r.Bundle))
	}
	fmt.Fprintln(w, "\ncell\truns")
	for _, c := range cells {
		if c.Primary {
			fmt.Fprintf(w, "%s\t%d\n", printableLine(c.String()), c.Runs)
		}
	}
	return w.Flush()
}

func (cmd *historyCommand) historyTrend(ctx context.Context, name string) (err error) {
	s, err := cmd.openHistory(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	cell, err := s.Find(ctx, name)
	if err != nil {
		return usageError{err}
	}
	trends, err := s.Trends(ctx, cell)
	if err != nil {
		return err
	}
	if cmd.json {
		return cmd.writeJSON(trends)
	}
	for i := range trends {
		if i > 0 {
			fmt.Fprintln(cmd.out)
		}
		if err := cmd.trend(&trends[i], len(trends) > 1); err != nil {
			return err
		}
	}
	return nil
}

func (cmd *historyCommand) trend(t *history.Trend, several bool) error {
	head := printableLine(t.Cell.String()) + " on " + orUnknown(printableLine(t.Host))
	if several {
		head += fmt.Sprintf(" against %s (machine %.6s, work %.6s)", orUnknown(printableLine(t.Baseline)), t.Machine,
			t.Work)
	}
	fmt.Fprintln(cmd.out, head)
	w := tabwriter.NewWriter(cmd.out, 0, 0, 2, ' ', 0)
	for i := range t.Points {
		p := &t.Points[i]
		mark := ""
		if p.Ignored && p.Ratio > 0 {
			mark = "\tdoes not count"
		}
		if p.Changed {
			for _, s := range t.Shifts {
				if s.At == i {
					mark = fmt.Sprintf("\t<- from about %s to about %s (p %.2g)", report.RatioText(s.Before),
						report.RatioText(s.After), s.P)
				}
			}
		}
		ratio := "-\t"
		if p.Ratio > 0 {
			ratio = report.RatioText(p.Ratio) + "\t"
			if p.Low > 0 {
				ratio += fmt.Sprintf("[%s, %s]", report.RatioText(p.Low), report.RatioText(p.High))
			}
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s%s\n", p.Created.UTC().Format(time.DateTime), printableLine(p.RunID), ratio,
			p.Verdict, printableLine(p.Kernel), mark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(cmd.out, "  "+t.Text())
	return nil
}

func (cmd *historyCommand) writeJSON(v any) error {
	e := json.NewEncoder(cmd.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
