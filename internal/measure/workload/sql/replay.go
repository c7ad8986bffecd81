package sql

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/sys/sql/lex"
	"tare/internal/unit"
)

// Treatments of the connections of sessions.
const (
	sessionsRecorded = "as-recorded"
	sessionsKept     = "kept"
)

// How prepared statements are sent.
const (
	preparedRecorded = "as-recorded"
	preparedText     = "text"
)

// In which order transactions begin.
const (
	orderSessions     = "sessions"
	orderTransactions = "transactions"
)

func replayKind() workload.Kind {
	k := workload.Kind{
		Name: "sql.replay", Family: workload.FamilyDatabase, WorkUnit: "shard", SameWork: true, Unseeded: true,
		Is:    workload.Traits{Server: workload.DatabaseServer, Parallel: true},
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Replays the log of a database server: the statements of each session in their order, " +
			"one session after the other in each of several lanes. A shard is sessions that follow each other in " +
			"the log. The sums of all rows must be equal in all targets, but for statements such as those with " +
			"NOW().",
		Params: slices.Concat(serverParams(), replay.Params("statement"), []workload.Param{
			dataParam(),
			{Name: "writes", Type: workload.Bool, Default: "no",
				Doc: "replay what changes data, too; at address only with disposable=yes"},
			{Name: "log", Type: workload.Text, Required: true,
				Doc: "the log, a file on the controller's machine; several, with commas, in the order " +
					"of their times; or shop: sessions of a synthetic shop"},
			{Name: "log-format", Type: workload.Text, Doc: "format of the log, as for tare sql " +
				"inspect; empty: found out"},
			{Name: "prefix", Type: workload.Text, Doc: "PostgreSQL's log_line_prefix; empty: found out"},
			{Name: "zone", Type: workload.Text, Default: "UTC",
				Doc: "time zone of times without one, such as Europe/Berlin"},
			{Name: "locks", Type: workload.Bool, Default: "no",
				Doc: "replay SELECT ... FOR UPDATE and the like, too; in sessions that only read, " +
					"MySQL and MariaDB count FOR UPDATE as an error, and PostgreSQL all of them"},
			{Name: "sessions", Type: workload.Choice, Default: sessionsRecorded,
				Choices: []string{sessionsRecorded, sessionsKept},
				Doc: "as-recorded: each session connects and disconnects; kept: a lane keeps and " +
					"resets its connection"},
			{Name: "order", Type: workload.Choice, Default: orderSessions,
				Choices: []string{orderSessions, orderTransactions},
				Doc: "sessions: the order within each session; transactions: also across them, by the " +
					"log's ids, each begun when the first statement of the one before has been answered"},
			{Name: "pin-time", Type: workload.Bool, Default: "no",
				Doc: "set the session's clock for NOW() to the record's second (MySQL and MariaDB)"},
			{Name: "prepared", Type: workload.Choice, Default: preparedRecorded,
				Choices: []string{preparedRecorded, preparedText},
				Doc: "as-recorded: prepare what was prepared; text: send each execution with its " +
					"values in it (MySQL and MariaDB)"},
			{Name: "items", Type: workload.Int, Default: "2000", Min: 1, Max: 10_000_000,
				Doc: "items of the synthetic shop; everything else in it grows with them"},
			{Name: "views", Type: workload.Int, Default: "1000", Min: 1, Max: 1_000_000,
				Doc: "pages that are looked at in the synthetic shop, each a session"},
			{Name: "warm", Type: workload.Bool, Default: "yes",
				Doc: "if the server's caches are cold, replay a trial's work once, untimed"},
			workload.FromParams(),
		}),
		Divided:   true,
		Dynamic:   replayMetrics,
		OnlyReads: func(p workload.Params) bool { return p["address"] != "" },
		Space: func(p workload.Params) int64 {
			switch {
			case p["address"] != "":
				return 0
			case p["data"] == "shop":
				return baseSpace + p.Int("items")*itemSpace
			}
			return baseSpace // the size of other data is not known here
		},
		UnitTime: func(p workload.Params) time.Duration {
			o, err := newOptions(p)
			if err != nil {
				return 10 * time.Minute
			}
			return o.UnitTime()
		},
		Service: func(p workload.Params) *workload.Service { return service(p, dataOf(p)) },
		Lasts:   func(p workload.Params) workload.Lasting { return lasts(p, p.Bool("writes")) },
		New: func(p workload.Params) (workload.Trial, error) {
			o, err := newOptions(p)
			if err != nil {
				return nil, err
			}
			t, err := newTarget(p)
			r := newReplay(o, t)
			if err == nil && t.open {
				return &host{r}, nil
			}
			return r, err
		},
	}
	k.Metrics = replayMetrics(nil)
	return k
}

// itemSpace is about how much of a server's disk an item of the synthetic shop takes, with all that belongs to it.
const itemSpace = 2 << 10

// replayMetrics are the figures of a replay.
func replayMetrics(p workload.Params) []unit.Metric {
	var o replay.Options
	_ = o.ReadPaces(p) // New returns the error
	ms := replay.Metrics("statement", o.Paced(), p["sessions"] == sessionsKept)
	if p["address"] == "" {
		ms = append(ms, unit.Metric{Name: "server_cpu_us_per_statement", Unit: "us", Better: unit.Lower, Timed: true,
			Doc: "CPU time of the server's processes per statement"})
	}
	return ms
}

// options are the parameters of a replay, read.
type options struct {
	replay.Options
	text, warm, writes, pinTime bool
	dialect                     lex.Dialect
}

func newOptions(p workload.Params) (o *options, err error) {
	t, err := newTarget(p)
	if err != nil {
		return nil, fmt.Errorf("sql.replay: %w", err)
	}
	o = &options{Options: replay.Options{Kind: "sql.replay", Item: "statement", Rows: "rows",
		Ordered: p["order"] == orderTransactions, Unstable: p.Bool("writes"), Kept: p["sessions"] == sessionsKept},
		text: p["prepared"] == preparedText,
		warm: p.Bool("warm"), writes: p.Bool("writes"), pinTime: p.Bool("pin-time")}
	if !t.mysql() {
		o.dialect = lex.PostgreSQL
	}
	err = o.Read(p)
	switch {
	case err != nil:
	case o.writes && !t.disposable:
		err = errors.New("writes: the replay changes the server's data; add disposable=yes if that is what you want")
	case p.Bool("locks") && !o.writes && o.dialect == lex.PostgreSQL:
		err = errors.New("locks: PostgreSQL refuses SELECT ... FOR UPDATE and the like in sessions that only read; " +
			"add writes=yes, or leave it out")
	case o.pinTime && o.dialect == lex.PostgreSQL:
		err = errors.New("pin-time: PostgreSQL cannot set a session's clock")
	case o.text && o.dialect == lex.PostgreSQL:
		err = errors.New("prepared=text: logs of PostgreSQL do not have the values in the statements")
	case o.Ordered && p[workload.FromParam] != "":
		err = errors.New("from: hosts that replay a log together cannot keep the order of transactions; use " +
			"order=sessions")
	case o.Ordered && p["log"] == "shop":
		err = errors.New("order=transactions: the synthetic shop has no transactions")
	default:
		return o, nil
	}
	return nil, fmt.Errorf("sql.replay: %w", err)
}
