package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/supply"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/shop"
	"tare/internal/sys/sql/trace"
)

// replayQueries is how many queries the log of a row has, at least. In 15 pairs and the warm-up they are more than
// 100,000.
const replayQueries = 6_400

// replayRows replay a log on a server and, for comparison, on the same one again. What differs then differs falsely.
func replayRows() []row {
	var all []row
	for _, c := range []struct {
		name, what string
		queries    func() [][]string
	}{
		{"shop", "the pages of the synthetic shop", shopQueries},
		{"point", "rows by their keys", pointQueries},
	} {
		all = append(all, row{
			name: "sql-upgrade-" + c.name,
			what: "compare a MariaDB with itself by its general log, " + c.what + ": queries per second, and those " +
				"without a difference",
			peer: "pt-upgrade", programs: []string{"pt-upgrade", "mariadbd"},
			figures: []figure{{name: "rate", unit: "queries/s", goal: 15}, {name: "no difference", unit: "%", goal: 1}},
			open: func(ctx context.Context, b *bench) (*contest, error) {
				return openUpgrade(ctx, b, c.queries())
			},
		})
	}
	return all
}

// shopQueries are the queries of the shop's sessions, those that are prepared as text.
func shopQueries() (sessions [][]string) {
	n := 0
	for views := 1_000; n < replayQueries; views += 200 {
		n, sessions = 0, nil
		// What add is given has no error of its own.
		_ = shop.Shop{Dialect: lex.MySQL, Views: views}.Sessions(func(_ uint64, e *trace.Event) error {
			switch {
			case e.Op == trace.Connect:
				sessions = append(sessions, nil)
			case e.Op.Statement() && !strings.HasPrefix(string(e.Text), "SET "):
				sessions[len(sessions)-1] = append(sessions[len(sessions)-1], string(e.Text))
				n++
			}
			return nil
		})
	}
	return sessions
}

func pointQueries() (sessions [][]string) {
	rng := rand.New(rand.NewPCG(1, 0x706f696e74))
	for range replayQueries / 64 {
		var s []string
		for range 64 {
			s = append(s, fmt.Sprintf("SELECT id, category, name, price, stock, description FROM item WHERE id = %d",
				1+rng.IntN(2000)))
		}
		sessions = append(sessions, s)
	}
	return sessions
}

func queriesOf(sessions [][]string) (n int64) {
	for _, s := range sessions {
		n += int64(len(s))
	}
	return n
}

// shopServer starts a server with the shop's tables.
func shopServer(ctx context.Context, b *bench, product dbserver.Product) (dbserver.Server, dbserver.Endpoint, error) {
	dir, err := os.MkdirTemp(b.dir, "db-")
	if err != nil {
		return nil, dbserver.Endpoint{}, err
	}
	server, err := dbserver.Start(ctx, dbserver.Options{Product: product, Dir: filepath.Join(dir, "server")})
	if err != nil {
		return nil, dbserver.Endpoint{}, err
	}
	e := server.Endpoint()
	if product == dbserver.MariaDB {
		e.Database = oltpDatabase
		err = createDatabase(ctx, e)
	}
	if err == nil {
		err = fillShop(ctx, product, e)
	}
	if err != nil {
		return nil, e, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
	}
	return server, e, nil
}

func fillShop(ctx context.Context, product dbserver.Product, e dbserver.Endpoint) error {
	c, err := dialBench(ctx, product, e)
	if err != nil {
		return err
	}
	s := shop.Shop{Dialect: lex.MySQL}
	if product == dbserver.PostgreSQL {
		s.Dialect = lex.PostgreSQL
	}
	var dump strings.Builder
	if err := s.Dump(&dump); err != nil {
		return errors.Join(err, c.close())
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(dump.String()), ";\n") {
		if err := c.query(statement); err != nil {
			return errors.Join(fmt.Errorf("fill the shop: %w", err), c.close())
		}
	}
	return c.close()
}

// dbClient is a connection of either product.
type dbClient struct {
	my      *mysql.Conn
	pg      *postgres.Conn
	results mysql.Result // counts those of PostgreSQL, too
	rows    postgres.Result
}

func dialBench(ctx context.Context, product dbserver.Product, e dbserver.Endpoint) (c *dbClient, err error) {
	c = &dbClient{}
	if product == dbserver.PostgreSQL {
		c.pg, err = postgres.Dial(ctx, postgres.Config{Network: e.Network, Address: e.Address, User: e.User,
			Password: e.Password, Database: e.Database})
		return c, err
	}
	c.my, err = mysql.Dial(ctx, mysql.Config{Network: e.Network, Address: e.Address, User: e.User,
		Password: e.Password, Database: e.Database})
	return c, err
}

func (c *dbClient) checksum(on bool) { c.results.Checksum, c.rows.Digest = on, on }

func (c *dbClient) query(text string) error {
	if c.pg != nil {
		err := c.pg.Query([]byte(text), &c.rows)
		c.results.Rows, c.results.Bytes = c.results.Rows+c.rows.Rows, c.results.Bytes+c.rows.Bytes
		return err
	}
	return c.my.Query([]byte(text), &c.results)
}

