package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// The pause between two checks: short at first, to measure a short lag exactly, then a sixteenth of the elapsed time,
// so that a long wait uses little CPU time.
const (
	shortestPause = 500 * time.Microsecond
	longestPause  = 25 * time.Millisecond
)

// wait checks until the request's condition holds. A time-out is an answer, not a fault.
func (b *Box) wait(ctx context.Context, r *Request, reply *Reply) error {
	look, err := b.look(r)
	if err != nil {
		return err
	}
	began := time.Now()
	last := began
	for {
		seen, err := look()
		now := time.Now()
		reply.Polls++
		reply.WaitedNS = int64(now.Sub(began))
		if err != nil {
			return err
		}
		if seen {
			reply.Seen, reply.GapNS = true, int64(now.Sub(last))
			return nil
		}
		if reply.WaitedNS >= r.TimeoutNS {
			return nil
		}
		last = now
		if !sleep(ctx, min(max(now.Sub(began)/16, shortestPause), longestPause)) {
			return nil
		}
	}
}

// look returns the check that a wait repeats.
func (b *Box) look(r *Request) (func() (bool, error), error) {
	if r.Until == UntilMapData {
		m, err := held[*mapping](b, r.Handle)
		if err != nil {
			return nil, err
		}
		return func() (bool, error) { return bytes.HasPrefix(m.memory, r.Data), nil }, nil
	}
	name := string(r.Name)
	if name == "" {
		return nil, errors.New("the request has no name")
	}
	exists := func() (bool, error) {
		_, err := b.root.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
	switch r.Until {
	case UntilThere:
		return exists, nil
	case UntilGone:
		return func() (bool, error) {
			there, err := exists()
			return !there, err
		}, nil
	case UntilSize:
		return func() (bool, error) {
			info, err := b.root.Lstat(name)
			return err == nil && info.Size() == r.Size, err
		}, nil
	case UntilData:
		return func() (bool, error) {
			var got Reply
			// While the other side replaces a file, it may not exist for a moment, or its handle may be stale.
			err := b.get(context.Background(), &Request{Name: r.Name, Size: int64(len(r.Data))}, &got)
			return err == nil && bytes.Equal(got.Data, r.Data), nil
		}, nil
	}
	return nil, fmt.Errorf("cannot wait until %q", clip(r.Until))
}

// sleep returns false when ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
