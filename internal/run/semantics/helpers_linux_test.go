package semantics

import (
	"context"
	"testing"
	"time"

	"tare/internal/measure/guestabi"
	"tare/internal/sys/proc"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// rsyncOrder is an order as package mount gives it to a guest, between two folders of this machine.
func rsyncOrder(from, to string) *guestabi.Mount {
	return &guestabi.Mount{Dir: to, Once: true, Command: []string{"rsync", "-a", "--delete", from + "/", to + "/"}}
}

// copier brings a copy up to date with a real program.
func copier(argv []string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := proc.Run(ctx, nil, argv...)
		return err
	}
}

// onlyOnce does nothing when it is asked again.
func onlyOnce(sync func(context.Context) error) func(context.Context) error {
	done := false
	return func(ctx context.Context) error {
		if done {
			return nil
		}
		done = true
		return sync(ctx)
	}
}