func (c *dbClient) close() error {
	if c.pg != nil {
		_ = c.pg.Close() // all answers are there
		return nil
	}
	return c.my.Quit()
}

// recordLog has the server write its general log while it answers the queries of sessions, one after the other.
func recordLog(ctx context.Context, b *bench, e dbserver.Endpoint, sessions [][]string) (path string, err error) {
	var dir string
	control, err := dialBench(ctx, dbserver.MariaDB, e)
	if err != nil {
		return "", err
	}
	control.results.Row = func(v [][]byte) error {
		dir = string(v[0])
		return nil
	}
	const name = "bench.log"
	for _, q := range []string{"SELECT @@datadir", "SET GLOBAL general_log_file = '" + name + "'",
		"SET GLOBAL log_output = 'FILE'", "SET GLOBAL general_log = 1"} {
		if err := control.query(q); err != nil {
			return "", errors.Join(err, control.close())
		}
	}
	for _, s := range sessions {
		if err := askAll(ctx, e, s); err != nil {
			return "", errors.Join(err, control.close())
		}
	}
	if err := errors.Join(control.query("SET GLOBAL general_log = 0"), control.close()); err != nil {
		return "", err
	}
	// The first session of the log is the one that switched it on: without it, both sides have the same queries.
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	lines.Buffer(nil, 1<<20)
	var kept strings.Builder
	for lines.Scan() {
		if !strings.Contains(lines.Text(), "Query\tSET GLOBAL general_log = 0") {
			kept.WriteString(lines.Text() + "\n")
		}
	}
	path = filepath.Join(b.dir, name)
	return path, errors.Join(lines.Err(), os.WriteFile(path, []byte(kept.String()), 0o600))
}

func askAll(ctx context.Context, e dbserver.Endpoint, queries []string) error {
	c, err := dialBench(ctx, dbserver.MariaDB, e)
	if err != nil {
		return err
	}
	for _, q := range queries {
		if err := c.query(q); err != nil {
			return errors.Join(err, c.close())
		}
	}
	return c.close()
}

func openUpgrade(ctx context.Context, b *bench, sessions [][]string) (_ *contest, err error) {
	server, e, err := shopServer(ctx, b, dbserver.MariaDB)
	if err != nil {
		return nil, err
	}
	end := func() error { return server.Stop(context.WithoutCancel(ctx)) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	path, err := recordLog(ctx, b, e, sessions)
	if err != nil {
		return nil, fmt.Errorf("record a log: %w", err)
	}
	s, bye, err := b.host(ctx)
	if err != nil {
		return nil, err
	}
	stop := end
	end = func() error { return errors.Join(bye(), stop()) }
	u := &upgrade{bench: b, session: &weighing{session: s, work: 1}, path: path, queries: queriesOf(sessions),
		params: workload.Params{"server": string(dbserver.MariaDB), "address": e.Address, "user": e.User,
			"database": e.Database, "log": path, "whole": "yes"}}
	dsn := fmt.Sprintf("h=localhost,S=%s,u=%s,D=%s", e.Address, e.User, e.Database)
	argv := []string{"pt-upgrade", "--no-version-check", "--type", "genlog", "--max-class-size", "1000000",
		"--max-examples", "1", path, dsn, dsn}
	hide := strings.NewReplacer(e.Address, "SOCKET", path, "LOG")
	tares, peers := busy{pid: server.Pid()}, busy{pid: server.Pid()}
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			defer tares.while()()
			return u.tare(ctx)
		},
		peer: func(ctx context.Context) ([]float64, error) {
			defer peers.while()()
			start := time.Now()
			out, err := runUpgrade(ctx, argv)
			took := time.Since(start)
			if err != nil {
				return nil, err
			}
			n, differ, why, err := parseUpgrade(out)
			if err == nil && n != u.queries {
				err = fmt.Errorf("pt-upgrade compared %d queries, and the log has %d", n, u.queries)
			}
			u.peer.add(n, differ, why)
			return u.figures(n, differ, took), err
		},
		notes: []string{
			"tare: the log read, sent to the agent and replayed by two trials of `" +
				hide.Replace("-w sql.replay:address="+e.Address+",log="+path) + ",whole=yes`, one after the other, " +
				"whose checks are compared; it has twice as many connections as there are processors",
			"pt-upgrade: `" + hide.Replace(strings.Join(argv, " ")) + "`, its start included; one connection for " +
				"each of the two, one query after the other",
			fmt.Sprintf("server: %s with default settings; it recorded the log, of %d queries in %d sessions",
				server.Version(), u.queries, len(sessions)),
		},
		after: func() []string {
			return append([]string{u.own.String("tare"), u.peer.String("pt-upgrade"),
				fmt.Sprintf("the server's processor time for each query: %.0f µs with tare and %.0f with pt-upgrade; "+
					"of %d processors it used %.2f and %.2f", tares.each(u.own.queries), peers.each(u.peer.queries),
					runtime.NumCPU(), tares.share(), peers.share())}, u.session.doubts()...)
		},
		close: end,
	}, nil
}

// busy is how much a process works while something goes on.
type busy struct {
	pid       int
	cpu, wall time.Duration
}

