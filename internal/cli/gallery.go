package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/plan"
	"tare/internal/show/gallery"
	"tare/internal/unit"
)

// exitSkipped says that the site was built without some of the bundles.
const exitSkipped = 5

// galleryCommand is `tare gallery`.
type galleryCommand struct {
	*app
	title             string
	only, names, bare bool
	words             []string
	most              string
	timeout           time.Duration
}

func (cmd *galleryCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "gallery DIR [BUNDLE...]", Short: "Write a static site of results: search, rankings, trends",
		Long: `Write a static site of results into the folder DIR: an index with search and filters by environment, workload, processor
and kernel, a page for each result, and for each workload a ranking and its course over time. Open DIR/index.html, or
copy the folder to any web server. No page asks for anything outside the site.

Results add up: name the new bundles only. A file that is named again replaces what it held; --only takes off the site
what is not named. Without bundles, the site is made again of the bundles that it has. Only what changed is written.

Bundles may be those of strangers. Each is unpacked within --max-size and --timeout and verified; one that is damaged,
forged or too large is named and left out, and the exit code is 5. Unless --no-redact is given, the names of hosts and
users, paths, addresses and serial numbers are replaced as by "tare bundle pack --redact"; --redact-word replaces names
that no rule can know. Look at the site before you publish it.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.gallery(c.Context(), args[0], args[1:]) },
	}
	fl := c.Flags()
	fl.StringVar(&cmd.title, "title", "", "the site's title [the one it has, else Results]")
	fl.BoolVar(&cmd.only, "only", false, "take results off the site that are not named")
	fl.BoolVar(&cmd.names, "no-redact", false, "leave names of hosts and users, paths and addresses")
	fl.StringArrayVar(&cmd.words, "redact-word", nil, "also replace this word (repeatable)")
	fl.BoolVar(&cmd.bare, "no-bundles", false, "offer no packed bundles for download")
	fl.StringVar(&cmd.most, "max-size", unit.FormatSize(gallery.DefaultMaxBytes), "skip a bundle that is larger, also "+
		"unpacked")
	fl.DurationVar(&cmd.timeout, "timeout", gallery.DefaultTimeout, "skip a bundle that takes longer")
	return c
}

func (cmd *galleryCommand) gallery(ctx context.Context, dir string, bundles []string) error {
	most, err := unit.ParseSize(cmd.most)
	if err == nil && most <= 0 {
		err = errors.New("it must be more than nothing")
	}
	if err != nil {
		return usagef("--max-size: %w", err)
	}
	if cmd.timeout <= 0 {
		return usagef("--timeout must be more than nothing")
	}
	if cmd.names && len(cmd.words) > 0 {
		return usagef("--no-redact and --redact-word exclude each other")
	}
	if cmd.only && len(bundles) == 0 {
		return usagef("--only would take all results off the site: name those that shall stay")
	}
	cmd.holding("what is written stays, the next build goes on")
	s, err := gallery.Build(ctx, gallery.Options{Dir: dir, Bundles: bundles, Title: cmd.title, Only: cmd.only,
		Names: cmd.names, Secrets: cmd.secrets(cmd.words), NoBundles: cmd.bare, MaxBytes: most, Timeout: cmd.timeout,
		Scratch: cmd.scratchBase(), RunID: newRunID(), Kinds: cmd.kind, Command: cmd.repeating})
	for _, x := range s.Skipped {
		fmt.Fprintf(cmd.err, "tare: skipped %s: %s\n", printableLine(x.Bundle), printableLine(x.Err.Error()))
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("the build of %s was stopped: repeat it to go on", dir)
	}
	if err != nil {
		return err
	}
	for _, run := range s.Twice {
		fmt.Fprintf(cmd.err, "tare: several results say that they are run %s: their pages say so\n", printableLine(run))
	}
	text := fmt.Sprintf("%s: %s, %d made anew; %s written, %d removed", quoteArg(dir), unit.Plural(s.Results, "result"),
		s.Made, unit.Plural(len(s.Written), "file"), len(s.Removed))
	if s.Same > 0 {
		text += fmt.Sprintf("; %s named more than once", unit.Plural(s.Same, "bundle"))
	}
	if n := len(s.Skipped); n > 0 {
		fmt.Fprintf(cmd.out, "%s; %s skipped\n", text, unit.Plural(n, "bundle"))
		return codeError{exitSkipped}
	}
	fmt.Fprintln(cmd.out, text)
	return nil
}

// repeating is the command line that makes a plan again; "" where a command line cannot say it.
func (cat *catalog) repeating(p *plan.Plan) string {
	if words, ok := plan.Arguments(p, cat.tables()); ok {
		return commandLine(words)
	}
	return ""
}
