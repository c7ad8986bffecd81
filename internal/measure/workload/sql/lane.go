package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/measure/fileio"
	"tare/internal/record"
	"tare/internal/sys/histogram"
	"tare/internal/sys/setdiff"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// pass is one replay of the work, with what all lanes share. Nothing in it changes while they run, except what is
// atomic.
type pass struct {
	*options
	target *target
	work   *work
	pacing pacing
	groups *grouping
	times  *latencies
	lags   histogram.Shared
	turns  turns

	next atomic.Int64 // job
	stop atomic.Bool
}

// lane is a thread that replays one session after the other.
type lane struct {
	*pass
	timekeeper
	mu     sync.Mutex // guards client against interrupt
	client client     // nil: there is no connection
	near   target     // with the session's database and the lane's buffer

	cursor  trace.Cursor
	event   trace.Event
	answer  answer
	tallies []tally
	sketch  setdiff.Sketch
	errors  map[string]*mistake // by code
	command []byte
	pinned  int64 // the second that the session's clock shows; 0 for none
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

func newLane() *lane {
	return &lane{tallies: make([]tally, other+1), errors: map[string]*mistake{},
		woken: make(chan struct{}, 1)}
}

// begin makes the lane ready for a pass.
func (l *lane) begin(p *pass, base time.Time) {
	l.pass, l.timekeeper = p, timekeeper{base: base, lags: &p.lags, quit: p.stop.Load}
	clear(l.tallies)
	l.sketch, l.waited = setdiff.Sketch{}, 0
	clear(l.errors)
}

// run replays sessions until there is none left.
func (l *lane) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer fileio.Quiet()()
	if l.paced() {
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
	l.pinned = 0
	place, left, mine := j.place, j.turns, false // mine: it is the turn of the session
	e := &l.event
	for {
		err := l.cursor.Next(e)
		if err == io.EOF || err == nil && e.Op == trace.Quit {
			return l.leave()
		}
		if err != nil {
			return err
		}
		if e.Op == trace.Connect {
			if err := l.arrive(ctx, j, string(e.Database)); err != nil {
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
			if err := l.forgive(l.prepare(e)); err != nil {
				return err
			}
			l.clock() // the next event may be due by now
			continue
		}
		if err := l.pin(e.At); err != nil {
			return err
		}
		if !scheduled || l.pinTime {
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
	err := l.send(e)
	took := l.clock() - begun
	group := l.groups.of[e.Fingerprint]
	t := &l.tallies[group]
	t.count++
	t.ns += took
	l.times.put(place, group, took)
	// Where the log writes, what a statement reads depends on which lane was first, and on the trials before.
	volatile := e.Volatile || l.writes
	if err != nil {
		t.errors++
		if r, ok := errors.AsType[*refusal](err); ok {
			l.differs(e, volatile, record.RefusedRows, t.refusal(e.Number, volatile, r.code))
		}
		return l.forgive(err)
	}
	t.statement(e.Number, volatile, &l.answer)
	l.differs(e, volatile, l.answer.rows+l.answer.affected, l.answer.unordered)
	return nil
}

// differs keeps what a statement returned, to find it if it returns something else in another target.
func (l *lane) differs(e *trace.Event, volatile bool, rows, sum uint64) {
	if !volatile {
		id := l.work.trace.Fingerprints()[e.Fingerprint].ID
		l.sketch.Add(setdiff.Element{Number: e.Number, Kind: uint32(id >> 32),
			Rows: uint32(min(rows, record.RefusedRows)), Sum: sum})
	}
}

func (l *lane) send(e *trace.Event) error {
	if e.Op == trace.Query || l.text {
		return l.client.query(e.Text, &l.answer)
	}
	return l.client.execute(e.Statement, e.Text, e.Params, e.Types, &l.answer)
}

// prepare does what is no statement.
func (l *lane) prepare(e *trace.Event) error {
	switch e.Op {
	case trace.InitDB:
		return l.client.use(e.Database)
	case trace.Prepare:
		if l.text {
			return nil
		}
		return l.client.prepare(e.Statement, e.Name, e.Text)
	case trace.CloseStmt:
		if l.text {
			return nil
		}
		return l.client.closeStatement(e.Statement)
	case trace.ChangeUser, trace.ResetConnection:
		l.pinned = 0
		if err := l.client.reset(); err != nil || len(e.Database) == 0 {
			return err
		}
		return l.client.use(e.Database)
	}
	return nil
}

// forgive counts an error of the server, after which the session goes on as it did when it was recorded. It returns any
// other error.
func (l *lane) forgive(err error) error {
	if err == nil {
		return nil
	}
	r, ok := errors.AsType[*refusal](err)
	if !ok || errors.Is(err, sql.ErrGone) || r.ends(l.client, l.writes) {
		return err
	}
	m := l.errors[r.code]
	if m == nil {
		m = &mistake{text: r.text}
		l.errors[r.code] = m
	}
	m.count++
	return nil
}

// pin sets the session's clock to the second of the record.
func (l *lane) pin(at int64) error {
	if !l.pinTime || at < 0 {
		return nil
	}
	second := (l.work.trace.Meta().Start + at) / 1e6
	if second == l.pinned {
		return nil
	}
	l.pinned = second
	l.command = strconv.AppendInt(append(l.command[:0], "SET timestamp = "...), second, 10)
	return l.forgive(l.client.query(l.command, &l.answer))
}

// arrive begins a session: on a new connection, or as if it were new.
func (l *lane) arrive(ctx context.Context, j *job, database string) error {
	if database == "" {
		database = l.target.Database
	}
	if l.client != nil && !l.fits(database) {
		l.hang(nil)
	}
	if l.client == nil {
		before := l.clock()
		if err := l.open(ctx, database); err != nil {
			return err
		}
		j.connect = l.clock() - before
		return nil
	}
	if l.dialect == lex.PostgreSQL {
		return nil
	}
	err := l.client.use([]byte(database))
	l.clock()
	return err
}

// fits tells whether the connection that was kept can be used with a database. Without one, a session of MySQL begins
// with none, which a connection cannot go back to.
func (l *lane) fits(database string) bool {
	if l.dialect == lex.PostgreSQL {
		return database == l.near.Database
	}
	return database != ""
}

// open connects.
func (l *lane) open(ctx context.Context, database string) error {
	if l.near.buffer == nil {
		l.near = *l.target
		l.near.buffer = sql.Buffer(nil)
	}
	l.near.Database = database
	c, err := dial(ctx, &l.near, !l.writes)
	if _, ok := errors.AsType[*refusal](err); err != nil && !ok && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", sql.ErrGone, err)
	}
	if err != nil {
		return err
	}
	l.hang(c)
	if l.stop.Load() { // interrupt may have missed it
		return errStopped
	}
	return nil
}

// leave ends a session.
func (l *lane) leave() error {
	if l.keep {
		return l.client.reset()
	}
	l.hang(nil)
	return nil
}

// hang closes the connection, if there is one, and goes on with another.
func (l *lane) hang(c client) {
	l.mu.Lock()
	old := l.client
	l.client = c
	l.mu.Unlock()
	if old != nil {
		_ = old.close() // all answers are there
	}
}

// interrupt ends a call that waits for the server.
func (l *lane) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.interrupt()
	}
}
