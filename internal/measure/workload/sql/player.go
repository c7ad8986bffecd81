package sql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"tare/internal/measure/workload/replay"
	"tare/internal/record"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// player does what the sessions of a lane say.
type player struct {
	*options
	target *target
	mu     sync.Mutex // guards client against Interrupt
	client client     // nil: there is no connection
	near   target     // with the session's database and the lane's buffer

	answer  answer
	command []byte
	pinned  int64 // the second that the session's clock shows; 0 for none
}

// forgive makes an error of the server one after which the session goes on as it did when it was recorded.
func (l *player) forgive(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || errors.Is(err, sql.ErrGone) || r.ends(l.client, l.writes) {
		return err
	}
	return &replay.Refusal{Code: r.code, Text: r.text}
}

// Begin begins a session: on a new connection, or as if it were new.
func (l *player) Begin(ctx context.Context, e *trace.Event) (connected bool, err error) {
	database := string(e.Database)
	if database == "" {
		database = l.target.Database
	}
	l.pinned = 0
	if l.client != nil && !l.fits(database) {
		l.hang(nil)
	}
	if l.client == nil {
		return true, l.open(ctx, database)
	}
	if l.dialect == lex.PostgreSQL {
		return false, nil
	}
	return false, l.client.use([]byte(database))
}

// Before sets the session's clock to the second of the record.
func (l *player) Before(e *trace.Event) (took bool, err error) {
	at := e.At
	if !l.pinTime || at < 0 {
		return l.pinTime, nil
	}
	second := (l.target.logStart + at) / 1e6
	if second == l.pinned {
		return l.pinTime, nil
	}
	l.pinned = second
	l.command = strconv.AppendInt(append(l.command[:0], "SET timestamp = "...), second, 10)
	return true, l.forgive(l.client.query(l.command, &l.answer))
}

// Do carries a statement out.
func (l *player) Do(e *trace.Event, r *replay.Result) error {
	if err := l.send(e); err != nil {
		return l.forgive(err)
	}
	a := &l.answer
	rows := a.rows + a.affected
	*r = replay.Result{Rows: rows, Mark: uint32(min(rows, record.RefusedRows)), Ordered: a.ordered,
		Unordered: a.unordered}
	return nil
}

// Sum does nothing: rows are added up as they come.
func (l *player) Sum(*replay.Result) {}

func (l *player) send(e *trace.Event) error {
	if e.Op == trace.Query || l.text {
		return l.client.query(e.Text, &l.answer)
	}
	return l.client.execute(e.Statement, e.Text, e.Params, e.Types, &l.answer)
}

// Other does what is no statement.
func (l *player) Other(e *trace.Event) error {
	if err := l.prepare(e); err != nil {
		return l.forgive(err)
	}
	return nil
}

// prepare does what is no statement.
func (l *player) prepare(e *trace.Event) error {
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

// fits tells whether the connection that was kept can be used with a database. Without one, a session of MySQL begins
// with none, which a connection cannot go back to.
func (l *player) fits(database string) bool {
	if l.dialect == lex.PostgreSQL {
		return database == l.near.Database
	}
	return database != ""
}

// open connects.
func (l *player) open(ctx context.Context, database string) error {
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
	return nil
}

// End ends a session.
func (l *player) End() error {
	if l.Kept {
		return l.client.reset()
	}
	l.hang(nil)
	return nil
}

// hang closes the connection, if there is one, and goes on with another.
func (l *player) hang(c client) {
	l.mu.Lock()
	old := l.client
	l.client = c
	l.mu.Unlock()
	if old != nil {
		_ = old.close() // all answers are there
	}
}

// Close closes the connection.
func (l *player) Close() { l.hang(nil) }

// Interrupt ends a call that waits for the server.
func (l *player) Interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client != nil {
		l.client.interrupt()
	}
}
