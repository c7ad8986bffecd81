package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tare/contrib"
	"tare/internal/bundle"
	"tare/internal/judge/history"
	"tare/internal/plan"
	"tare/internal/unit"
)

func (cmd *historyCommand) fetchCommand() *cobra.Command {
	var planFile, dir string
	c := &cobra.Command{
		Use: "fetch [RUN...]", Short: "Take packed bundles out of a history on a server",
		Long: `Take packed bundles out of a history on a server: those of the runs that are named, or of all runs of a
plan. What a fleet's hosts have recorded is brought together so, without a file system that they share:

    tare history fetch --plan nodes.yaml -o bundles --store postgres://me@db/tare
    tare fleet collect nodes bundles`,
		RunE: func(c *cobra.Command, args []string) error { return cmd.fetch(c.Context(), args, planFile, dir) },
	}
	c.Flags().StringVar(&planFile, "plan", "", "the bundles of all runs of this plan")
	c.Flags().StringVarP(&dir, "out", "o", ".", "folder for the packed bundles, made by tare")
	return c
}

func (cmd *historyCommand) fetch(ctx context.Context, runs []string, planFile, dir string) (err error) {
	if (len(runs) == 0) == (planFile == "") {
		return usagef("name runs, or a plan with --plan; `tare history show` lists runs")
	}
	identity := ""
	if planFile != "" {
		src, err := readPlan(planFile)
		if err != nil {
			return err
		}
		if _, identity, err = cmd.asked(ctx, planFile, src, &plan.Flags{}); err != nil {
			return err
		}
	}
	s, err := cmd.openHistory(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := s.Bundles(ctx, runs, identity)
	if err != nil {
		return err
	}
	if len(list) < len(runs) || len(list) == 0 {
		return fmt.Errorf("%d of %s kept there: a run may not be recorded, or its bundle was pruned",
			len(list), unit.Plural(max(len(runs), 1), "bundle"))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range list {
		if err := cmd.fetchOne(ctx, s, &list[i], dir); err != nil {
			return err
		}
	}
	return nil
}

func (cmd *historyCommand) fetchOne(ctx context.Context, s *history.Store, k *history.Kept, dir string) error {
	path := filepath.Join(dir, bundle.EvidenceName(strings.ToLower(k.Host)+"-"+k.RunID)+bundle.Ext)
	if old, err := os.Open(path); err == nil {
		sum := sha256.New()
		_, err := io.Copy(sum, io.LimitReader(old, history.MaxPacked+1))
		old.Close()
		if err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) == k.SHA256 {
			fmt.Fprintf(cmd.out, "is there   %s\n", printableLine(path))
			return nil
		}
	}
	packed, err := s.Packed(ctx, k)
	if err != nil {
		return err
	}
	if err := writeWhole(path, func(w io.Writer) error { _, err := w.Write(packed); return err }); err != nil {
		return err
	}
	fmt.Fprintf(cmd.out, "fetched    %s\n", printableLine(path))
	return nil
}

func (cmd *historyCommand) pinCommand() *cobra.Command {
	var undo bool
	c := &cobra.Command{
		Use: "pin RUN [RUN...]", Short: "Keep runs whatever their age",
		Long: `Keep runs whatever their age: those that others are compared with, such as the first ones of a fleet
after it was set up. "tare history prune" leaves them alone, with their bundles.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) (err error) {
			s, err := cmd.openHistory(c.Context(), false)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			n, err := s.Pin(c.Context(), args, !undo)
			if errors.Is(err, history.ErrUnknown) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.out, "%s of %d\n", map[bool]string{false: "pinned", true: "no longer pinned:"}[undo]+" "+
				unit.Plural(n, "run"), len(args))
			return nil
		},
	}
	c.Flags().BoolVar(&undo, "undo", false, "unpin them")
	return c
}

func (cmd *historyCommand) pruneCommand() *cobra.Command {
	var age, bundleAge string
	r := history.Retention{}
	c := &cobra.Command{
		Use: "prune", Short: "Remove runs that are old",
		Long: `Remove runs that were recorded longer ago than --older-than says, and packed bundles of other runs by
--bundles-older-than; the figures of these stay. The age is by the clock of the database, not by those of hosts. What a
comparison needs stays: runs that are pinned, and the newest --keep of each trend, however old. Sixteen are what a trend
takes to show a change of its last three runs.

    tare history prune --older-than 2y --bundles-older-than 90d --store postgres://me@db/tare`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if r.Age, err = ageOf("--older-than", age); err != nil {
				return err
			}
			if r.BundleAge, err = ageOf("--bundles-older-than", bundleAge); err != nil {
				return err
			}
			if r.Age == 0 && r.BundleAge == 0 {
				return usagef("say how old with --older-than or --bundles-older-than: 90d, 52w, 2y")
			}
			if r.Keep < 0 {
				return usagef("--keep must not be below 0")
			}
			return cmd.prune(c.Context(), r)
		},
	}
	c.Flags().StringVar(&age, "older-than", "", "runs recorded longer ago: 90d, 52w, 2y")
	c.Flags().StringVar(&bundleAge, "bundles-older-than", "", "packed bundles recorded longer ago; their figures stay")
	c.Flags().IntVar(&r.Keep, "keep", 16, "how many of the newest runs of each trend stay")
	c.Flags().BoolVar(&r.DryRun, "dry-run", false, "say what would be removed, and remove nothing")
	return c
}

