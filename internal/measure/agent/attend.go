package agent

import (
	"context"
	"errors"

	"tare/internal/measure/wire"
)

// errSilent is why a directory could not be used. The kernel waits for a server that is gone as long as the mount's options
// say, which may be for ever.
var errSilent = errors.New("the file system does not answer; its server may be gone")

// attend answers what the controller sends while the agent is busy, until done is closed. It cancels the work when asked,
// and when there is nobody left to answer; then it waits for its end, because its directory is closed next.
func (a *server) attend(done <-chan struct{}, cancel context.CancelFunc, busy string) (gone error) {
	for {
		select {
		case <-done:
			return nil
		case next := <-a.requests:
			switch {
			case next.err != nil:
				gone = next.err
			case next.frame.Type == wire.TypePing:
				gone = a.pong(next.frame)
			case next.frame.Type == wire.TypeCancel:
				cancel()
			case next.frame.Type == wire.TypeBye:
				a.leaving, a.byeTrial = true, next.frame.Trial
				cancel()
			default:
				gone = a.refuse(next.frame, "refused", busy+"; an agent serves one request at a time")
			}
			if gone != nil {
				cancel()
				<-done
				return gone
			}
		}
	}
}

// reach calls use with the agent's room below root, which is made on first use. It does so beside the agent's loop, because
// what touches a file system whose server is gone returns to nobody. When ctx ends, or the controller cancels, err is set
// and use may go on; a room that is made too late is removed again. gone is set when there is nobody left to answer.
func reach[T any](a *server, ctx context.Context, root, busy string, use func(*rooms) T) (got T, err, gone error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reached struct {
		room *rooms
		got  T
	}
	room, dir := a.rooms[root], root
	if root == "" {
		dir = a.Dir
	}
	back := make(chan reached, 1)
	go func() {
		r := room
		if r == nil {
			r = newRoom(dir, a.runID)
		}
		back <- reached{r, use(r)}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case r := <-back:
			room, got = r.room, r.got
		case <-ctx.Done():
			err = errSilent
			if room == nil {
				go func() { (<-back).room.removeAll(context.Background()) }()
			}
		}
	}()
	if gone := a.attend(done, cancel, busy); gone != nil {
		return got, err, gone
	}
	if err == nil {
		a.rooms[root] = room
	}
	return got, err, nil
}
