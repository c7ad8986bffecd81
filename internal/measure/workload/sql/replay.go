package sql

import (
	"errors"
	"fmt"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/sys/sql/lex"
	"tare/internal/unit"
)

// What becomes of the connections of sessions.
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

// lanesSession stands for a lane for each session.
const lanesSession = "session"

func replayKind() workload.Kind {
	factor := func(name, def, doc string) workload.Param {
		return workload.Param{Name: name, Type: workload.Text, Default: def, Doc: doc}
	}
	k := workload.Kind{
		Name: "sql.replay", Family: "database", WorkUnit: "shard", SameWork: true, Unseeded: true,
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Replays the log of a database server: the statements of each session in their order, by as many lanes " +
			"as are asked for, each of which takes one session after the other. One unit of work is a shard: " +
			"sessions that follow each other in the log and have at least 64 statements together; with whole it is " +
			"the whole log. What changes data is left out unless writes is set. All rows are received, counted and " +
			"added up, and the sums must be equal in all targets, but for statements that give different answers " +
			"anyway, such as those with NOW(). A statement's latency is the time from sending it to the last byte " +
			"of its results.",
		Params: append(serverParams(),
			lanesParam("connections that replay at the same time: a number, 2x for twice the processors, or session "+
				"for one for each session of a trial's work"),
			dataParam(),
			workload.Param{Name: "writes", Type: workload.Bool, Default: "no",
				Doc: "replay what changes data, too; on a server at address only with disposable=yes"},
			workload.Param{Name: "log", Type: workload.Text, Required: true,
				Doc: "the log, a file on the controller's machine, or several, with commas between them, in the " +
					"order of their times; or shop, for the generated sessions of a synthetic shop"},
			workload.Param{Name: "log-format", Type: workload.Text, Doc: "how the log is written, as for tare sql " +
				"inspect; empty: it is found out"},
			workload.Param{Name: "prefix", Type: workload.Text, Doc: "PostgreSQL's log_line_prefix; empty: it is " +
				"found out"},
			workload.Param{Name: "zone", Type: workload.Text, Default: "UTC",
				Doc: "time zone of times without one, such as Europe/Berlin"},
			workload.Param{Name: "locks", Type: workload.Bool, Default: "no",
				Doc: "replay LOCK IN SHARE MODE, SELECT ... FOR UPDATE and the like, too; in sessions that only " +
					"read, MySQL and MariaDB refuse FOR UPDATE, which is counted as an error, and PostgreSQL all " +
					"of them"},
			workload.Param{Name: "sessions", Type: workload.Choice, Default: sessionsRecorded,
				Choices: []string{sessionsRecorded, sessionsKept},
				Doc: "as-recorded: each session connects and disconnects; kept: each lane keeps its connection and " +
					"resets it between sessions"},
			workload.Param{Name: "order", Type: workload.Choice, Default: orderSessions,
				Choices: []string{orderSessions, orderTransactions},
				Doc: "sessions: the order within each session; transactions: across sessions, too, transactions " +
					"begin in the order of the ids that the log tells of them, each when the first statement of the " +
					"one before has been answered"},
			factor("pace", paceFlat, "flat: as fast as the server answers; original: at the times of the log; or a "+
				"factor: 2.0 is twice as fast as the log"),
			factor("think", "", "pace within sessions; empty: as pace"),
			factor("connect", "", "pace at which sessions begin; empty: as pace"),
			workload.Param{Name: "idle-wait", Type: workload.Duration, Default: "0s",
				Doc: "a time in which no session does anything is shortened to this; 0s: it is not"},
			workload.Param{Name: "pin-time", Type: workload.Bool, Default: "no",
				Doc: "set the session's clock to the second of the record, so that NOW() is what it was; MySQL and " +
					"MariaDB only"},
			workload.Param{Name: "prepared", Type: workload.Choice, Default: preparedRecorded,
				Choices: []string{preparedRecorded, preparedText},
				Doc: "as-recorded: prepare what was prepared; text: send each execution as a statement with its " +
					"values in it; MySQL and MariaDB only"},
			workload.Param{Name: "shard", Type: workload.Int, Default: "0", Max: 1 << 40,
				Doc: "statements that a shard has at least; 0: a 256th of the log's, but 64 at least and 4096 at most"},
			workload.Param{Name: "items", Type: workload.Int, Default: "2000", Min: 1, Max: 10_000_000,
				Doc: "items that the synthetic shop sells; everything else in it grows with them"},
			workload.Param{Name: "views", Type: workload.Int, Default: "1000", Min: 1, Max: 1_000_000,
				Doc: "pages of the synthetic shop that are looked at, each of which is a session"},
			workload.Param{Name: "whole", Type: workload.Bool, Default: "no",
				Doc: "one unit of work is the whole log"},
			workload.Param{Name: "warm", Type: workload.Bool, Default: "yes",
				Doc: "replay a trial's work once before the time is taken if the server's caches are cold"},
		),
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
			if o, err := newOptions(p); err != nil || !o.paced() && !o.whole {
				return 10 * time.Minute
			}
			return 24 * time.Hour
		},
		Service: func(p workload.Params) *workload.Service { return service(p, dataOf(p)) },
		New: func(p workload.Params) (workload.Trial, error) {
			o, err := newOptions(p)
			if err != nil {
				return nil, err
			}
			t, err := newTarget(p)
			return &replay{options: o, target: t}, err
		},
	}
	k.Metrics = replayMetrics(nil)
	return k
}

