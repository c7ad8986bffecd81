package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/netpeer"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/thread"
)

// The table that both sides query; sysbench creates it.
const (
	selectTable    = "sbtest1"
	selectRows     = 10000
	selectDatabase = "bench"
)

// mysqlRows compare tare's client for MySQL with sysbench, with the same MariaDB server.
func mysqlRows() []row {
	var all []row
	for _, lanes := range []int{2, 16} {
		all = append(all, row{
			name: fmt.Sprintf("mysql-%d", lanes),
			what: fmt.Sprintf("select rows by key from MariaDB, text protocol, Unix socket, %d lanes: queries per "+
				"second, and the client's processor time per query", lanes), peer: "sysbench oltp_point_select",
			programs: []string{"sysbench", "mariadbd"},
			figures: []figure{{name: "rate", unit: "queries/s", goal: 1},
				{name: "processor time of the client", unit: "us", goal: 1, atMost: true}},
			open: func(ctx context.Context, b *bench) (*contest, error) { return openMySQL(ctx, b, lanes) },
		})
	}
	return all
}

func openMySQL(ctx context.Context, b *bench, lanes int) (_ *contest, err error) {
	dir, err := os.MkdirTemp(b.dir, "db-")
	if err != nil {
		return nil, err
	}
	server, err := dbserver.Start(ctx, dbserver.Options{Product: dbserver.MariaDB, Dir: filepath.Join(dir, "server")})
	if err != nil {
		return nil, err
	}
	l := &selectLanes{}
	end := func() error { return errors.Join(l.close(), server.Stop(context.WithoutCancel(ctx))) }
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	e := server.Endpoint()
	where := []string{"--db-driver=mysql", "--mysql-socket=" + e.Address, "--mysql-user=" + e.User,
		"--mysql-db=" + selectDatabase, fmt.Sprintf("--table-size=%d", selectRows), "--tables=1"}
	if err := l.open(ctx, e, lanes, b.seed); err != nil {
		return nil, err
	}
	sysbench := append([]string{"sysbench", "oltp_point_select"}, where...)
	if _, err := program(ctx, append(slices.Clone(sysbench), "prepare")...); err != nil {
		return nil, err
	}
	if err := l.use(); err != nil {
		return nil, err
	}
	n, err := l.calibrate(b.length)
	if err != nil {
		return nil, err
	}
	how := []string{"--db-ps-mode=disable", "--rand-type=uniform", fmt.Sprintf("--threads=%d", lanes),
		fmt.Sprintf("--events=%d", n), "--time=0"}
	argv := append(append(sysbench, how...), "run")
	idle, err := startOf(ctx, argv, n, lanes)
	if err != nil {
		return nil, err
	}
	return &contest{
		tare: func(context.Context) ([]float64, error) { return l.run(n) },
		peer: func(ctx context.Context) ([]float64, error) {
			out, cpu, err := metered(ctx, argv...)
			if err != nil {
				return nil, err
			}
			rate, queries, err := parseQueries(string(out))
			if err == nil && queries != n {
				err = fmt.Errorf("sysbench made %d queries instead of %d: the work is not the same", queries, n)
			}
			return []float64{rate, float64((cpu - idle).Nanoseconds()) / 1e3 / float64(n)}, err
		},
		notes: []string{
			fmt.Sprintf("tare: internal/sys/sql/mysql in the process of the benchmark, with a thread for each lane; "+
				"it counts and checksums every row; %d queries a run", n),
			"sysbench: `" + strings.ReplaceAll(strings.Join(argv, " "), e.Address, "SOCKET") +
				"`; the processor time of its start is subtracted",
			"server: " + server.Version() + " with default settings; both sides use the same server",
		},
		close: end,
	}, nil
}

// startOf returns the processor time that sysbench needs for its start and its connections: the minimum of three runs
// with one query for each lane.
func startOf(ctx context.Context, argv []string, n int64, lanes int) (least time.Duration, err error) {
	argv = slices.Clone(argv)
	i := slices.Index(argv, fmt.Sprintf("--events=%d", n))
	argv[i] = fmt.Sprintf("--events=%d", lanes)
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

// selectLanes is tare's side: connections with a thread each.
type selectLanes struct {
	conns []*mysql.Conn
	rngs  []*rand.PCG
}

func (l *selectLanes) open(ctx context.Context, e dbserver.Endpoint, lanes int, seed uint64) error {
	for i := range lanes {
		c, err := mysql.Dial(ctx, mysql.Config{Network: e.Network, Address: e.Address, User: e.User, Untold: true})
		if err != nil {
			return err
		}
		l.conns, l.rngs = append(l.conns, c), append(l.rngs, rand.NewPCG(seed, uint64(i)))
	}
	return l.conns[0].Query([]byte("CREATE DATABASE "+selectDatabase), nil)
}

// use selects the database on all connections.
func (l *selectLanes) use() error {
	for _, c := range l.conns {
		if err := c.InitDB(selectDatabase); err != nil {
			return err
		}
	}
	return nil
}

func (l *selectLanes) close() (err error) {
	for _, c := range l.conns {
		err = errors.Join(err, c.Quit())
	}
	return err
}

// calibrate returns the number of queries that takes the given time.
func (l *selectLanes) calibrate(length time.Duration) (int64, error) {
	n := int64(1000)
	for {
		got, err := l.run(n)
		if err != nil {
			return 0, err
		}
		want := int64(math.Ceil(length.Seconds() * got[0]))
		if n >= want/2 {
			return want, nil
		}
		n = min(want, 4*n)
	}
}

// run makes n queries. It returns the queries per second and the processor time per query in microseconds.
func (l *selectLanes) run(n int64) ([]float64, error) {
	defer thread.Room(len(l.conns))()
	errs := make([]error, len(l.conns))
	var rest sync.WaitGroup
	cpu, began := netpeer.CPUTime(), time.Now()
	for i := range l.conns {
		k := int64(len(l.conns))
		share := n*int64(i+1)/k - n*int64(i)/k
		rest.Go(func() { errs[i] = l.lane(i, share) })
	}
	rest.Wait()
	took, used := time.Since(began), netpeer.CPUTime()-cpu
	return []float64{float64(n) / took.Seconds(), float64(used.Nanoseconds()) / 1e3 / float64(n)}, errors.Join(errs...)
}

func (l *selectLanes) lane(i int, n int64) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rng, r := rand.New(l.rngs[i]), mysql.Result{Checksum: true}
	text := []byte("SELECT c FROM " + selectTable + " WHERE id=")
	fixed := len(text)
	for range n {
		text = strconv.AppendInt(text[:fixed], 1+rng.Int64N(selectRows), 10)
		if err := l.conns[i].Query(text, &r); err != nil {
			return err
		}
	}
	if r.Rows != uint64(n) {
		return fmt.Errorf("%d queries gave %d rows", n, r.Rows)
	}
	return nil
}

var sysbenchQueries = regexp.MustCompile(`(?m)^\s*queries:\s+([0-9]+)\s+\(([0-9]+\.?[0-9]*) per sec\.\)\s*$`)

// parseQueries reads the number of queries and their rate from sysbench's report.
func parseQueries(out string) (rate float64, queries int64, err error) {
	m := sysbenchQueries.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, fmt.Errorf("read sysbench's report: it contains no number of queries: %.200q", out)
	}
	if queries, err = strconv.ParseInt(m[1], 10, 64); err == nil {
		rate, err = strconv.ParseFloat(m[2], 64)
	}
	if err == nil && rate <= 0 {
		err = fmt.Errorf("%v queries a second", rate)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read sysbench's report: %w", err)
	}
	return rate, queries, nil
}
