package agent

import (
	"context"
	"errors"

	"tare/internal/measure/wire"
)

// errSilent is the error of a directory that could not be used. The kernel waits for a dead server as long as the
// mount's options say, which may be for ever.
var errSilent = errors.New("the file system does not respond; its server may have died")

// attend answers the controller while the agent is busy, until done is closed. It cancels the work on request, or when
// the controller is gone; then it waits for the end of the work, because the work's directory is closed next.
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

// reach calls use with the agent's workdir below root, which is made on first use. It runs in its own goroutine,
// because a call to a file system whose server is dead may never return. What it returns is called if it was in time.
// When ctx ends, or the controller cancels, err is set and use may go on; a workdir that is made too late is removed
// again. gone is set when the controller is gone.
func (a *server) reach(ctx context.Context, root, busy string, use func(*workdir) (told func())) (err, gone error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reached struct {
		wd   *workdir
		told func()
	}
	wd, dir := a.workdirs[root], root
	if root == "" {
		dir = a.Dir
	}
	back := make(chan reached, 1)
	go func() {
		r := wd
		if r == nil {
			r = newWorkdir(dir, a.runID)
		}
		back <- reached{r, use(r)}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case r := <-back:
			wd = r.wd
			r.told()
		case <-ctx.Done():
			err = errSilent
			if wd == nil {
				go func() { (<-back).wd.removeAll(context.Background()) }()
			}
		}
	}()
	if gone := a.attend(done, cancel, busy); gone != nil {
		return err, gone
	}
	if err == nil {
		a.workdirs[root] = wd
	}
	return err, nil
}
