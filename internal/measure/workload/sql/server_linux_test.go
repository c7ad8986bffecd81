package sql

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/sql"
)

// kept are the servers of the package's tests, which share them: a start takes seconds.
var kept = struct {
	sync.Mutex
	dir     string
	running []workload.Running
	shared  map[string]workload.Serving // by the service's key
}{shared: map[string]workload.Serving{}}

func TestMain(m *testing.M) {
	trialtest.InMemory()
	code := m.Run()
	for _, r := range kept.running {
		if r.Stop(context.Background()) != nil {
			code = 1
		}
	}
	if kept.dir != "" && os.RemoveAll(kept.dir) != nil {
		code = 1
	}
	os.Exit(code)
}

// products are the servers that are tested.
var products = []dbserver.Product{dbserver.MariaDB, dbserver.MySQL, dbserver.PostgreSQL}

// hasty are settings of servers that need not keep anything and soon give up in a deadlock.
var hasty = map[dbserver.Product]string{
	dbserver.MariaDB:    "innodb_flush_log_at_trx_commit=0; innodb_buffer_pool_size=32M",
	dbserver.MySQL:      "innodb_flush_log_at_trx_commit=0; innodb_buffer_pool_size=32M; sync_binlog=0",
	dbserver.PostgreSQL: "fsync=off; deadlock_timeout=10ms",
}

// each runs a test for each product. One that is not installed is skipped; with TARE_REQUIRE, as in CI, it fails.
func each(t *testing.T, test func(t *testing.T, server map[string]string)) {
	for _, p := range products {
		t.Run(string(p), func(t *testing.T) {
			if testing.Short() && p != dbserver.PostgreSQL {
				t.Skip("with -short only the server that starts fastest")
			}
			given := map[string]string{"server": string(p), "settings": hasty[p]}
			if root := os.Getenv("TARE_MYSQL_ROOT"); p == dbserver.MySQL && root != "" {
				given["root"] = root
			}
			test(t, given)
		})
	}
}

// shared returns a kind's service, which it starts once for all tests.
func shared(t *testing.T, s *workload.Service) workload.Serving {
	t.Helper()
	serving, ok := kept.shared[s.Key]
	if !ok {
		serving = started(t, s)
		serving.Trials = 1
		kept.shared[s.Key] = serving
	}
	return serving
}

// started starts a kind's service for the rest of the package's tests.
func started(t *testing.T, s *workload.Service) workload.Serving {
	t.Helper()
	return startedWith(t, s, nil)
}