// while begins such a time and returns what ends it.
func (y *busy) while() (end func()) {
	start, before := time.Now(), y.now()
	return func() {
		y.cpu += y.now() - before
		y.wall += time.Since(start)
	}
}

// now is the processor time of the process with all threads that have ended, 0 where the system does not tell.
func (y *busy) now() time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", y.pid))
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all processors that tare knows
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * tick
}

// each is the time for one of n queries on each of two servers, in µs.
func (y *busy) each(n int64) float64 { return y.cpu.Seconds() * 1e6 / float64(max(2*n, 1)) }

func (y *busy) share() float64 { return y.cpu.Seconds() / max(y.wall.Seconds(), 1e-9) }

// upgrade is a log that both sides replay.
type upgrade struct {
	bench     *bench
	session   *weighing
	params    workload.Params
	path      string
	queries   int64
	own, peer differences
}

// differences are those of all runs of a side.
type differences struct {
	queries, differ int64
	why             []string // what differed: "Query time"
}

func (d *differences) add(queries, differ int64, why []string) {
	d.queries += queries
	d.differ += differ
	for _, w := range why {
		if !slices.Contains(d.why, w) {
			d.why = append(d.why, w)
		}
	}
}

func (d *differences) String(who string) string {
	text := fmt.Sprintf("%s found %d of %d queries to differ in all runs, the warm-up included", who, d.differ,
		d.queries)
	if len(d.why) > 0 {
		text += ", by its headings in: " + strings.Join(d.why, ", ")
	}
	return text
}

// figures are the rate, over both servers, and the share of the queries that do not differ.
func (u *upgrade) figures(n, differ int64, took time.Duration) []float64 {
	return []float64{2 * float64(n) / took.Seconds(), 100 * float64(n-differ) / float64(n)}
}

// runUpgrade runs pt-upgrade, which has another exit code if it found a difference.
func runUpgrade(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := proc.Command(ctx, argv...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := proc.RunCmd(cmd, nil)
	if x, ok := errors.AsType[*proc.ExitError](err); ok && x.Code > 0 && upgradeStat.Match(out) {
		err = nil
	}
	return string(out), err
}

// tare replays the log twice and compares the checks.
func (u *upgrade) tare(ctx context.Context) ([]float64, error) {
	start := time.Now()
	dir, err := os.MkdirTemp(u.bench.dir, "trace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m := supply.New(dir)
	files, err := m.Of(ctx, &plan.Workload{Label: "replay", Kind: "sql.replay", Params: u.params})
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	u.session.job = wire.Job{Kind: "sql.replay", Params: u.params, Cell: "bench", Seed: u.bench.seed,
		Files: map[string]string{}}
	for name, f := range files {
		u.session.job.Files[name] = hex.EncodeToString(f.Digest[:])
		if err := u.session.session.Supply(ctx, f); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	var groups [2][]record.Group
	for i := range groups {
		o, err := u.session.run(ctx)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		groups[i] = o.Result.Groups
	}
	took := time.Since(start)
	n, differ := compareGroups(groups[0], groups[1])
	if n != u.queries {
		return nil, errors.Join(fmt.Errorf("tare replayed %d queries, and the log has %d", n, u.queries), m.Close())
	}
	u.own.add(n, differ, nil)
	return u.figures(n, differ, took), m.Close()
}

// compareGroups counts the queries, and those of the groups whose checks differ.
func compareGroups(a, b []record.Group) (n, differ int64) {
	other := map[string]record.Group{}
	for _, g := range b {
		other[g.ID] = g
	}
	for _, g := range a {
		n += g.Count
		if o := other[g.ID]; o.Count != g.Count || o.Check != g.Check || o.Errors != g.Errors {
			differ += g.Count
		}
	}
	return n, differ
}

var (
	upgradeStat = regexp.MustCompile(
		`(?m)^(failed_queries|queries_no_diffs|queries_with_diffs|queries_with_errors) +([0-9]+)$`)
	upgradeDiff = regexp.MustCompile(`(?m)^## (.+) diffs: [0-9]+$`)
)

// parseUpgrade reads from pt-upgrade's report how many queries it compared, how many of them differ, and why.
func parseUpgrade(report string) (queries, differ int64, why []string, err error) {
	stats := map[string]int64{}
	for _, m := range upgradeStat.FindAllStringSubmatch(report, -1) {
		if stats[m[1]], err = strconv.ParseInt(m[2], 10, 64); err != nil {
			return 0, 0, nil, fmt.Errorf("read pt-upgrade's report: %w", err)
		}
	}
	if len(stats) != 4 {
		return 0, 0, nil, fmt.Errorf("read pt-upgrade's report: it has no statistics: %.200q", report)
	}
	if n := stats["failed_queries"] + stats["queries_with_errors"]; n > 0 {
		return 0, 0, nil, fmt.Errorf("read pt-upgrade's report: %d queries failed", n)
	}
	differ = stats["queries_with_diffs"]
	for _, m := range upgradeDiff.FindAllStringSubmatch(report, -1) {
		why = append(why, m[1])
	}
	return differ + stats["queries_no_diffs"], differ, why, nil
}
