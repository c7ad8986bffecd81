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
		n, err := newLane(l, connections*(i+1)/threads-connections*i/threads, &c.stop)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.lanes = append(c.lanes, n)
	}
	return c, nil
}

// run divides n requests among the lanes.
func (c *crew) run(ctx context.Context, n int64) error {
	defer context.AfterFunc(ctx, func() { c.stop.Store(true) })()
	share := func(i int) int64 {
		k := int64(len(c.lanes))
		return n*int64(i+1)/k - n*int64(i)/k
	}
	errs := make([]error, len(c.lanes))
	var rest sync.WaitGroup
	for i := range c.lanes[1:] {
		rest.Go(func() {
			if errs[i+1] = c.lanes[i+1].run(share(i + 1)); errs[i+1] != nil {
				c.stop.Store(true)
			}
		})
	}
	if errs[0] = c.lanes[0].run(share(0)); errs[0] != nil {
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

func (c *crew) close() error {
	for _, l := range c.lanes {
		l.close()
	}
	c.undo()
	return nil
}
