// Package piped is for environments whose agent is a child process that uses its standard streams.
package piped

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// Agents starts agents, one at a time, and ends the running one when it is closed. The zero value is ready for use.
type Agents struct {
	mu     sync.Mutex
	cur    *proc.Stream
	closed bool
}

// Start starts cmd as the agent. ctx bounds only the start. The context of cmd must live as long as the agent, because
// the agent ends with its stream.
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

// Free says why no agent can be started now, before a caller prepares one in vain.
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

// Last returns the stream of the last agent; nil if there was none.
func (a *Agents) Last() *proc.Stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cur
}

// Pid is the process id of the running agent; 0 if none runs.
func (a *Agents) Pid() int {
	s := a.Last()
	if s == nil {
		return 0
	}
	select {
	case <-s.Done():
		return 0
	default:
		return s.Pid()
	}
}

// Diagnose returns the evidence of the last agent.
func (a *Agents) Diagnose() []byte {
	if s := a.Last(); s != nil {
		return s.Diagnose()
	}
	return nil
}

// Close ends the running agent, if there is one. It tells whether this was the first call.
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
