package sql

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
)

// replayTrial is a trial of sql.replay.
type replayTrial struct {
	*options
	replay.Replay
	target  *target
	aside   client    // for questions to the server
	started time.Time // the server
	before  counters
}

func newReplay(o *options, t *target) *replayTrial {
	r := &replayTrial{options: o, target: t}
	r.Replay = replay.Replay{Options: &o.Options, Explain: r.explain,
		Client: func() replay.Client { return &player{options: o, target: t} }}
	return r
}

// Setup opens the log and prepares the work, the lanes, and the server's caches.
func (r *replayTrial) Setup(ctx context.Context, b *workload.Bench) (err error) {
	if err := r.open(b); err != nil {
		return err
	}
	if err := r.target.find(b); err != nil {
		return err
	}
	if err := r.Prepare(b); err != nil {
		return err
	}
	runtime.LockOSThread() // as connections want it
	defer runtime.UnlockOSThread()
	if r.started, err = r.target.started(ctx); err != nil {
		return r.explain(ctx, err)
	}
	if r.warm && (b.Warmup || r.target.private && b.Service.Trials == 0) {
		if err := r.Heat(ctx, b); err != nil {
			return err
		}
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if r.aside, err = dial(ctx, r.target, true); err != nil {
		return r.explain(ctx, err)
	}
	r.target.notePromises(b, r.aside)
	r.before, err = r.target.count(r.aside, r.kept())
	return err
}

// open opens the log.
func (r *replayTrial) open(b *workload.Bench) error {
	path := b.Files["log"]
	if err := r.Open(path); err != nil {
		return err
	}
	m := r.Trace.Meta()
	r.target.logStart = m.Start
	if r.target.Database == "" {
		r.target.Database = m.Database
	}
	switch {
	case m.Dialect != r.dialect:
		return failed("the log is from %s, but the server is %s", m.Dialect, r.target.product)
	case m.Start == 0 && (r.Replay.Paced() || r.pinTime):
		return failed("the log has no times: use pace=flat, and leave out pin-time")
	}
	b.Check("trace", filepath.Base(path)) // its SHA-256
	if data := b.Files["data"]; data != "" {
		b.Note("data", filepath.Base(data))
	}
	return nil
}

// connect connects the lanes that keep their connections.
func (r *replayTrial) connect(ctx context.Context) error {
	for _, c := range r.Clients() {
		if p := c.(*player); r.Replay.Kept && p.client == nil {
			if err := p.open(ctx, r.target.Database); err != nil {
				return r.explain(ctx, err)
			}
		}
	}
	return nil
}

// kept returns the connections that lanes keep.
func (r *replayTrial) kept() (all []client) {
	for _, c := range r.Clients() {
		if p := c.(*player); p.client != nil {
			all = append(all, p.client)
		}
	}
	return all
}

// Cleanup closes all connections.
func (r *replayTrial) Cleanup(*workload.Bench) error {
	if r.aside != nil {
		_ = r.aside.close() // there is nothing of it that could be lost
	}
	return r.Close()
}
