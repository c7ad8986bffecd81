// Package piped is the part that environments share whose agent is a child process speaking on its standard streams.
package piped

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// Agents starts agents, one at a time, and ends what runs when it is closed. The zero value is ready for use.
type Agents struct {
	mu     sync.Mutex
	cur    *proc.Stream
	closed bool
}

// Start starts cmd as the agent. ctx bounds only the start: cmd must have been made with a context that lives as long
// as the agent may, because an agent's life is its stream's.
func (a *Agents) Start(ctx context.Context, cmd *proc.Cmd) (env.Stream, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	if err := a.free(); err != nil {
		return nil, err
	}
	s, err := proc.Start(cmd)
	if err != nil {
		return nil, err
	}
	a.cur = s
	return s, nil
}

// Free says why no agent can be started now, so that nothing need be prepared in vain.
func (a *Agents) Free() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free()
}

func (a *Agents) free() error {
	if a.closed {
		return errors.New("start agent: the environment is closed")
	}
	if a.cur == nil {
		return nil
	}
	select {
	case <-a.cur.Done():
		return a.cur.Close()
	default:
		return errors.New("start agent: another agent is still running; close its stream first")
	}
}

// Last returns the stream of the agent started last, nil when there was none.
func (a *Agents) Last() *proc.Stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cur
}

// Diagnose returns the evidence of the agent started last.
func (a *Agents) Diagnose() []byte {
	if s := a.Last(); s != nil {
		return s.Diagnose()
	}
	return nil
}

// Close ends the agent that runs, if any. It tells whether this was the first call.
func (a *Agents) Close() (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	first = !a.closed
	a.closed = true
	if a.cur != nil {
		a.cur.Close()
	}
	return first
}

var _ env.Diagnoser = (*proc.Stream)(nil)
