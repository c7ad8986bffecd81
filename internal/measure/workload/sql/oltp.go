package sql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/sys/histogram"
	"tare/internal/sys/thread"
	"tare/internal/unit"
)

// baseSpace is about how much of a disk a private server takes without data, in bytes.
const baseSpace = 400 << 20

func oltpKind() workload.Kind {
	return workload.Kind{
		Name: "sql.oltp", Family: workload.FamilyDatabase, WorkUnit: "transaction", SameWork: true,
		Is:    workload.Traits{Server: workload.DatabaseServer, Parallel: true, Lanes: "lanes"},
		Needs: workload.Needs{FS: true, CPUBound: true},
		Doc: "Runs the transactions of sysbench's OLTP scripts, with their statements and tables, on " +
			"a database server. A transaction's work depends on its number only, the same with any number of " +
			"lanes; one that a conflict ended is repeated. With mixes that only read, all results are compared by " +
			"their checksums.",
		Params: slices.Concat(serverParams(), []workload.Param{
			{Name: "tables", Type: workload.Int, Default: "1", Min: 1, Max: 1000, Doc: "number of " +
				"tables"},
			{Name: "rows", Type: workload.Int, Default: "10000", Min: 1, Max: 1_000_000_000,
				Doc: "rows of each table, some 300 bytes each"},
		}, mixParams(), []workload.Param{
			{Name: "rand", Type: workload.Choice, Default: randSpecial, Choices: []string{randSpecial, randUniform},
				Doc: "choice of rows: uniform; special: three of four from the hundredth in a table's " +
					"middle"},
			{Name: "prepared", Type: workload.Bool, Default: "no",
				Doc: "yes: prepare the statements before the trial; no: send them as text"},
			lanesParam("connections, each with a thread: a number, or 2x for twice the processors"),
		}),
		Metrics:   oltpMetrics(true),
		Dynamic:   func(p workload.Params) []unit.Metric { return oltpMetrics(p["address"] == "") },
		OnlyReads: func(p workload.Params) bool { return p["address"] != "" },
		Space: func(p workload.Params) int64 {
			if p["address"] != "" {
				return 0
			}
			return baseSpace + p.Int("tables")*p.Int("rows")*rowSpace
		},
		Service: func(p workload.Params) *workload.Service {
			writes := p["mix"] == mixReadWrite || p["mix"] == mixWriteOnly // others would read what it leaves behind
			key := fmt.Sprintf("oltp %d tables=%s rows=%s rand=%s writes=%t", oltpFormat, p["tables"], p["rows"],
				p["rand"], writes)
			return service(p, content{key: key, fill: tablesOf(p).fill})
		},
		Lasts: func(p workload.Params) workload.Lasting {
			return lasts(p, p["mix"] == mixReadWrite || p["mix"] == mixWriteOnly)
		},
		New: newOLTP,
	}
}

// oltpFormat is incremented when tables are filled differently.
const oltpFormat = 1

// oltpMetrics are the kind's figures. The server's CPU time is known if the server is tare's own.
func oltpMetrics(private bool) []unit.Metric {
	lower := func(name, of string, timed, tail bool, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: of, Better: unit.Lower, Timed: timed, Tail: tail, Doc: doc}
	}
	all := []unit.Metric{
		{Name: "transactions_per_second", Unit: "transactions/s", Better: unit.Higher, Timed: true, Primary: true,
			Doc: "transactions per second over all lanes"},
		lower("latency_p50", "ns", true, false, "that percentile of a transaction's time"),
		lower("latency_p99", "ns", true, true, "that percentile of a transaction's time"),
		lower("client_cpu_us_per_transaction", "us", false, false,
			"CPU time of the client per transaction"),
	}
	if private {
		all = append(all, lower("server_cpu_us_per_transaction", "us", false, false,
			"CPU time of the server's processes per transaction"))
	}
	return all
}

func tablesOf(p workload.Params) tables {
	return tables{count: int(p.Int("tables")), rows: p.Int("rows"), draw: drawOf(p["rand"])}
}

// oltp is a trial of the kind sql.oltp.
type oltp struct {
	*mix
	tables
	target    *target
	prepared  bool
	lanes     []*oltpLane
	clients   []client
	control   client // reads the counters
	team      *thread.Team
	undo      func()
	next      atomic.Int64 // transaction
	seed      uint64
	before    counters
	clientCPU time.Duration
}

func newOLTP(p workload.Params) (workload.Trial, error) {
	t := &oltp{tables: tablesOf(p), prepared: p.Bool("prepared")}
	var err error
	if t.target, err = newTarget(p); err == nil {
		t.mix, err = newMix(p, t.count)
	}
	var n int
	if err == nil {
		n, err = replay.Lanes(p["lanes"])
	}
	if err == nil && t.writes && !t.target.disposable {
		err = fmt.Errorf("mix=%s changes the tables of the server at %s: set disposable=yes to allow it", p["mix"],
			p["address"])
	}
	if err != nil {
		return nil, fmt.Errorf("sql.oltp: %w", err)
	}
	t.lanes = make([]*oltpLane, n)
	return t, nil
}

