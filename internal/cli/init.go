package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"tare/internal/plan"
)

// initCommand is `tare init`.
type initCommand struct {
	*app
	flags struct {
		force bool
	}
}

func (cmd *initCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "init [FILE]", Short: "Write a commented plan for this machine",
		Long: "Write a commented plan for the environments that this machine has. FILE is tare.yaml by default; - " +
			"is standard output.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := "tare.yaml"
			if len(args) == 1 {
				name = args[0]
			}
			text := plan.Example(cmd.tables(), cmd.here(c.Context()))
			if name == "-" {
				_, err := cmd.out.Write(text)
				return err
			}
			flag := os.O_CREATE | os.O_WRONLY | os.O_EXCL
			if cmd.flags.force {
				flag = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
			}
			file, err := os.OpenFile(name, flag, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return usagef("%s already exists; give another name, or --force to overwrite it", name)
			}
			if err != nil {
				return fmt.Errorf("write plan: %w", err)
			}
			if _, err := file.Write(text); err != nil {
				file.Close()
				return fmt.Errorf("write plan: %w", err)
			}
			if err := file.Close(); err != nil {
				return fmt.Errorf("write plan: %w", err)
			}
			fmt.Fprintf(cmd.err, "wrote %s; check it, then: tare run %s\n", name, quoteArg(name))
			return nil
		},
	}
	c.Flags().BoolVar(&cmd.flags.force, "force", false, "overwrite FILE")
	return c
}
