package command

import (
	"context"
	"os"
	"time"
)

// CheckHook returns an error if a command line cannot be run: it has no program, or a quote that is not closed.
func CheckHook(shell, line string) error {
	_, err := commandLine(shell, line)
	return err
}

// Hook runs a command line of the user's that belongs to another kind's work and must succeed within a time. What it
// leaves running, such as a server, stays. name is what the user calls it.
func Hook(ctx context.Context, name, shell, line string, timeout time.Duration) error {
	return once(ctx, name, shell, line, runner{dir: "/", env: os.Environ(), timeout: timeout})
}
