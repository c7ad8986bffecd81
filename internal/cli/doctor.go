package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"tare/internal/lab/env"
)

// doctorCommand is `tare doctor`.
type doctorCommand struct {
	*app
}

func (cmd *doctorCommand) command() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Show what this machine has, what is missing, and the command that installs it",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all := cmd.drivers.All()
			status := cmd.probe(c.Context())
			for i, d := range all {
				mark := "ok     "
				if !status[i].OK {
					mark = "missing"
				}
				fmt.Fprintf(cmd.out, "%s  %-10s %s\n", mark, d.Name, status[i].Detail)
				if !status[i].OK && status[i].Remedy != "" {
					fmt.Fprintf(cmd.out, "                    get it: %s\n", status[i].Remedy)
				}
			}
			return nil
		},
	}
}

// probe asks all drivers at once whether they can work here.
func (cat *catalog) probe(ctx context.Context) []env.Status {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	all := cat.drivers.All()
	status := make([]env.Status, len(all))
	var wait sync.WaitGroup
	for i, d := range all {
		if d.Probe == nil {
			status[i] = env.Status{OK: true}
			continue
		}
		wait.Go(func() { status[i] = d.Probe(ctx) })
	}
	wait.Wait()
	return status
}