// Setup connects the lanes, and checks or creates the tables of a server that is not tare's own.
func (t *oltp) Setup(ctx context.Context, b *workload.Bench) (err error) {
	if err := t.target.find(b); err != nil {
		return err
	}
	t.seed = b.Seed
	readOnly := !t.target.disposable
	beside := *t.target
	beside.untold = false // it belongs to no lane
	if t.control, err = dial(ctx, &beside, readOnly); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, t.control.interrupt)()
	if b.Service.Trials == 0 {
		if err := t.look(ctx, b, &beside); err != nil {
			return err
		}
	}
	t.undo = thread.Room(len(t.lanes))
	if t.clients, err = dialAll(ctx, t.target, len(t.lanes), readOnly); err != nil {
		return err
	}
	for i, c := range t.clients {
		t.lanes[i] = newOLTPLane(t, c)
		if t.prepared {
			if err := t.mix.prepare(c); err != nil {
				return err
			}
		}
	}
	if t.team, err = thread.Start(len(t.lanes), false); err != nil {
		return err
	}
	b.Note("lanes", strconv.Itoa(len(t.lanes)))
	t.target.notePromises(b, t.control)
	t.before, err = t.target.count(t.control, t.clients)
	return err
}

// look reads all tables, so that caches are filled with them. It creates those that a disposable server lacks.
func (t *oltp) look(ctx context.Context, b *workload.Bench, to *target) error {
	for table := 1; table <= t.count; table++ {
		count, err := t.countRows(table)
		if r, ok := errors.AsType[*refusal](err); ok && slices.Contains(noSuchTable, r.code) && to.disposable {
			if err = t.fillOne(ctx, to, table, b.Seed); err == nil {
				count, err = t.countRows(table)
			}
		}
		if err == nil && count != t.rows {
			err = fmt.Errorf("it has %d rows, not %d", count, t.rows)
		}
		if err != nil {
			return fmt.Errorf("look at table sbtest%d: %w; create the tables by sysbench oltp_read_only prepare, or "+
				"give a database without them and say disposable=yes", table, err)
		}
	}
	return nil
}

// noSuchTable are the codes of a refusal because a table does not exist.
var noSuchTable = []string{"1146", "42P01"}

// countRows reads a table and returns the number of its rows.
func (t *oltp) countRows(table int) (n int64, err error) {
	text := fmt.Appendf(nil, "SELECT COUNT(*), SUM(LENGTH(c)) FROM sbtest%d", table)
	err = t.control.query(text, &answer{row: func(v [][]byte) (err error) {
		n, err = strconv.ParseInt(string(v[0]), 10, 64)
		return err
	}})
	return n, err
}

// Measure runs the transactions. A lane that fails ends all.
func (t *oltp) Measure(ctx context.Context, b *workload.Bench) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() {
		for _, c := range t.clients {
			c.interrupt()
		}
	})()
	t.clientCPU = netpeer.CPUTime()
	began := time.Now()
	t.team.Do(func(i int) {
		if err := t.lanes[i].run(b.Work, began); err != nil {
			cancel(fmt.Errorf("lane %d of %d: %w", i+1, len(t.lanes), err))
		}
	})
	t.clientCPU = netpeer.CPUTime() - t.clientCPU
	return context.Cause(ctx)
}

func (t *oltp) Report(b *workload.Bench) error {
	work := t.target.did(b, t.before, t.control, t.clients)
	var all oltpTally
	var times histogram.Histogram
	repeated := int64(0)
	for _, l := range t.lanes {
		all.add(l.total)
		times.Merge(&l.times)
		repeated += l.repeated
	}
	b.Note("repeated", strconv.FormatInt(repeated, 10))
	// The names say how much work it is, so that those of a run that did another amount are not compared with them.
	check := func(name, value string) { b.Check(name+" of "+unit.Plural(b.Work, "transaction"), value) }
	check("statements", strconv.FormatInt(b.Work*int64(t.statementsOf()), 10))
	if !t.writes {
		check("rows", strconv.FormatUint(all.rows, 10))
		check("sum", strconv.FormatUint(all.sum, 16))
	}
	b.Report("transactions_per_second", b.Rate(1))
	b.Report("latency_p50", float64(times.Quantile(0.5)))
	b.Report("latency_p99", float64(times.Quantile(0.99)))
	each := func(d time.Duration) float64 { return d.Seconds() * 1e6 / float64(b.Work) }
	b.Report("client_cpu_us_per_transaction", each(t.clientCPU))
	if work.cpu > 0 {
		b.Report("server_cpu_us_per_transaction", each(work.cpu))
	}
	return nil
}

