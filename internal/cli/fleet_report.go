package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/judge/fleet"
	"tare/internal/record"
	"tare/internal/run/collect"
	"tare/internal/show/report"
	"tare/internal/suggest"
)

// fleetReportCommand is `tare fleet report`.
type fleetReportCommand struct {
	*app
	format, file string
	options      fleet.Options
	strict       bool
}

func (cmd *fleetReportCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "report DIR", Short: "Judge the hosts of a fleet together, and say which of them lie apart",
		Long: `Judge the hosts of a fleet together. The unit is the host. Each ratio has its interval across the hosts,
the interval in which a further host of the kind would lie, and the number of hosts that show it. What a unit of work
costs is compared from host to host.

Hosts that lie apart are tested against the others in each primary cell, beyond the plan's margin; of all such claims at
most 5 % are false. Each is listed with the facts that few others share, the most telling first. The method and the
rates that simulations show are in docs/method.md.

"-o fleet.html" writes a page: all hosts in order of cost, a map of hosts and figures, groups by fact, and behind it a
page for each host, in the folder fleet-hosts beside it. Without --format, the extension of -o decides.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return cmd.report(c.Context(), args[0]) },
	}
	fl := c.Flags()
	fl.StringVar(&cmd.format, "format", "", oneOf(fleetFormats())+" [by the name of -o, else text]")
	fl.StringVarP(&cmd.file, "out", "o", "", "write to this file; - is standard output [-]")
	fl.BoolVar(&cmd.options.Details, "details", false, "show every metric and every host")
	fl.BoolVar(&cmd.strict, "strict", false,
		"exit with 4 when a host is missing, refused or unfinished, or a ratio cannot be decided")
	return c
}

func fleetFormats() []string {
	var names []string
	for _, f := range fleet.Formats() {
		names = append(names, f.Name)
	}
	return append(names, pageFormat)
}

// fleetFormatOf is the format that the name of a file asks for.
func fleetFormatOf(file string) string {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".html", ".htm":
		return pageFormat
	case ".json":
		return "json"
	}
	return "text"
}

func (cmd *fleetReportCommand) report(ctx context.Context, dir string) error {
	if cmd.format == "" {
		cmd.format = fleetFormatOf(cmd.file)
	}
	i := slices.Index(fleetFormats(), cmd.format)
	if i < 0 {
		return usagef("--format is %s, not %q%s", oneOf(fleetFormats()), cmd.format,
			suggest.DidYouMean(cmd.format, fleetFormats()))
	}
	o, done, err := cmd.fleetOptions(fleet.Rules{})
	if err != nil {
		return err
	}
	defer done()
	a, err := collect.Load(ctx, dir, o)
	if err != nil {
		return err
	}
	r := fleet.Judge(a)
	cmd.options.Wrap, cmd.options.Width = report.Wrap, cmd.width(100)
	render := func(w io.Writer) error { return fleet.Formats()[i].Render(w, r, cmd.options) }
	switch {
	case cmd.format == pageFormat:
		err = cmd.pages(r, a, dir)
	case cmd.file == "" || cmd.file == "-":
		err = render(cmd.out)
	default:
		err = writeWhole(cmd.file, render)
	}
	if err != nil {
		return err
	}
	if len(r.Hosts) == 0 {
		fmt.Fprintf(cmd.err, "tare: no bundle in %s counts\n", printableLine(dir))
		return codeError{exitFailed}
	}
	return ending(nil, cmd.strict, whole(r))
}

// whole tells whether all hosts are there and every primary ratio has a verdict.
func whole(r *fleet.Report) bool {
	if len(r.Hosts) < r.Expected || len(r.Refused) > 0 {
		return false
	}
	for _, h := range r.Hosts {
		if !h.Finished {
			return false
		}
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		switch c.Verdict {
		case record.Different, record.Equivalent, record.Measured:
		default:
			if c.IsRatio && c.Primary {
				return false
			}
		}
	}
	return true
}
