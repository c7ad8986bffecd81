package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/sys/sql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/secure"
)

// says is the text of the error that a command must end in.
func says(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// code sees that an error is the server's, with that SQLSTATE.
func code(t *testing.T, what string, err error, want string) *postgres.Error {
	t.Helper()
	e, ok := errors.AsType[*postgres.Error](err)
	if !ok || e.Code != want {
		t.Errorf("%s: %v, want SQLSTATE %s", what, err, want)
		return &postgres.Error{}
	}
	return e
}

// one asks for a single value.
func one(t *testing.T, c *postgres.Conn, text string) (value string) {
	t.Helper()
	r := postgres.Result{Row: func(columns [][]byte) error {
		value = string(columns[0])
		return nil
	}}
	if err := c.Query([]byte(text), &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// heavy passes 40 MB there and back, in a statement, a parameter, a row and many rows, with little memory.
func heavy(t *testing.T, c *postgres.Conn) {
	t.Helper()
	const size = 40 << 20
	var want sql.Sum
	text := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	want.Value(text)
	want.EndRow()
	r := postgres.Result{Digest: true}
	check := func(what string) {
		t.Helper()
		if r.Rows != 1 || r.Bytes != size+6 || r.Sum.Ordered() != want.Ordered() {
			t.Errorf("%s: %d rows of %d bytes, sum %x, want %x", what, r.Rows, r.Bytes, r.Sum.Ordered(), want.Ordered())
		}
	}
	statement := append(append([]byte("SELECT '"), text...), '\'')
	if err := c.Query(statement, &r); err != nil {
		t.Fatal(err)
	}
	check("statement")
	c.Parse("", []byte("SELECT $1::text"))
	c.Bind("", "", [][]byte{text})
	c.DescribePortal("")
	c.Execute("", 0)
	if err := c.Sync(&r); err != nil {
		t.Fatal(err)
	}
	check("parameter")
	before := allocated()
	if err := c.Query([]byte("SELECT repeat('0123456789abcdef', 2621440)"), &r); err != nil {
		t.Fatal(err)
	}
	check("row")
	if err := c.Query([]byte("SELECT repeat('x', 1000) FROM generate_series(1, 40000)"), &r); err != nil {
		t.Fatal(err)
	}
	if r.Rows != 40000 || r.Bytes != 40000*1006 {
		t.Errorf("%d rows of %d bytes", r.Rows, r.Bytes)
	}
	// By TLS the records are the library's.
	if grown := allocated() - before; grown > 4<<20 {
		t.Errorf("80 MB of results took %d bytes of memory", grown)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestHeavy(t *testing.T) {
	s := serve(t, false)
	heavy(t, s.dial(t, func(*postgres.Config) {}))
	heavy(t, s.dial(t, func(c *postgres.Config) { s.overTCP(c, "trust") }))
}

func TestSimpleQueries(t *testing.T) {
	s := serve(t, false)
	notices := 0
	c := s.dial(t, func(c *postgres.Config) {
		c.Notice = func(e *postgres.Error) {
			if notices++; e.Severity != "NOTICE" || !strings.Contains(e.Message, "does not exist, skipping") {
				t.Errorf("the notice is %+v", e)
			}
		}
	})
	if v := c.Setting("server_version"); v == "" || v != s.version || c.PID() == 0 || c.Status() != 'I' {
		t.Errorf("version %q, process %d, status %c", v, c.PID(), c.Status())
	}
	var rows []string
	r := postgres.Result{Digest: true, Row: func(columns [][]byte) error {
		rows = append(rows, fmt.Sprintf("%q", columns))
		return nil
	}}
	text := []byte("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, ''); " +
		"SELECT * FROM t ORDER BY a; DROP TABLE IF EXISTS nowhere; UPDATE t SET a=a+1 WHERE a>1; ; " +
		"SELECT 'é', NULL, 1.5")
	if err := c.Query(text, &r); err != nil {
		t.Fatal(err)
	}
	want := []string{`["1" "x"]`, `["2" ""]`, `["3" ""]`, `["é" "" "1.5"]`}
	if fmt.Sprint(rows) != fmt.Sprint(want) || r.Rows != 4 || r.Affected != 5 || r.Columns != 3 || r.Commands != 6 ||
		r.Notices != 1 || notices != 1 {
		t.Errorf("%q, %+v", rows, r)
	}
	// NULL and the empty string are not the same.
	if err := c.Query([]byte("SELECT b FROM t WHERE a=3"), &r); err != nil {
		t.Fatal(err)
	}
	null := r.Sum.Ordered()
	if err := c.Query([]byte("SELECT b FROM t WHERE a=4"), &r); err != nil || r.Sum.Ordered() == null {
		t.Errorf("NULL adds up to %x and an empty string to %x, %v", null, r.Sum.Ordered(), err)
	}
	if err := c.Query([]byte(" "), &r); err != nil || r.Commands != 1 || r.Rows != 0 {
		t.Errorf("nothing gives %+v, %v", r, err)
	}
	// Order counts in one sum and not in the other.
	sums := func(order string) (uint64, uint64) {
		if err := c.Query([]byte("SELECT a, b FROM t ORDER BY a "+order), &r); err != nil {
			t.Fatal(err)
		}
		return r.Sum.Ordered(), r.Sum.Unordered()
	}
	up, all := sums("")
	down, same := sums("DESC")
	if up == down || all != same {
		t.Errorf("up %x and %x, down %x and %x", up, all, down, same)
	}
	failed := errors.New("enough")
	r.Row = func([][]byte) error { return failed }
	if err := c.Query([]byte("SELECT generate_series(1, 1000)"), &r); err != failed || r.Rows != 1000 {
		t.Errorf("a row that is not taken: %v after %d rows", err, r.Rows)
	}
	if got := one(t, c, "SELECT 1"); got != "1" {
		t.Error(got)
	}
}

// TestErrorsGoOn: an error of the server's has its fields, ends the rest of the text, and not the connection.
func TestErrorsGoOn(t *testing.T) {
	s := serve(t, false)
	c := s.dial(t, func(*postgres.Config) {})
	var r postgres.Result
	e := code(t, "syntax", c.Query([]byte("SELECT 1; SELEC 2"), &r), "42601")
	if e.Severity != "ERROR" || e.Position != "11" || r.Rows != 0 || e.Fatal() {
		t.Errorf("%+v, %d rows", e, r.Rows)
	}
	e = code(t, "in the rows", c.Query([]byte("SELECT 1; SELECT 1/(3-x) FROM generate_series(1, 9) x; SELECT 2"), &r),
		"22012")
	if r.Rows != 3 || r.Commands != 1 {
		t.Errorf("%+v: %+v", e, r)
	}
	code(t, "permission", c.Query([]byte("SET ROLE trust; CREATE ROLE x"), &r), "42501")
	if err := c.Query([]byte("BEGIN; SELECT 1"), &r); err != nil || c.Status() != 'T' {
		t.Errorf("status %c, %v", c.Status(), err)
	}
	code(t, "in a transaction", c.Query([]byte("SELECT nowhere"), &r), "42703")
	if c.Status() != 'E' {
		t.Errorf("status %c", c.Status())
	}
	code(t, "after that", c.Query([]byte("SELECT 1"), &r), "25P02")
	if err := c.Query([]byte("ROLLBACK"), &r); err != nil || c.Status() != 'I' {
		t.Errorf("status %c, %v", c.Status(), err)
	}
	long := strings.Repeat("long ", 100_000)
	e = code(t, "long words", c.Query([]byte("DO $$BEGIN RAISE EXCEPTION '"+long+"'; END$$"), &r), "P0001")
	if len(e.Message) < 60_000 || len(e.Message) > 70_000 {
		t.Errorf("of %d bytes %d are kept", len(long), len(e.Message))
	}
	code(t, "rows to come", c.Query([]byte("RESET ROLE; CREATE TABLE t (a int); COPY t FROM STDIN"), &r), "57014")
	c.Parse("", []byte("COPY t FROM STDIN"))
	c.Bind("", "", nil)
	c.Execute("", 0)
	code(t, "rows to come, extended", c.Sync(&r), "42P01") // the table went with the text that failed
	if err := c.Query([]byte("CREATE TABLE t (a int)"), &r); err != nil {
		t.Fatal(err)
	}
	c.Parse("", []byte("COPY t FROM STDIN"))
	c.Bind("", "", nil)
	c.Execute("", 0)
	code(t, "rows to come, extended", c.Sync(&r), "57014")
	if got := one(t, c, "SELECT count(*) FROM t"); got != "0" {
		t.Errorf("%s rows", got)
	}
}

func TestExtended(t *testing.T) {
	s := serve(t, false)
	c := s.dial(t, func(*postgres.Config) {})
	var rows []string
	r := postgres.Result{Digest: true, Row: func(columns [][]byte) error {
		rows = append(rows, fmt.Sprintf("%q", columns))
		return nil
	}}
	c.Parse("two", []byte("SELECT $1::int + 1, $2::text, $3::text IS NULL"))
	c.DescribeStatement("two")
	for i := range 3 {
		c.Bind("", "two", [][]byte{[]byte(strconv.Itoa(i)), []byte("é'\\"), nil})
		c.DescribePortal("")
		c.Execute("", 0)
	}
	if err := c.Sync(&r); err != nil {
		t.Fatal(err)
	}
	want := []string{`["1" "é'\\" "t"]`, `["2" "é'\\" "t"]`, `["3" "é'\\" "t"]`}
	if fmt.Sprint(rows) != fmt.Sprint(want) || r.Rows != 3 || r.Commands != 3 || r.Columns != 3 {
		t.Errorf("%q, %+v", rows, r)
	}
	// The sum is that of the same rows by the other protocol.
	extended := r.Sum.Ordered()
	if err := c.Query([]byte(`SELECT x+1, 'é''\', true FROM generate_series(0, 2) x`), &r); err != nil ||
		r.Sum.Ordered() != extended {
		t.Errorf("sums %x and %x, %v", extended, r.Sum.Ordered(), err)
	}
	// A portal gives its rows in parts.
	if err := c.Query([]byte("BEGIN"), nil); err != nil {
		t.Fatal(err)
	}
	c.Parse("", []byte("SELECT generate_series(1, 10)"))
	c.Bind("p", "", nil)
	c.Execute("p", 4)
	if err := c.Sync(&r); err != nil || r.Rows != 4 || !r.Suspended {
		t.Errorf("%+v, %v", r, err)
	}
	c.Execute("p", 0)
	c.ClosePortal("p")
	if err := c.Sync(&r); err != nil || r.Rows != 6 || r.Suspended {
		t.Errorf("%+v, %v", r, err)
	}
	// What stands behind an error is not run.
	c.Parse("", []byte("SELECT 1/$1::int"))
	for _, p := range []string{"1", "0", "2"} {
		c.Bind("", "", [][]byte{[]byte(p)})
		c.Execute("", 0)
	}
	code(t, "in a unit", c.Sync(&r), "22012")
	if r.Rows != 1 || c.Status() != 'E' {
		t.Errorf("%+v, status %c", r, c.Status())
	}
	if err := c.Query([]byte("ROLLBACK"), nil); err != nil {
		t.Fatal(err)
	}
	c.CloseStatement("two")
	c.Bind("", "two", nil)
	code(t, "a statement that was forgotten", c.Sync(&r), "26000")
	// Neither side waits for the other where both have much to say.
	const each = 400 << 10
	text := bytes.Repeat([]byte("x"), each)
	c.Parse("", []byte("SELECT $1::text || $1::text"))
	for range 30 {
		c.Bind("", "", [][]byte{text})
		c.Execute("", 0)
	}
	r.Row = nil
	if err := c.Sync(&r); err != nil || r.Rows != 30 || r.Bytes != 30*(2*each+6) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCopy(t *testing.T) {
	s := serve(t, false)
	c := s.dial(t, func(*postgres.Config) {})
	// Each row has the server say more than it can keep for a client that does not listen.
	const noisy = `CREATE TABLE t (a int, b text);
CREATE FUNCTION noise() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
RAISE NOTICE '%', repeat('n', 10000); RETURN NEW; END$$;
CREATE TRIGGER noise BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION noise()`
	if err := c.Query([]byte(noisy), nil); err != nil {
		t.Fatal(err)
	}
	const rows = 5000
	n := 0
	next := func() ([]byte, error) {
		if n++; n > rows {
			return nil, io.EOF
		}
		return fmt.Appendf(nil, "%d\t%0100d\n", n, n), nil
	}
	if err := c.CopyIn([]byte("COPY t FROM STDIN"), next); err != nil {
		t.Fatal(err)
	}
	if got := one(t, c, "SELECT count(*) || ' ' || sum(b::int) FROM t"); got != "5000 12502500" {
		t.Errorf("the table has %s", got)
	}
	var lines int
	r := postgres.Result{Digest: true, Copy: func([]byte) error { lines++; return nil }}
	if err := c.Query([]byte("COPY t TO STDOUT"), &r); err != nil || lines != rows || r.Rows != rows ||
		r.Affected != rows {
		t.Errorf("%d lines, %+v, %v", lines, r, err)
	}
	// The first row that the server does not take ends it; a source that fails leaves nothing behind.
	n = 0
	bad := func() ([]byte, error) {
		if n++; n == 100 {
			return []byte("not a number\tx\n"), nil
		}
		return fmt.Appendf(nil, "%d\t%s\n", n, strings.Repeat("x", 10000)), nil
	}
	code(t, "a bad row", c.CopyIn([]byte("COPY t FROM STDIN"), bad), "22P02")
	broken := errors.New("the source is broken")
	n = 0
	err := c.CopyIn([]byte("COPY t FROM STDIN"), func() ([]byte, error) {
		if n++; n == 100 {
			return nil, broken
		}
		return []byte("1\tx\n"), nil
	})
	code(t, "a broken source", err, "57014")
	if !errors.Is(err, broken) {
		t.Errorf("a broken source: %v", err)
	}
	code(t, "no such table", c.CopyIn([]byte("COPY nowhere FROM STDIN"), next), "42P01")
	says(t, "no COPY", c.CopyIn([]byte("SELECT 1"), next), "expects no rows")
	if got := one(t, c, "SELECT count(*) FROM t"); got != "5000" {
		t.Errorf("%s rows", got)
	}
}

// TestServerKilledInAResult: half a result is never taken for a whole one, however the server ends.
func TestServerKilledInAResult(t *testing.T) {
	s := serve(t, false)
	// A connection that the server ended while nothing was asked says why when it is used next.
	c, other := s.dial(t, func(*postgres.Config) {}), s.dial(t, func(*postgres.Config) {})
	if err := other.Query(fmt.Appendf(nil, "SELECT pg_terminate_backend(%d, 60000)", c.PID()), nil); err != nil {
		t.Fatal(err)
	}
	err := c.Query([]byte("SELECT 1"), nil)
	if e := code(t, "ended while idle", err, "57P01"); !e.Fatal() || !errors.Is(err, sql.ErrGone) {
		t.Errorf("%v", err)
	}
	for _, how := range []string{"terminated", "killed"} {
		c := s.dial(t, func(*postgres.Config) {})
		rows := 0
		r := postgres.Result{Row: func([][]byte) error {
			if rows++; rows > 1 {
				return nil
			}
			if how == "killed" {
				return syscall.Kill(int(c.PID()), syscall.SIGKILL)
			}
			return other.Query(fmt.Appendf(nil, "SELECT pg_terminate_backend(%d)", c.PID()), nil)
		}}
		const all = 20_000_000
		err := c.Query(fmt.Appendf(nil, "SELECT repeat('x', 100) FROM generate_series(1, %d)", all), &r)
		if !errors.Is(err, sql.ErrGone) || c.Broken() == nil || r.Rows == 0 || r.Rows == all || r.Commands != 0 {
			t.Errorf("%s: %v, %+v", how, err, r)
		}
		if again := c.Query([]byte("SELECT 1"), nil); !errors.Is(again, sql.ErrGone) {
			t.Errorf("%s: afterwards %v", how, again)
		}
	}
}

func TestTooManyConnections(t *testing.T) {
	s := serve(t, false, "max_connections=5", "superuser_reserved_connections=1")
	config := s.config()
	config.User = "trust"
	for n, end := 0, time.Now().Add(20*time.Second); ; n++ {
		c, err := postgres.Dial(within(t), config)
		// Who asked whether the server is ready may not have left yet.
		for err != nil && n < 4 && time.Now().Before(end) {
			time.Sleep(20 * time.Millisecond)
			c, err = postgres.Dial(within(t), config)
		}
		if err != nil {
			if e := code(t, "one too many", err, "53300"); !e.Fatal() || n != 4 {
				t.Errorf("after %d: %+v", n, e)
			}
			return
		}
		defer c.Close()
	}
}

func TestReadOnly(t *testing.T) {
	s := serve(t, false)
	c := s.dial(t, func(c *postgres.Config) { c.ReadOnly = true })
	code(t, "a write", c.Query([]byte("CREATE TABLE t (a int)"), nil), "25006")
	if got := one(t, c, "SELECT 1"); got != "1" {
		t.Error(got)
	}
	err := c.Query([]byte("SET default_transaction_read_only=off"), nil)
	if !errors.Is(err, sql.ErrGone) {
		t.Errorf("a session that may write goes on: %v", err)
	}
}

func TestCancelAndInterrupt(t *testing.T) {
	s := serve(t, true)
	tls, err := secure.Options{Unverified: true}.Config()
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*postgres.Config){
		"socket": func(*postgres.Config) {},
		"TCP":    func(c *postgres.Config) { s.overTCP(c, "trust") },
		"TLS": func(c *postgres.Config) {
			s.overTCP(c, "tlsonly")
			c.Secure = secure.Client(tls)
		},
		"untold": func(c *postgres.Config) { c.Untold = true },
	} {
		c := s.dial(t, change)
		other := s.dial(t, func(*postgres.Config) {})
		asleep := func() bool {
			return one(t, other, fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid=%d AND "+
				"wait_event='PgSleep'", c.PID())) == "1"
		}
		cancelled := make(chan error, 1)
		go func() {
			for end := time.Now().Add(patience); !asleep() && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			cancelled <- c.Cancel(within(t))
		}()
		code(t, what+": cancelled", c.Query([]byte("SELECT pg_sleep(600)"), nil), "57014")
		if err := <-cancelled; err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := one(t, c, "SELECT 1"); got != "1" {
			t.Error(got)
		}
		go func() {
			for end := time.Now().Add(patience); !asleep() && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			c.Interrupt()
		}()
		if err := c.Query([]byte("SELECT pg_sleep(600)"), nil); !errors.Is(err, sql.ErrGone) {
			t.Errorf("%s: interrupted: %v", what, err)
		}
		other.Close()
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestServerThatSaysNothing: the time of a connection's beginning is bounded by its context.
func TestServerThatSaysNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, encrypted := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		config := postgres.Config{Network: "tcp", Address: l.Addr().String(), User: "u"}
		if encrypted {
			config.Secure = func(plain sql.Stream) (sql.Stream, error) { return nil, errors.New("not reached") }
		}
		go func() {
			c, err := l.Accept()
			if err == nil {
				defer c.Close()
			}
			cancel()
			<-t.Context().Done()
		}()
		if _, err := postgres.Dial(ctx, config); !errors.Is(err, context.Canceled) {
			t.Errorf("encrypted %t: %v", encrypted, err)
		}
	}
}

// TestNoAllocation: a query that has passed once allocates nothing any more.
func TestNoAllocation(t *testing.T) {
	s := serve(t, false)
	c := s.dial(t, func(*postgres.Config) {})
	c.Parse("s", []byte("SELECT x, repeat('x', 100) FROM generate_series(1, $1::int) x"))
	if err := c.Sync(nil); err != nil {
		t.Fatal(err)
	}
	r := postgres.Result{Digest: true}
	text := []byte("SELECT x, repeat('x', 100) FROM generate_series(1, 1000) x")
	params := [][]byte{[]byte("1000")}
	for what, query := range map[string]func() error{
		"simple": func() error { return c.Query(text, &r) },
		"extended": func() error {
			c.Bind("", "s", params)
			c.DescribePortal("")
			c.Execute("", 0)
			return c.Sync(&r)
		},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := query(); err != nil || r.Rows != 1000 {
				t.Fatal(r, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations for each query", what, n)
		}
	}
}

func BenchmarkPointSelect(b *testing.B) {
	s := serve(b, false)
	c := s.dial(b, func(c *postgres.Config) { c.Untold = true })
	if err := c.Query([]byte("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t SELECT x, repeat('x', 84) "+
		"FROM generate_series(1, 100000) x; ANALYZE t"), nil); err != nil {
		b.Fatal(err)
	}
	for _, digest := range []bool{false, true} {
		b.Run(fmt.Sprintf("digest %t", digest), func(b *testing.B) {
			r := postgres.Result{Digest: digest}
			text := []byte("SELECT b FROM t WHERE a = 12345")
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Query(text, &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