// itemSpace is about how much of a server's disk an item of the synthetic shop takes, with all that belongs to it.
const itemSpace = 2 << 10

// replayMetrics are the figures of a replay. At the pace of the log the rate is the log's.
func replayMetrics(p workload.Params) []unit.Metric {
	var o options
	_ = o.setPaces(p) // New returns the error
	paced := o.paced()
	lower := func(name, of, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: of, Better: unit.Lower, Timed: true, Doc: doc}
	}
	ms := []unit.Metric{
		{Name: "statements_per_second", Unit: "statements/s", Better: unit.Higher, Timed: true, Primary: !paced,
			Doc: "statements per second over all lanes"},
		lower("seconds", "s", "time of a unit of work"),
		lower("latency_mean", "ns", "mean latency of a statement"),
		lower("latency_p50", "ns", "median latency of a statement"),
		lower("latency_p99", "ns", "99th percentile of the latencies"),
		lower("client_cpu_us_per_statement", "us",
			"CPU time of the client process per statement, including time in the kernel"),
	}
	ms[2].Primary, ms[4].Tail = paced, true
	if p["address"] == "" {
		ms = append(ms, lower("server_cpu_us_per_statement", "us",
			"CPU time of the server's processes per statement, including time in the kernel"))
	}
	if p["sessions"] != sessionsKept {
		ms = append(ms, lower("connect_p50", "ns", "median time to connect and log in"))
	}
	if paced {
		ms = append(ms, lower("behind_p99", "ns", "99th percentile of how much later than in the log statements were "+
			"sent"))
		ms[len(ms)-1].Tail = true
	}
	return ms
}

// options are the parameters of a replay, read.
type options struct {
	keep, text, whole, warm, writes, pinTime bool
	ordered                                  bool // by transactions
	think, connect                           float64
	idle                                     time.Duration
	laneText                                 string
	dialect                                  lex.Dialect
}

func newOptions(p workload.Params) (o *options, err error) {
	t, err := newTarget(p)
	if err != nil {
		return nil, fmt.Errorf("sql.replay: %w", err)
	}
	o = &options{keep: p["sessions"] == sessionsKept, text: p["prepared"] == preparedText, whole: p.Bool("whole"),
		warm: p.Bool("warm"), writes: p.Bool("writes"), pinTime: p.Bool("pin-time"), idle: p.Duration("idle-wait"),
		ordered: p["order"] == orderTransactions, laneText: p["lanes"]}
	if !t.mysql() {
		o.dialect = lex.PostgreSQL
	}
	if err := o.setPaces(p); err != nil {
		return nil, fmt.Errorf("sql.replay: %w", err)
	}
	if o.laneText != lanesSession {
		_, err = lanes(o.laneText)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%w, or %s for one for each session", err, lanesSession)
	case o.writes && !t.disposable:
		err = errors.New("writes: the replay changes the server's data; add disposable=yes if that is what you want")
	case p.Bool("locks") && !o.writes && o.dialect == lex.PostgreSQL:
		err = errors.New("locks: PostgreSQL refuses SELECT ... FOR UPDATE and the like in sessions that only read; " +
			"add writes=yes, or leave it out")
	case o.pinTime && o.dialect == lex.PostgreSQL:
		err = errors.New("pin-time: PostgreSQL cannot set a session's clock")
	case o.text && o.dialect == lex.PostgreSQL:
		err = errors.New("prepared=text: logs of PostgreSQL do not have the values in the statements")
	case o.ordered && p["log"] == "shop":
		err = errors.New("order=transactions: the synthetic shop has no transactions")
	case o.idle > 0 && !o.paced():
		err = errors.New("idle-wait: it has no effect with pace=flat")
	default:
		return o, nil
	}
	return nil, fmt.Errorf("sql.replay: %w", err)
}

// setPaces reads the paces within sessions and before them.
func (o *options) setPaces(p workload.Params) (err error) {
	for _, f := range []struct {
		name string
		pace *float64
	}{{"think", &o.think}, {"connect", &o.connect}} {
		name := f.name
		if p[name] == "" {
			name = "pace"
		}
		if *f.pace, err = parsePace(name, p[name]); err != nil {
			return err
		}
	}
	return nil
}

// paced tells whether times of the log are kept.
func (o *options) paced() bool { return o.think > 0 || o.connect > 0 }
