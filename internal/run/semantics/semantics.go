// Package semantics finds out how files behave in a folder by trying: what a developer stumbles over between a host and
// a guest, such as change events that never come, locks that nobody sees, and attributes that are old.
//
// It is opinionated about honesty. A line is what was seen and nothing else: what could not be tried is "untested",
// with the reason; that a flush took as long as the host's proves nothing and is not called a yes; a lag is no shorter
// than what the way to the agent lets be seen.
//
// Lags are measured by the controller's clock alone, because a guest's may run wrong. Where the watcher is inside, the
// change is made here, at a known time, while the watcher's request is on its way or waiting; its answer is stamped on
// arrival, less half a round trip. Where the change is made inside, its time is the arrival of the answer, less half a
// round trip. Either way a lag is true to one round trip and the pause between two looks; one that is shorter is given
// as "below" that.
package semantics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/fileops"
	"tare/internal/measure/guestabi"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// Options say how a card is made.
type Options struct {
	// Budget is the most time a card may take, about; 0 means 20 s, or a minute with Sync, and up to a minute more
	// where requests travel slowly.
	Budget time.Duration
	// Sync brings a folder that is a copy up to date. in and out are then not two views of one folder.
	Sync func(ctx context.Context) error
	// FS is the file system inside as its kernel calls it ("ext4"); empty when it is not known.
	FS string
}

const (
	defaultBudget = 20 * time.Second
	syncBudget    = time.Minute

	// Time added where requests travel slowly: so many round trips, and slowBudget at most.
	slowTrips  = 1000
	slowBudget = time.Minute
)

// Make tries out files on one side, or between two: in is the side inside the environment, out the controller's view of
// the same folder, nil when there is none. Both are open on one private directory. The error is that of ctx; what
// else goes wrong is told in the properties that it left untested.
func Make(ctx context.Context, in, out fileops.Side, o Options) ([]record.Property, error) {
	budget := o.Budget
	if budget == 0 {
		budget = defaultBudget
	}
	began := time.Now()
	m := &maker{in: in, out: out, options: o, end: began.Add(budget), budget: budget}
	m.greet(ctx)
	if o.Budget == 0 {
		// A machine that is interpreted, or far away, needs longer for the same requests.
		m.budget += min(slowTrips*m.rtt, slowBudget)
		m.end = began.Add(m.budget)
	}
	for _, t := range trials() {
		if t.across && out == nil {
			continue // a folder of one side has no other: nothing is untested
		}
		m.try(ctx, &t)
		if err := ctx.Err(); err != nil {
			return m.properties, fmt.Errorf("try files out: %w", err)
		}
	}
	return m.properties, nil
}

// Agent is the part of an agent's connection that a card needs; *deploy.Conn implements it.
type Agent interface {
	// Probe carries out one operation of package probe.
	Probe(ctx context.Context, request json.RawMessage) (json.RawMessage, error)
	// Mount carries out an order, again for a copy.
	Mount(ctx context.Context, m *guestabi.Mount) (wire.Mounted, error)
}

// For makes the card of a mount in an environment, whose agent s is, and leaves nothing behind. It takes about 20 s at
// most, up to 80 where requests travel slowly, a minute for a copy, and up to five where ten thousand files take as
// long to be made and changed; a server that does not answer costs 15 s more. A mount whose Dir is empty stands for the
// environment's own directory. Only the end of ctx, and a directory that cannot be made at all, are errors. A budget
// above 0 takes the place of the 20 s and of the minute: a slow machine needs more to answer every line.
func For(ctx context.Context, s Agent, m *env.Mounted, budget time.Duration) ([]record.Property, error) {
	in := remote{s}
	opening, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	begun, err := in.Do(opening, fileops.Request{Op: fileops.Begin, Root: m.Mount.Dir})
	if err != nil {
		return nil, fmt.Errorf("make card of %s: %w", m.Name, err)
	}
	o := Options{FS: m.Mount.Type, Budget: budget}
	if m.Order != nil && m.Order.Once {
		return forCopy(ctx, s, m, o)
	}
	var out fileops.Side
	if m.Mount.HostDir != "" {
		out = hostSide(opening, filepath.Join(m.Mount.HostDir, filepath.FromSlash(begun.Dir)))
		if b, ok := out.(*fileops.Box); ok {
			defer b.Close()
		}
	}
	properties, err := Make(ctx, in, out, o)
	return properties, errors.Join(err, leave(ctx, in, leaveTime))
}

// The most time that the first and the last request of a card may take.
const (
	openTime  = 10 * time.Second
	leaveTime = 15 * time.Second
	// leaveMany is for the ten thousand files of a copy.
	leaveMany = 2 * time.Minute
)

// leave removes the card's files. An agent that does not answer does it on its own when it leaves.
func leave(ctx context.Context, in fileops.Side, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if _, err := in.Do(ctx, fileops.Request{Op: fileops.End}); err != nil {
		return fmt.Errorf("remove the files tried out: %w", err)
	}
	return nil
}

// hostSide opens the host's view of a directory that was made inside. When the host cannot, for instance because the
// server gave it to another user, there is nothing that can be tried across, and the reason is the answer to all of it.
func hostSide(ctx context.Context, path string) fileops.Side {
	// A moment's patience: some servers show a new directory late, which is what the card goes on to measure.
	for {
		b, err := fileops.In(path)
		if err == nil {
			return b
		}
		select {
		case <-ctx.Done():
			return unavailableSide{err}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// unavailableSide is a side that sees nothing.
type unavailableSide struct{ why error }

func (b unavailableSide) Do(context.Context, fileops.Request) (fileops.Reply, error) {
	return fileops.Reply{}, fmt.Errorf("the host does not see what is made inside: %w", b.why)
}

// remote is a side behind an agent.
type remote struct{ agent Agent }

// Do implements fileops.Side.
func (s remote) Do(ctx context.Context, r fileops.Request) (reply fileops.Reply, err error) {
	if err := r.Check(); err != nil {
		return reply, err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return reply, fmt.Errorf("write request: %w", err)
	}
	raw, err := s.agent.Probe(ctx, request)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(raw, &reply); err != nil {
		return reply, fmt.Errorf("read answer: %w", err)
	}
	return reply, nil
}

// forCopy makes the card of a folder that a program copies: how the copy behaves by itself, and how long it takes to
// become like its original.
func forCopy(ctx context.Context, s Agent, m *env.Mounted, o Options) ([]record.Property, error) {
	in := remote{s}
	o.Sync = func(ctx context.Context) error {
		_, err := s.Mount(ctx, again(m.Order))
		return err
	}
	began := time.Now()
	own, err := Make(ctx, in, nil, o)
	if err = errors.Join(err, leave(ctx, in, leaveTime)); err != nil {
		return own, err
	}
	o.Budget = cmp.Or(o.Budget, syncBudget) - time.Since(began)
	lags, err := converge(ctx, in, m, o)
	return append(own, lags...), err
}

// again is an order to bring a copy up to date that leaves alone what the agent made in it: an rsync that deletes what
// the original has not would delete the agent's own directory, with the files of all trials to come.
func again(order *guestabi.Mount) *guestabi.Mount {
	o := *order
	if filepath.Base(o.Command[0]) == "rsync" {
		o.Command = slices.Insert(slices.Clone(o.Command), 1, "--filter=P /tare-*")
	}
	return &o
}