func (t *oltp) Cleanup(*workload.Bench) error {
	if t.team != nil {
		t.team.Close()
	}
	all := t.clients
	if t.control != nil {
		all = append(all, t.control)
	}
	err := closeAll(all)
	if t.undo != nil {
		t.undo()
	}
	return err
}

// oltpTally has the rows of transactions and their checksum.
type oltpTally struct{ rows, sum uint64 }

func (a *oltpTally) add(b oltpTally) {
	a.rows += b.rows
	a.sum += b.sum
}

// oltpLane is a connection of a trial.
type oltpLane struct {
	*oltp
	client   client
	pcg      rand.PCG
	rng      *rand.Rand
	text     []byte
	values   [maxArgs][]byte
	answer   answer
	now      oltpTally // of the current transaction
	total    oltpTally
	repeated int64
	times    histogram.Histogram
}

func newOLTPLane(t *oltp, c client) *oltpLane {
	l := &oltpLane{oltp: t, client: c, text: make([]byte, 0, 512)}
	l.rng = rand.New(&l.pcg)
	for i := range l.values {
		l.values[i] = make([]byte, 0, textLength)
	}
	l.times.Reset() // make its pages resident
	return l
}

// run runs transactions until work of them have been begun by all lanes.
func (l *oltpLane) run(work int64, began time.Time) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer thread.Quiet()()
	last := time.Since(began)
	for {
		i := l.next.Add(1) - 1
		if i >= work {
			return nil
		}
		for {
			err := l.transaction(i)
			if err == nil {
				break
			}
			if err := l.rollBack(err); err != nil {
				return err
			}
		}
		l.total.add(l.now)
		now := time.Since(began)
		l.times.Record(int64(now - last))
		last = now
	}
}

var (
	textBegin    = []byte("BEGIN")
	textCommit   = []byte("COMMIT")
	textRollBack = []byte("ROLLBACK")
)

// transaction runs the i-th transaction.
func (l *oltpLane) transaction(i int64) error {
	const spread = 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, so that near numbers have distant states
	l.pcg.Seed(l.seed, uint64(i)*spread)
	l.now = oltpTally{}
	if l.explicit {
		if err := l.client.query(textBegin, &l.answer); err != nil {
			return err
		}
	}
	for s := range l.steps {
		if err := l.step(&l.steps[s]); err != nil {
			return err
		}
	}
	if l.explicit {
		return l.client.query(textCommit, &l.answer)
	}
	return nil
}

// step runs the statements of a step.
func (l *oltpLane) step(s *mixStep) error {
	table := 0
	if l.count > 1 {
		table = l.rng.IntN(l.count)
	}
	for range s.times {
		id := l.draw(l.rng, l.rows)
		for _, statement := range s.statements {
			if err := l.statement(statement, table, id); err != nil {
				return err
			}
			l.now.add(oltpTally{l.answer.rows, l.answer.unordered})
		}
	}
	return nil
}

// statement runs a statement for the row id.
func (l *oltpLane) statement(c *compiled, table int, id int64) error {
	for i, a := range c.args {
		v := l.values[i][:0]
		switch a {
		case argID:
			v = strconv.AppendInt(v, id, 10)
		case argEnd:
			v = strconv.AppendInt(v, id+l.width-1, 10)
		case argKey:
			v = strconv.AppendInt(v, l.draw(l.rng, l.rows), 10)
		case argText:
			v = appendDigits(v, l.rng, textLength)
		case argPad:
			v = appendDigits(v, l.rng, padLength)
		}
		l.values[i] = v
	}
	if l.prepared {
		return l.client.execute(c.id+uint32(table), nil, l.values[:len(c.args)], c.types, &l.answer)
	}
	parts := c.parts[table]
	l.text = append(l.text[:0], parts[0]...)
	for i, part := range parts[1:] {
		l.text = append(append(l.text, l.values[i]...), part...)
	}
	return l.client.query(l.text, &l.answer)
}

// conflicts are the codes of a refusal after which a transaction is repeated, as sysbench does: another transaction
// changed the same rows. Of MySQL: record has changed, lock wait timeout, deadlock; of PostgreSQL: unique violation,
// serialization failure, deadlock.
var conflicts = []string{"1020", "1205", "1213", "23505", "40001", "40P01"}

// rollBack ends a transaction that is to be repeated. It returns any other error.
func (l *oltpLane) rollBack(err error) error {
	r, ok := err.(*refusal)
	if !ok || !slices.Contains(conflicts, r.code) {
		return err
	}
	l.repeated++
	if !l.explicit {
		return nil
	}
	return l.client.query(textRollBack, &l.answer)
}
