package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql/mysql"
)

// The table that both sides of a row use; sysbench creates it.
const (
	oltpTable    = 10000 // rows
	oltpDatabase = "bench"
)

// oltpRow compares sql.oltp with a peer, with the same server and the same table.
func oltpRow(name, what, peer string, programs []string, open func(context.Context, *bench) (*contest, error)) row {
	return row{
		name: name, peer: peer, programs: programs, open: open,
		what: what + ", as text by a Unix socket: transactions per second, and the client's processor time for each",
		figures: []figure{{name: "rate", unit: "transactions/s", goal: 1},
			{name: "processor time of the client", unit: "us", goal: 1, atMost: true}},
	}
}

func oltpRows() []row {
	var all []row
	for _, c := range []struct {
		mix, script, what string
		lanes             int
	}{
		{"point", "oltp_point_select", "a row by its key", 2},
		{"point", "oltp_point_select", "a row by its key", 16},
		{"read-only", "oltp_read_only", "the read-only mix", 4},
	} {
		all = append(all, oltpRow(fmt.Sprintf("oltp-%s-%d", c.mix, c.lanes),
			fmt.Sprintf("%s from MariaDB, %d lanes", c.what, c.lanes), "sysbench "+c.script,
			[]string{"sysbench", "mariadbd"}, func(ctx context.Context, b *bench) (*contest, error) {
				return openOLTP(ctx, b, dbserver.MariaDB, c.mix, c.lanes, sysbenchScript(c.script, c.lanes))
			}))
	}
	return append(all, oltpRow("oltp-pgbench-2", "a row by its key from PostgreSQL, 2 lanes", "pgbench",
		[]string{"sysbench", "pgbench"}, func(ctx context.Context, b *bench) (*contest, error) {
			peer, err := pgbenchScript(b.dir, 2)
			if err != nil {
				return nil, err
			}
			return openOLTP(ctx, b, dbserver.PostgreSQL, "point", 2, peer)
		}))
}

// oltpPeer is how a peer is called for a number of transactions, and how these and their rate stand in its report.
type oltpPeer struct {
	argv   func(e dbserver.Endpoint, transactions int64) []string
	report *regexp.Regexp
}

// openOLTP starts a server, and has sysbench fill a table for both sides.
func openOLTP(ctx context.Context, b *bench, product dbserver.Product, mix string, lanes int,
	peer oltpPeer) (_ *contest, err error) {
	dir, err := os.MkdirTemp(b.dir, "db-")
	if err != nil {
		return nil, err
	}
	server, err := dbserver.Start(ctx, dbserver.Options{Product: product, Dir: filepath.Join(dir, "server")})
	if err != nil {
		return nil, err
	}
	end := func() error { return server.Stop(context.WithoutCancel(ctx)) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	e := server.Endpoint()
	if product == dbserver.MariaDB {
		e.Database = oltpDatabase
		if err := createDatabase(ctx, e); err != nil {
			return nil, err
		}
	}
	if _, err := program(ctx, append(sysbenchAt(e, "oltp_read_only"), "prepare")...); err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, "sql.oltp", map[string]string{"server": string(product), "address": e.Address,
		"user": e.User, "database": e.Database, "mix": mix, "rows": strconv.Itoa(oltpTable), "rand": "uniform",
		"lanes": strconv.Itoa(lanes), "disposable": "yes"})
	if err != nil {
		return nil, err
	}
	stop := end
	end = func() error { return errors.Join(w.close(), stop()) }
	w.work = roundUp(w.work, int64(lanes))
	idle, err := startOf(ctx, peer.argv(e, int64(lanes)))
	if err != nil {
		return nil, err
	}
	argv := peer.argv(e, w.work)
	hide := strings.NewReplacer(e.Address, "SOCKET", filepath.Dir(e.Address), "FOLDER", b.dir, "DIR")
	return &contest{
		tare: w.metric("transactions_per_second", "client_cpu_us_per_transaction"),
		peer: func(ctx context.Context) ([]float64, error) {
			out, cpu, err := metered(ctx, argv...)
			if err != nil {
				return nil, err
			}
			rate, n, err := parseRate(string(out), peer.report)
			if err == nil && n != w.work {
				err = fmt.Errorf("%s made %d transactions instead of %d: the work is not the same", argv[0], n,
					w.work)
			}
			return []float64{rate, float64((cpu - idle).Nanoseconds()) / 1e3 / float64(w.work)}, err
		},
		notes: []string{
			hide.Replace(w.note("transactions")) + "; it checksums every row",
			argv[0] + ": `" + hide.Replace(strings.Join(argv, " ")) + "`; the processor time of its start is " +
				"subtracted",
			"server: " + server.Version() + " with default settings; both sides use the same server and table",
		},
		after: w.doubts,
		close: end,
	}, nil
}

