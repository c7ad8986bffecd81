package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"tare/internal/sys/filelock"
)

// fleetHeldCommand is `tare fleet held`, which `tare fleet run` calls on hosts.
type fleetHeldCommand struct {
	*app
}

func (cmd *fleetHeldCommand) command() *cobra.Command {
	return &cobra.Command{
		Use: "held FILE", Short: "Tell whether a process holds the lock of a file", Hidden: true,
		Long: "Exit with 0 if a process holds the lock of a file, and with 1 if none does.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := filelock.Try(args[0])
			switch {
			case errors.Is(err, filelock.ErrHeld):
				return nil
			case err != nil:
				return err
			}
			l.Release()
			return codeError{exitFailed}
		},
	}
}
