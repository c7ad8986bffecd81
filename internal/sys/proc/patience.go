package proc

import (
	"context"
	"sync"
	"time"
)

// timeoutTick is the time between two looks of a timeoutContext at the clock.
const timeoutTick = 250 * time.Millisecond

// WithTimeout is context.WithTimeout by a clock that stops while tare is stopped. If tare is stopped by Ctrl-Z while
// an environment opens, the opening must not time out after fg. The time between two looks at the clock counts for at
// most two ticks, so no signal handling is needed; on a busy machine where looks are late, the timeout is longer.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	parent, cancel := context.WithCancelCause(parent)
	p := &timeoutContext{Context: parent, done: make(chan struct{})}
	if err := parent.Err(); err != nil {
		p.end(err) // at once, so that nothing is begun
	}
	go func() {
		for left := d; left > 0; {
			began := time.Now()
			select {
			case <-time.After(min(left, timeoutTick)):
				left -= min(time.Since(began), 2*timeoutTick)
			case <-parent.Done():
				p.end(parent.Err())
				return
			}
		}
		p.end(context.DeadlineExceeded)
		cancel(context.DeadlineExceeded)
	}()
	return p, func() {
		p.end(context.Canceled) // unless it ended before
		cancel(nil)
	}
}

// timeoutContext is a context whose deadline is not known in advance. It has the parent's values, and the cause of the
// parent's end.
type timeoutContext struct {
	context.Context
	done chan struct{}

	mu  sync.Mutex
	err error
}

func (p *timeoutContext) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.done)
	}
}

// Deadline returns none, because it moves.
func (p *timeoutContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func (p *timeoutContext) Done() <-chan struct{} { return p.done }

func (p *timeoutContext) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
