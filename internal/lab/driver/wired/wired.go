// Package wired is for machines whose agent is at the other end of a serial line, which carries one session at a time.
package wired

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tare/internal/lab/env"
	"tare/internal/measure/line"
)

// Line hands out sessions with the agent of a machine, one after another. Its fields are set before its first use.
type Line struct {
	// Dial begins a session. It bounds its own time.
	Dial func(ctx context.Context) (*line.Conn, error)
	// Hypervisor returns what else is evidence when the agent fails; nil if nothing is.
	Hypervisor func() []byte

	mu     sync.Mutex
	ready  *line.Conn // begun and not handed out yet
	last   *stream
	closed bool
}

// Keep keeps a session that was begun without Dial for the next caller of Agent.
func (l *Line) Keep(c *line.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = c
}

// Begin begins the session that the next caller of Agent gets, so that an agent that does not answer is known early.
func (l *Line) Begin(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(ctx)
}

func (l *Line) begin(ctx context.Context) (err error) {
	l.ready, err = l.Dial(ctx)
	return err
}

// Agent returns the session that was begun before, or a new one.
func (l *Line) Agent(ctx context.Context) (env.Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errors.New("connect to agent: the environment is closed")
	case l.last != nil && !l.last.ended():
		return nil, errors.New("connect to agent: the machine has one serial line, and it is in use; close its " +
			"stream first")
	}
	if l.ready == nil {
		if err := l.begin(ctx); err != nil {
			return nil, fmt.Errorf("connect to agent: %w", err)
		}
	}
	l.last = &stream{Conn: l.ready, line: l, done: make(chan struct{})}
	l.ready = nil
	return l.last, nil
}

// Diagnose returns what the guest's console said in the latest session that was handed out.
func (l *Line) Diagnose() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		return nil
	}
	return l.last.Conn.Diagnose()
}

// HangUp ends the session that was begun and not handed out. The line stays open for others.
func (l *Line) HangUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hangUp()
}

func (l *Line) hangUp() error {
	if l.ready == nil {
		return nil
	}
	c := l.ready
	l.ready = nil
	return c.Close()
}

// Close ends every session. There will be no others. The agent's end may be gone already, which is no error.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.hangUp()
	if l.last != nil {
		l.last.Close()
	}
}

// stream is a session that was handed out.
type stream struct {
	*line.Conn
	line *Line
	once sync.Once
	done chan struct{}
	err  error
}

// Close ends the session, so that there can be another.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.err = s.Conn.Close()
		close(s.done)
	})
	return s.err
}

func (s *stream) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Diagnose returns what the guest's console said, and what the hypervisor says.
func (s *stream) Diagnose() []byte {
	said := s.Conn.Diagnose()
	if s.line.Hypervisor != nil {
		said = append(said, s.line.Hypervisor()...)
	}
	return said
}
