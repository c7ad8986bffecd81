package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tare/internal/record"
	"tare/internal/sys/sql"
	"tare/internal/unit"
)

// failed is a trial without figures.
func failed(format string, args ...any) *record.Failure {
	return &record.Failure{Kind: "measure", Message: "sql.replay: " + fmt.Sprintf(format, args...)}
}

// ends tells whether a statement's error ends the trial, because all others would end with the same. With writes, that
// is when the session only reads, but not when the log has made a transaction of its own read-only.
func (r *refusal) ends(c client, writes bool) bool {
	switch r.code {
	case "1053", "57P01", "57P02", "57P03":
		return true
	case "1290": // some option forbids it
		return writes && strings.Contains(strings.ReplaceAll(strings.ToLower(r.text), "_", "-"), "read-only")
	case "1792", "25006":
		return writes && c.readsOnly()
	case "1836":
		return writes
	}
	return false
}

// advice is the remedy for an error of the server, by its number in MySQL and its SQLSTATE in PostgreSQL.
func (r *refusal) advice(lanes int) string {
	switch r.code {
	case "1040", "1203", "1226", "53300":
		return fmt.Sprintf("%s are more connections than it has left: use fewer lanes, or raise its max_connections",
			unit.Plural(int64(lanes), "lane"))
	case "1045", "1698", "28000", "28P01":
		return "it rejects the user: check user and password-file"
	case "1049", "3D000":
		return "set database=NAME to the name in the log: data that names no database is loaded into it"
	case "1044", "42501":
		return "grant the user read access to the log's database"
	case "1053", "57P01", "57P02", "57P03":
		return "it was stopped during the replay"
	case "1290", "1792", "1836", "25006":
		return "it has become read-only, and the replay writes"
	}
	return ""
}

// explain adds its meaning to an error that ended a replay.
func (r *replayTrial) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		if advice := refused.advice(len(r.Clients())); advice != "" {
			return failed("the server says: %s (error %s): %s", refused.text, refused.code, advice)
		}
		return failed("the server says: %s (error %s)", refused.text, refused.code)
	}
	if !errors.Is(err, sql.ErrGone) {
		return err
	}
	return failed("%v; %s", err, r.whereabouts(ctx))
}

// After a connection was lost, a server may take patience to answer, and recovery to become ready if it says that it is
// about to. MySQL listens only when it is ready, which takes it more than 5 s on a busy machine.
const (
	patience = 20 * time.Second
	recovery = time.Minute
)

// whereabouts describes the state of a server after a connection to it was lost: started again, running, or gone.
func (r *replayTrial) whereabouts(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	silent := time.Now().Add(patience)
	var last error
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		now, err := r.target.started(ctx)
		switch {
		case err == nil && now.Sub(r.started).Abs() > startError:
			return "the server was started again during the replay"
		case err == nil:
			return "the server still runs: it ended this connection, see its log and its limits for time and size"
		case ctx.Err() == nil:
			last = err
		}
		if r, ok := errors.AsType[*refusal](err); ok && r.code == startsUp {
			silent = time.Now().Add(patience)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
			if time.Now().Before(silent) {
				continue
			}
		}
		return fmt.Sprintf("the server has ended, or cannot be reached any more: %v", last)
	}
}

// startsUp is PostgreSQL's SQLSTATE for a server that starts, recovers or ends.
const startsUp = "57P03"

// startError bounds the difference of a server's start from one question to the next. MySQL tells its age in whole
// seconds.
const startError = 1500 * time.Millisecond

// started asks when the server was started, by the clock of this machine for MySQL and its own for PostgreSQL.
func (t *target) started(ctx context.Context) (at time.Time, err error) {
	c, err := dial(ctx, t, true)
	if err != nil {
		return at, err
	}
	text := "SHOW GLOBAL STATUS LIKE 'Uptime'"
	if !t.mysql() {
		text = "SELECT 'Uptime', extract(epoch from now() - pg_postmaster_start_time())"
	}
	err = c.query([]byte(text), &answer{row: func(v [][]byte) error {
		seconds, err := time.ParseDuration(string(v[1]) + "s")
		at = time.Now().Add(-seconds)
		return err
	}})
	return at, errors.Join(err, c.close())
}
