package replay

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/setdiff"
	"tare/internal/sys/sql/trace"
	"tare/internal/sys/thread"
)

// pass is one replay of the work, with what all lanes share. Nothing in it changes while they run, except what is
// atomic.
type pass struct {
	*Options
	work   *work
	pacing pacing
	groups *grouping
	times  *latencies
	lags   histogram.Shared
	turns  turns
	show   []uint64 // numbers of statements whose results are shown

	next atomic.Int64 // job
	stop atomic.Bool
}

// lane is a thread that replays one session after the other.
type lane struct {
	*pass
	timekeeper
	client  Client
	cursor  trace.Cursor
	event   trace.Event
	result  Result
	tallies []tally
	sketch  setdiff.Sketch
	errors  map[string]*mistake // by code
	shown   []record.Shown
	again   bool  // the session was replayed before in this pass
	end     int64 // when there was no session left, ns
	woken   chan struct{}
	waited  int64 // for turns, ns
}

// mistake is an error that the server reported, by its code.
type mistake struct {
	count int64
	text  string // of the first one
}

var errStopped = errors.New("the replay was stopped")

func newLane(c Client) *lane {
	return &lane{client: c, tallies: make([]tally, other+1), errors: map[string]*mistake{},
		woken: make(chan struct{}, 1)}
}

// begin makes the lane ready for a pass.
func (l *lane) begin(p *pass, base time.Time) {
	l.pass, l.timekeeper = p, timekeeper{base: base, lags: &p.lags, quit: p.stop.Load}
	clear(l.tallies)
	l.sketch, l.waited, l.shown = setdiff.Sketch{}, 0, nil
	clear(l.errors)
}

// run replays sessions until there is none left.
func (l *lane) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer thread.Quiet()()
	if l.Paced() {
		defer wakeExactly()()
	}
	for {
		i := l.next.Add(1) - 1
		if i >= int64(len(l.work.jobs)) {
			l.end = l.clock()
			return nil
		}
		j := &l.work.jobs[i]
		if due, scheduled := l.pacing.session(j); !l.session(due, scheduled) {
			return errStopped
		}
		if err := l.replay(ctx, j); err != nil {
			return err
		}
	}
}

// replay replays a session.
func (l *lane) replay(ctx context.Context, j *job) error {
	l.cursor.Reset(l.work.trace, j.session)
	l.again = j.round > 0
	place, left, mine := j.place, j.turns, false // mine: it is the turn of the session
	e := &l.event
	for {
		err := l.cursor.Next(e)
		if err == io.EOF || err == nil && e.Op == trace.Quit {
			return l.client.End()
		}
		if err != nil {
			return err
		}
		if e.Op == trace.Connect {
			if err := l.arrive(ctx, j, e); err != nil {
				return err
			}
			continue
		}
		if len(left) > 0 && e.Number >= left[0].number {
			if mine = l.turn(left[0].place); !mine {
				return errStopped
			}
			left = left[1:]
		}
		due, scheduled := l.pacing.statement(j, l.begun, e.At)
		if scheduled && !l.timekeeper.event(due) || l.stop.Load() {
			return errStopped
		}
		if !e.Op.Statement() {
			if err := l.forgive(l.client.Other(e)); err != nil {
				return err
			}
			l.clock() // the next event may be due by now
			continue
		}
		took, err := l.client.Before(e)
		if err := l.forgive(err); err != nil {
			return err
		}
		if !scheduled || took {
			l.clock()
		}
		if err := l.statement(e, place); err != nil {
			return err
		}
		place++
		if mine {
			l.turns.done()
			mine = false
		}
	}
}

// arrive begins a session.
func (l *lane) arrive(ctx context.Context, j *job, e *trace.Event) error {
	before := l.clock()
	connected, err := l.client.Begin(ctx, e)
	if now := l.clock(); connected {
		j.connect = now - before
	}
	if err == nil && l.stop.Load() { // Interrupt may have missed the new connection
		err = errStopped
	}
	return err
}

// turn waits for the turn of a transaction.
func (l *lane) turn(place int64) bool {
	before := l.clock()
	ok := l.turns.wait(place, l.woken)
	l.waited += l.clock() - before
	return ok
}

// statement carries a statement out and counts it. The clock was read just before.
func (l *lane) statement(e *trace.Event, place int64) error {
	begun := l.now
	err := l.client.Do(e, &l.result)
	took := l.clock() - begun
	group := l.groups.of[e.Fingerprint]
	t := &l.tallies[group]
	t.count++
	t.ns += took
	l.times.put(place, group, took)
	// Where the log writes, what a statement reads depends on which lane was first, and on the trials before.
	volatile := e.Volatile || l.Unstable
	if err != nil {
		t.errors++
		if r, ok := errors.AsType[*Refusal](err); ok {
			l.differs(e, volatile, record.RefusedRows, t.refusal(e.Number, volatile, r.Code))
		}
		return l.forgive(err)
	}
	l.client.Sum(&l.result)
	if why := l.result.Mistake; why != "" {
		t.errors++
		l.mistake(why, why)
	}
	t.statement(e.Number, volatile, &l.result)
	l.differs(e, volatile, l.result.Mark, l.result.Unordered)
	if c, ok := l.client.(Shower); ok && !l.again && slices.Contains(l.show, e.Number) {
		text := c.Shown()
		l.shown = append(l.shown, record.Shown{Number: e.Number, Text: text[:min(len(text), record.MaxShown)]})
	}
	return nil
}

// differs keeps what a statement returned, to find it if it returns something else in another target. A set has each
// number once.
func (l *lane) differs(e *trace.Event, volatile bool, mark uint32, sum uint64) {
	if !volatile && !l.again {
		id := l.work.trace.Fingerprints()[e.Fingerprint].ID
		l.sketch.Add(setdiff.Element{Number: e.Number, Kind: uint32(id >> 32), Rows: mark, Sum: sum})
	}
}

// forgive counts an error of the server, after which the session goes on as it did when it was recorded. It returns any
// other error.
func (l *lane) forgive(err error) error {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		return err
	}
	l.mistake(r.Code, r.Text)
	return nil
}

func (l *lane) mistake(code, text string) {
	m := l.errors[code]
	if m == nil {
		m = &mistake{text: text}
		l.errors[code] = m
	}
	m.count++
}