func createDatabase(ctx context.Context, e dbserver.Endpoint) error {
	c, err := mysql.Dial(ctx, mysql.Config{Network: e.Network, Address: e.Address, User: e.User})
	if err != nil {
		return err
	}
	return errors.Join(c.Query([]byte("CREATE DATABASE "+e.Database), nil), c.Quit())
}

// startOf returns the processor time that a peer needs for its start and its connections: the minimum of three runs
// with one transaction for each lane.
func startOf(ctx context.Context, argv []string) (least time.Duration, err error) {
	for i := range 3 {
		_, cpu, err := metered(ctx, argv...)
		if err != nil {
			return 0, err
		}
		if i == 0 || cpu < least {
			least = cpu
		}
	}
	return least, nil
}

// sysbenchAt is a sysbench script with the options that say where.
func sysbenchAt(e dbserver.Endpoint, script string) []string {
	argv := []string{"sysbench", script, fmt.Sprintf("--table-size=%d", oltpTable), "--tables=1"}
	if e.Database == oltpDatabase {
		return append(argv, "--db-driver=mysql", "--mysql-socket="+e.Address, "--mysql-user="+e.User,
			"--mysql-db="+e.Database)
	}
	return append(argv, "--db-driver=pgsql", "--pgsql-host="+filepath.Dir(e.Address), "--pgsql-user="+e.User,
		"--pgsql-db="+e.Database)
}

func sysbenchScript(script string, lanes int) oltpPeer {
	return oltpPeer{
		argv: func(e dbserver.Endpoint, n int64) []string {
			return append(sysbenchAt(e, script), "--db-ps-mode=disable", "--rand-type=uniform",
				fmt.Sprintf("--threads=%d", lanes), fmt.Sprintf("--events=%d", n), "--time=0", "run")
		},
		report: sysbenchTransactions,
	}
}

// pgbenchScript is pgbench with the statement of sql.oltp, in place of its own -S, which selects from another table.
func pgbenchScript(dir string, lanes int) (oltpPeer, error) {
	path := filepath.Join(dir, "select.pgbench")
	text := fmt.Sprintf("\\set id random(1, %d)\nSELECT c FROM sbtest1 WHERE id=:id;\n", oltpTable)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return oltpPeer{}, err
	}
	return oltpPeer{
		argv: func(e dbserver.Endpoint, n int64) []string {
			k := strconv.Itoa(lanes)
			return []string{"pgbench", "-n", "-f", path, "-M", "simple", "-c", k, "-j", k, "-t",
				strconv.FormatInt(n/int64(lanes), 10), "-h", filepath.Dir(e.Address), "-U", e.User, e.Database}
		},
		report: pgbenchTransactions,
	}, nil
}

var (
	sysbenchTransactions = regexp.MustCompile(
		`(?m)^\s*transactions:\s+([0-9]+)\s+\(([0-9]+\.?[0-9]*) per sec\.\)\s*$`)
	pgbenchTransactions = regexp.MustCompile(
		`(?s)number of transactions actually processed: ([0-9]+)/[0-9]+\n.*\ntps = ([0-9]+\.?[0-9]*) \(without`)
)

// parseRate reads the number of transactions and their rate from a peer's report.
func parseRate(report string, pattern *regexp.Regexp) (rate float64, transactions int64, err error) {
	m := pattern.FindStringSubmatch(report)
	if m == nil {
		return 0, 0, fmt.Errorf("read the peer's report: it contains no number of transactions: %.200q", report)
	}
	if transactions, err = strconv.ParseInt(m[1], 10, 64); err == nil {
		rate, err = strconv.ParseFloat(m[2], 64)
	}
	if err == nil && rate <= 0 {
		err = fmt.Errorf("%v transactions a second", rate)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the peer's report: %w", err)
	}
	return rate, transactions, nil
}