func startedWith(t *testing.T, s *workload.Service, files map[string]string) workload.Serving {
	t.Helper()
	kept.Lock()
	defer kept.Unlock()
	if kept.dir == "" {
		var err error
		if kept.dir, err = os.MkdirTemp("", "tare-sql-test-"); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(kept.dir, "service-")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Start(t.Context(), &workload.Bench{Dir: dir, Seed: 42, Files: files})
	if f, ok := errors.AsType[*record.Failure](err); ok {
		t.Log(f.Evidence)
		if f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	kept.running = append(kept.running, r)
	return workload.Serving{Endpoint: r.Endpoint(), Starts: 1}
}

// word is the first value of a query's last row.
func word(t *testing.T, c client, text string) (value string) {
	t.Helper()
	err := c.query([]byte(text), &answer{row: func(v [][]byte) error {
		value = string(v[0])
		return nil
	}})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func statement(t *testing.T, c client, text string) answer {
	t.Helper()
	var a answer
	if err := c.query([]byte(text), &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

func TestClient(t *testing.T) {
	each(t, func(t *testing.T, server map[string]string) {
		p := resolved(t, serverParams(), server)
		filled := 0
		serving := started(t, service(p, content{key: "test", fill: func(ctx context.Context, _ *workload.Bench,
			to *target) error {
			c, err := dial(ctx, to, false)
			if err != nil {
				return err
			}
			filled++
			text := []byte("CREATE TABLE a (id INT PRIMARY KEY, v TEXT)")
			return errors.Join(c.query(text, &answer{}), c.close())
		}}))
		to, err := newTarget(p)
		if err == nil {
			err = to.find(&workload.Bench{Service: serving})
		}
		if err != nil || filled != 1 || to.Version == "" || to.PID == 0 {
			t.Fatalf("%+v, filled %d times: %v", to, filled, err)
		}
		to.untold = false // the test has no threads for that
		all, err := dialAll(t.Context(), to, 2, false)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(all)
		c, control := all[0], all[1]
		before, err := to.count(control, all[:1])
		if err != nil {
			t.Fatal(err)
		}
		checkQueries(t, c)
		checkPrepared(t, c)
		checkRefusals(t, c)
		// So much that the ticks in which the time of ended processes is counted do not matter.
		busy := "SELECT BENCHMARK(500000, SHA2('a', 256))"
		if !to.mysql() {
			busy = "SELECT count(md5(i::text)) FROM generate_series(1, 1000000) i"
		}
		if err := c.query([]byte(busy), &answer{}); err != nil {
			t.Fatal(err)
		}
		work, err := to.count(control, all[:1])
		if err != nil {
			t.Fatal(err)
		}
		work = work.since(before)
		asked, missed := work.pages()
		if asked < 1 || missed < 0 || missed > asked || work.cpu <= 0 || len(work.of) < 8 {
			t.Errorf("counted %+v", work)
		}
		b := &workload.Bench{}
		if work.note(b); b.State["buffer_miss_share"] == "" || len(b.State) < 9 || work.missShare() > 1 {
			t.Errorf("state %v", b.State)
		}
		checkReadOnly(t, to)
		if !to.mysql() {
			checkRoles(t, to)
		}
		checkGone(t, c)
	})
}

func checkQueries(t *testing.T, c client) {
	t.Helper()
	a := statement(t, c, "INSERT INTO a VALUES (1, 'one'), (2, NULL), (3, 'three')")
	if a.affected != 3 || a.rows != 0 {
		t.Errorf("an insertion gives %+v", a)
	}
	up, down := statement(t, c, "SELECT * FROM a ORDER BY id"), statement(t, c, "SELECT * FROM a ORDER BY id DESC")
	if up.rows != 3 || up.bytes == 0 || up.ordered == down.ordered || up.unordered != down.unordered {
		t.Errorf("a table gives %+v and %+v", up, down)
	}
	if a := statement(t, c, "SELECT 1 FROM a WHERE id < 0"); a.rows != 0 || a.unordered != 0 {
		t.Errorf("no rows give %+v", a)
	}
}

func checkPrepared(t *testing.T, c client) {
	t.Helper()
	text := "SELECT v FROM a WHERE id = ?"
	if _, ok := c.(*postgresClient); ok {
		text = "SELECT v FROM a WHERE id = $1"
	}
	if err := c.prepare(7, nil, []byte(text)); err != nil {
		t.Fatal(err)
	}
	var sums []uint64
	for _, id := range []string{"1", "2", "3"} {
		var a answer
		if err := c.execute(7, nil, [][]byte{[]byte(id)}, nil, &a); err != nil || a.rows != 1 {
			t.Fatalf("%s: %+v, %v", id, a, err)
		}
		sums = append(sums, a.unordered)
	}
	if slices.Sort(sums); len(slices.Compact(sums)) != 3 {
		t.Errorf("different rows have equal sums")
	}
	var a answer
	if err := c.execute(7, nil, [][]byte{nil}, nil, &a); err != nil || a.rows != 0 {
		t.Errorf("NULL: %+v, %v", a, err)
	}
	if _, ok := c.(*postgresClient); ok {
		one := [][]byte{[]byte("1")}
		err := errors.Join(c.execute(0, []byte(text), one, nil, &a), c.prepare(8, []byte("again"), []byte("SELECT 1")),
			c.prepare(9, []byte("again"), []byte(text)), c.execute(9, nil, one, nil, &a))
		if err != nil || a.rows != 1 {
			t.Errorf("without a name, and with one of another statement: %+v, %v", a, err)
		}
	}
	if err := c.closeStatement(7); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{c.execute(7, nil, nil, nil, &a), c.execute(6, nil, nil, nil, &a), c.closeStatement(7)} {
		if err != errNotPrepared {
			t.Errorf("a statement that is closed gives %v", err)
		}
	}
}

func checkRefusals(t *testing.T, c client) {
	t.Helper()
	for text, codes := range map[string][]string{
		"SELECT * FROM nothing": {"1146", "42P01"}, "SELEKT": {"1064", "42601"},
	} {
		err := c.query([]byte(text), &answer{})
		r, ok := err.(*refusal)
		if !ok || !slices.Contains(codes, r.code) || r.text == "" {
			t.Errorf("%s gives %v", text, err)
		}
		if err := c.prepare(1, nil, []byte(text)); err == nil {
			t.Errorf("%s was prepared", text)
		}
	}
	if _, ok := c.(*postgresClient); ok {
		if err, ok := c.use([]byte("postgres")).(*refusal); !ok || err.code != codeClient {
			t.Errorf("another database gives %v", err)
		}
	} else if err := c.use([]byte("mysql")); err != nil {
		t.Error(err)
	}
	if err := c.use([]byte(own)); err != nil {
		t.Error(err)
	}
}

// checkReadOnly also checks that a session that was reset still only reads.
func checkReadOnly(t *testing.T, to *target) {
	t.Helper()
	c, err := dial(t.Context(), to, true)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for range 2 {
		err := c.query([]byte("DELETE FROM a"), &answer{})
		if r, ok := err.(*refusal); !ok || r.code != "1792" && r.code != "25006" {
			t.Errorf("a deletion gives %v", err)
		}
		for text, allowed := range map[string]bool{"SELECT * FROM a FOR UPDATE": false,
			"SELECT * FROM a LOCK IN SHARE MODE": to.mysql()} {
			if err := c.query([]byte(text), &answer{}); (err == nil) != allowed {
				t.Errorf("%s gives %v", text, err)
			}
		}
		if got := word(t, c, "SELECT COUNT(*) FROM a"); got != "3" {
			t.Errorf("%s rows are left", got)
		}
		if err := c.prepare(1, nil, []byte("SELECT 1")); err != nil {
			t.Fatal(err)
		}
		if err := c.reset(); err != nil {
			t.Fatal(err)
		}
		if err := c.execute(1, nil, nil, nil, &answer{}); err != errNotPrepared {
			t.Errorf("a statement of before the reset gives %v", err)
		}
	}
}

// checkRoles restores dumps with users and with a type that do not exist: only the type is missed.
func checkRoles(t *testing.T, to *target) {
	t.Helper()
	const users = "ALTER TABLE a OWNER TO nobody;\nGRANT SELECT ON a TO nobody;\nALTER DEFAULT PRIVILEGES " +
		"FOR ROLE nobody GRANT SELECT ON TABLES TO nobody;\nCREATE POLICY p ON a TO nobody;\n"
	b := &workload.Bench{}
	if err := to.restore(t.Context(), strings.NewReader(users), b); err != nil || b.State["data_left_out"] !=
		"4 statements about users that do not exist" {
		t.Errorf("without the users of a dump: %v, %v", err, b.State)
	}
	err := to.restore(t.Context(), strings.NewReader(users+"CREATE TABLE b (c nothing);\n"), b)
	if r, ok := errors.AsType[*refusal](err); !ok || r.code != "42704" {
		t.Errorf("without a type of a dump: %v", err)
	}
}

func checkGone(t *testing.T, c client) {
	t.Helper()
	c.interrupt()
	for range 2 {
		if err := c.query([]byte("SELECT 1"), &answer{}); !errors.Is(err, sql.ErrGone) {
			t.Errorf("an interrupted connection gives %v", err)
		}
	}
}
