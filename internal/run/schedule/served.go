package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tare/internal/record"
)

// whileServed returns a context for work in a target that ends after a time and with the target's server: a client that
// waits for its server for ever, as NFS does, would make of each dead server a deadline, with a cause that is not the
// true one.
func (t *target) whileServed(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	if t.Served == nil || t.Served.Ended == nil {
		return ctx, cancel
	}
	select {
	case <-t.Served.Ended:
		cancel() // before anything is asked of the agent
		return ctx, cancel
	default:
	}
	go func() {
		select {
		case <-t.Served.Ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// serverEndDelay bounds the time until the end of a server is known after work in its folder has failed.
const serverEndDelay = time.Second

// explainFailure adds the server's messages to a failure in a mount, and puts the server's end in the place of the
// failure that followed from it. A machine that died took its server with it, and is itself the cause.
func (t *target) explainFailure(f *record.Failure) *record.Failure {
	m := t.Served
	if f == nil || m == nil || f.Kind == "refused" || t.Agent != nil && !t.Agent.Alive() {
		return f
	}
	told := *f
	if m.Ended != nil {
		select {
		case <-m.Ended:
			told.Kind, told.Message = kindServerDied,
				fmt.Sprintf("%s: the server of the mount, %s, has ended: %v", t.Record.Name, m.Mount.Server, m.Why())
			if f.Kind != "cancelled" {
				told.Message += "; the work there failed with: " + f.Message
			}
		case <-time.After(serverEndDelay):
		}
	}
	if m.Diagnose != nil {
		if said := m.Diagnose(); len(said) > 0 {
			told.Evidence = printable(slices.Concat([]byte(f.Evidence), []byte("\n[server] "), said))
		}
	}
	return &told
}
