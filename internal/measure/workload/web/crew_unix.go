//go:build unix

package web

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"tare/internal/sys/thread"
)

// crew is all lanes of a trial.
type crew struct {
	lanes []*lane
	stop  atomic.Bool
	undo  func() // of the room made for the lanes
}

func newCrew(l *load, connections, threads int) (*crew, error) {
	c := &crew{undo: thread.Room(threads)}
	for i := range threads {
		n, err := newLane(l, connections*(i+1)/threads-connections*i/threads, i, threads, &c.stop)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.lanes = append(c.lanes, n)
	}
	return c, nil
}

// run divides n requests among the lanes.
func (c *crew) run(ctx context.Context, n int64) error {
	k := int64(len(c.lanes))
	return c.each(ctx, func(i int) error { return c.lanes[i].run(n*int64(i+1)/k - n*int64(i)/k) })
}

// connect has each lane make its connections.
func (c *crew) connect(ctx context.Context) error {
	return c.each(ctx, func(i int) error { return c.lanes[i].connect() })
}

// each has every lane do something, side by side.
func (c *crew) each(ctx context.Context, do func(i int) error) error {
	defer context.AfterFunc(ctx, func() { c.stop.Store(true) })()
	errs := make([]error, len(c.lanes))
	var rest sync.WaitGroup
	for i := range c.lanes[1:] {
		rest.Go(func() {
			if errs[i+1] = do(i + 1); errs[i+1] != nil {
				c.stop.Store(true)
			}
		})
	}
	if errs[0] = do(0); errs[0] != nil {
		c.stop.Store(true)
	}
	rest.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// merge returns the first lane with the figures of all.
func (c *crew) merge() *lane {
	all := c.lanes[0]
	for _, l := range c.lanes[1:] {
		all.times.Merge(&l.times)
		if all.since != nil {
			all.since.Merge(l.since)
			all.lags.Merge(l.lags)
		}
		all.bytes += l.bytes
		all.reopened += l.reopened
		all.looked += l.looked
		all.followed += l.followed
	}
	return all
}

// protocol is the protocol that a connection's TLS has agreed on.
func (c *crew) protocol() (string, bool) {
	for _, l := range c.lanes {
		if l.tls != "" {
			return l.tls, true
		}
	}
	return "", false
}

func (c *crew) close() error {
	for _, l := range c.lanes {
		l.close()
	}
	c.undo()
	return nil
}
