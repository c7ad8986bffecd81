package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"tare/internal/lab/diskimage"
)

// diskCommand is `tare disk`.
type diskCommand struct {
	*app
}

func (cmd *diskCommand) command() *cobra.Command {
	root := &cobra.Command{Use: "disk",
		Short: "Inspect virtual disk images: their layout, what it costs, how to fix it"}
	root.AddCommand(cmd.diskInspectCommand())
	return root
}

func (cmd *diskCommand) diskInspectCommand() *cobra.Command {
	var format string
	var full bool
	c := &cobra.Command{
		Use: "inspect IMAGE...", Short: "Show how an image is laid out, what that costs, and the command that fixes it",
		Long: `Inspect virtual disk images (raw, VDI, VMDK, VHD, VHDX, qcow2, Parallels). Show the layout of each: blocks,
alignment, fragmentation in the file and on the host, space used by the guest's file systems, snapshots and parents, and
the expected cost of a write; then what to do about it. Nothing is written. The image may be in use, but the report may
then mix two states.

The exit code is 1 when an image cannot be read or is damaged; the other images are still inspected.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return usagef("--format is text or json, not %q", format)
			}
			defer spareCollector()()
			var errs []error
			for i, path := range args {
				r, err := diskimage.Inspect(c.Context(), path, diskimage.Options{Full: full})
				if c.Context().Err() != nil {
					return err
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if err := cmd.writeDisk(r, format, i > 0); err != nil {
					return err
				}
				if r.Damaged() {
					errs = append(errs, fmt.Errorf("%s is damaged", path))
				}
			}
			return errors.Join(errs...)
		},
	}
	c.Flags().StringVar(&format, "format", "text", "text, or json: one document for each image, on a line of its own")
	c.Flags().BoolVar(&full, "full", false, "read all data to count zeros, not only samples")
	return c
}

// The collector while images are looked at. The command lives for milliseconds, of which collecting the few megabytes
// that a sound image takes would be a quarter; the limit brings the collector back for one that takes more.
const (
	inspectGrowth = 800      // percent: first at 32 MiB
	inspectMemory = 32 << 20 // bytes
)

// spareCollector has the collector wait, and returns what undoes that.
func spareCollector() func() {
	growth, memory := debug.SetGCPercent(inspectGrowth), debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(memory, inspectMemory))
	return func() {
		debug.SetGCPercent(growth)
		debug.SetMemoryLimit(memory)
	}
}

func (cmd *diskCommand) writeDisk(r *diskimage.Report, format string, another bool) error {
	if format == "json" {
		return json.NewEncoder(cmd.out).Encode(r)
	}
	if another {
		if _, err := fmt.Fprintln(cmd.out); err != nil {
			return err
		}
	}
	return diskimage.Text(cmd.out, r, cmd.width(100))
}