func (cmd *historyCommand) prune(ctx context.Context, r history.Retention) (err error) {
	s, err := cmd.openHistory(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if r.BundleAge > 0 && !s.Server() {
		return usageError{fmt.Errorf("--bundles-older-than: %w", history.ErrNoServer)}
	}
	p, err := s.Prune(ctx, r)
	if err != nil {
		return err
	}
	what := "removed"
	if r.DryRun {
		what = "would remove"
	}
	fmt.Fprintf(cmd.out, "%s %s", what, unit.Plural(p.Runs, "run"))
	if s.Server() {
		fmt.Fprintf(cmd.out, ", and %s of others; %.1f MiB of bundles", unit.Plural(p.Bundles, "bundle"),
			float64(p.Bytes)/(1<<20))
	}
	fmt.Fprintln(cmd.out)
	if p.Pinned > 0 || p.Needed > 0 {
		fmt.Fprintf(cmd.out, "kept %d pinned, and %d that trends need\n", p.Pinned, p.Needed)
	}
	return nil
}

// longestAge bounds an age: beyond it a date is none any more.
const longestAge = 200 * 365 * 24 * time.Hour

// ageOf reads an age in days, weeks or years, or as a duration; "" is 0.
func ageOf(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	const day = 24 * time.Hour
	var d time.Duration
	var err error
	n, each := text[:len(text)-1], map[byte]time.Duration{'d': day, 'w': 7 * day, 'y': 365 * day}[text[len(text)-1]]
	if each > 0 {
		var count uint64
		if count, err = strconv.ParseUint(n, 10, 32); err == nil && count <= uint64(longestAge/each) {
			d = time.Duration(count) * each
		}
	} else {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 || d > longestAge {
		return 0, usagef("%s: %q is no age such as 90d, 52w or 2y", flag, text)
	}
	return d, nil
}

func (cmd *historyCommand) migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "migrate", Short: "Make the tables of a history, or upgrade those that an older tare made",
		Long: `Make the tables of a history, or upgrade those that an older tare made. In a file that happens by itself.
On a server, where a whole fleet writes, somebody has to ask for it: older tares cannot use the tables afterwards. It
needs a role that may create in the schema; recording and reading do not. It waits for writers to finish, and an upgrade
that fails changes nothing.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := cmd.openWith(c.Context(), true, history.Options{Upgrade: true})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.out, "the tables have version %d\n", history.Schema)
			return s.Close()
		},
	}
}

func (cmd *historyCommand) dashboardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "dashboard", Short: "Print a Grafana dashboard for a history in PostgreSQL",
		Long: `Print a Grafana dashboard for a history in PostgreSQL. Import it in Grafana (Dashboards, New, Import) and
choose the data source, whose role only needs to read: docs/store.md.

    tare history dashboard >tare-dashboard.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := contrib.Files.ReadFile("grafana/tare.json")
			if err != nil {
				return err
			}
			_, err = cmd.out.Write(text)
			return err
		},
	}
}
