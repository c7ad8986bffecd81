package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"tare/internal/run/dispatch"
	"tare/internal/unit"
)

// foresee lists the parts of a fleet with the program and the place of each, and of a run that goes on the phase of
// each. It starts nothing.
func (cmd *fleetRunCommand) foresee(c *dispatch.Config) error {
	s, err := dispatch.ReadState(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = &dispatch.State{Engine: c.Name, Plan: c.Plan}
		for i, h := range c.Hosts {
			s.Parts = append(s.Parts, dispatch.Part{Number: i + 1, Host: h})
		}
	case err != nil:
		return err
	default:
		if err := s.Other(c); err != nil {
			return usageError{fmt.Errorf("%s: %w", cmd.dir, err)}
		}
	}
	t := tabwriter.NewWriter(cmd.out, 0, 0, 2, ' ', 0)
	for i := range s.Parts {
		p := &s.Parts[i]
		how := ""
		if e, ok := c.Engine.(*dispatch.SSH); ok {
			how = e.Specs[p.Number].String()
		}
		fmt.Fprintln(t, strings.TrimRight(fmt.Sprintf("part %d\t%s\t%s\t%s", p.Number, printableLine(p.Host),
			printableLine(how), p.Phase), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if e, ok := c.Engine.(*dispatch.Slurm); ok && len(e.Args) > 0 {
		words := slices.Clone(e.Args)
		for i := range words {
			words[i] = quoteArg(words[i])
		}
		fmt.Fprintf(cmd.err, "each       sbatch %s\n", strings.Join(words, " "))
	}
	fmt.Fprintf(cmd.err, "%s, %s on %s; nothing was started\n", unit.Plural(len(s.Parts), "host"), planName(c.Plan),
		cmd.on)
	return nil
}

// planName is a plan's identity as reports have it.
func planName(identity string) string { return "plan " + identity[:min(len(identity), 12)] }
