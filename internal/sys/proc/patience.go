package proc

import (
	"context"
	"sync"
	"time"
)

// patienceTick is how often a patient context looks at the clock.
const patienceTick = 250 * time.Millisecond

// WithPatience is context.WithTimeout by a clock that stands still while tare does. Stopped by Ctrl-Z, it hears nothing
// of an environment that opens meanwhile, and must not find after fg that it took too long. Time that passes between
// two looks counts for no more than two of them, so nothing has to know of signals; on a machine so busy that looks
// come late, patience lasts longer.
func WithPatience(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	parent, cancel := context.WithCancelCause(parent)
	p := &patient{Context: parent, done: make(chan struct{})}
	if err := parent.Err(); err != nil {
		p.end(err) // at once: nothing is to be begun
	}
	go func() {
		for left := d; left > 0; {
			began := time.Now()
			select {
			case <-time.After(min(left, patienceTick)):
				left -= min(time.Since(began), 2*patienceTick)
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

// patient is a context whose end is not known beforehand. Of the parent it has the values, among them the cause of its
// end.
type patient struct {
	context.Context
	done chan struct{}

	mu  sync.Mutex
	err error
}

func (p *patient) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		close(p.done)
	}
}

// Deadline tells of none: it moves.
func (p *patient) Deadline() (time.Time, bool) { return time.Time{}, false }

func (p *patient) Done() <-chan struct{} { return p.done }

func (p *patient) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
