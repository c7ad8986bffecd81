package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/sys/sql"
	"tare/internal/sys/sql/mysql"
)

// forms returns configurations with both forms of the end of rows in the protocol.
func forms(c mysql.Config) map[string]mysql.Config {
	return map[string]mysql.Config{"OK": c, "EOF": c.Without(mysql.DeprecateEOF)}
}

func TestQuery(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		for form, config := range forms(s.socket()) {
			c := dial(t, config)
			run(t, c, "DROP DATABASE IF EXISTS q", "CREATE DATABASE q", "USE q",
				"CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v VARBINARY(300))",
				"CREATE PROCEDURE two() BEGIN SELECT 1; SELECT 2, 3; END")
			for _, q := range []struct{ text, want string }{
				{"SELECT 1", "1 results, 1 columns, 1 rows, 0 changed, id 0, 0 warned"},
				{"SELECT 1, NULL, '' UNION ALL SELECT 2, 'x', NULL",
					"1 results, 3 columns, 2 rows, 0 changed, id 0, 0 warned"},
				{"SELECT 1 FROM a", "1 results, 1 columns, 0 rows, 0 changed, id 0, 0 warned"},
				{"INSERT INTO a (v) VALUES ('x'), (NULL), ('')",
					"1 results, 0 columns, 0 rows, 3 changed, id 1, 0 warned"},
				{"SELECT 1; SELECT 2 UNION SELECT 3; DO 1", "3 results, 1 columns, 3 rows, 0 changed, id 0, 0 warned"},
				{"CALL two()", "3 results, 2 columns, 2 rows, 0 changed, id 0, 0 warned"},
				{"SELECT CAST('x' AS SIGNED)", "1 results, 1 columns, 1 rows, 0 changed, id 0, 1 warned"},
				{"UPDATE a SET v = 'y' WHERE id > 1", "1 results, 0 columns, 0 rows, 2 changed, id 0, 0 warned"},
				{"SELEC bad", "error 1064 42000"},
				{"SELECT * FROM missing", "error 1146 42S02"},
				{"", "error 1065 42000"},
				{"SELECT 1; SELEC bad", "error 1064 42000"},
				{"SELECT 1; SELECT * FROM missing; SELECT 3", "error 1146 42S02"},
				{"SELECT EXP(id * 1e3) FROM a", "error 1690 22003"},
			} {
				r := &mysql.Result{Checksum: true}
				err := c.Query([]byte(q.text), r)
				got := fmt.Sprintf("%d results, %d columns, %d rows, %d changed, id %d, %d warned", r.Results,
					r.Columns, r.Rows, r.Affected, r.InsertID, r.Warnings)
				if e, ok := errors.AsType[*mysql.Error](err); ok {
					got = fmt.Sprintf("error %d %s", e.Number, e.State)
				} else if err != nil {
					got = err.Error()
				}
				if got != q.want {
					t.Errorf("%s: %q gives %s, want %s", form, q.text, got, q.want)
				}
			}
			if got := table(t, c, "SELECT id, v FROM q.a ORDER BY id"); got != "1 x;2 y;3 y" {
				t.Errorf("%s: %s", form, got)
			}
			// The length of a value is encoded in 1, 3, 4 or 9 bytes.
			for _, n := range []int{0, 1, 250, 251, 252, 65535, 65536, 1<<24 - 6, 1<<24 - 5, 1<<24 - 4, 1 << 24} {
				v := bytes.Repeat([]byte("v"), n)
				r := &mysql.Result{Checksum: true}
				if err := c.Query(fmt.Appendf(nil, "SELECT REPEAT('v', %d), 'end'", n), r); err != nil {
					t.Fatal(err)
				}
				if want := sumOf(v, []byte("end")); r.Sum.Ordered() != want.Ordered() {
					t.Errorf("%s: wrong sum of a value of %d bytes", form, n)
				}
				got := table(t, c, fmt.Sprintf("SELECT REPEAT('v', %d), 'end'", n))
				if got != string(v)+" end" {
					t.Errorf("%s: a value of %d bytes has %d bytes", form, n, len(got)-4)
				}
			}
		}
	})
}

// sumOf returns the sum of one row.
func sumOf(values ...[]byte) *sql.Sum {
	s := &sql.Sum{}
	for _, v := range values {
		s.Value(v)
	}
	s.EndRow()
	return s
}

func TestNames(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		c := dial(t, s.socket())
		var got []string
		err := c.Query([]byte("SELECT 1 AS one, 2 AS `two words`; SELECT 3 AS drei"), &mysql.Result{
			Names: func(names [][]byte) error {
				got = append(got, fmt.Sprintf("%q", names))
				return nil
			}})
		if err != nil || strings.Join(got, " ") != `["one" "two words"] ["drei"]` {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestPrepared(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		for form, config := range forms(s.socket()) {
			c := dial(t, config)
			run(t, c, "DROP DATABASE IF EXISTS p", "CREATE DATABASE p", "USE p",
				"CREATE TABLE a (i BIGINT, u BIGINT UNSIGNED, d DOUBLE, s VARCHAR(50), b LONGBLOB)")
			in, err := c.Prepare([]byte("INSERT INTO a VALUES (?, ?, ?, ?, ?)"))
			if err != nil || in.Params != 5 || in.Columns != 0 {
				t.Fatalf("%+v, %v", in, err)
			}
			rows := [][]mysql.Param{
				{mysql.IntParam(-5), mysql.UintParam(math.MaxUint64), mysql.DoubleParam(0.25),
					mysql.TextParam([]byte("it's")), {Type: mysql.Blob, Text: []byte("\x00\xff")}},
				{mysql.NullParam(), mysql.NullParam(), mysql.NullParam(), mysql.NullParam(), mysql.NullParam()},
				{mysql.TextParam([]byte("7")), mysql.IntParam(1), mysql.TextParam([]byte("1.5")), mysql.TextParam(nil),
					mysql.TextParam(bytes.Repeat([]byte("x"), 70000))},
			}
			for _, row := range rows {
				r := &mysql.Result{}
				if err := c.Execute(in, row, r); err != nil || r.Affected != 1 {
					t.Errorf("%s: %d affected, %v", form, r.Affected, err)
				}
			}
			const want = "-5 18446744073709551615 0.25 it's 00FF;NULL NULL NULL NULL NULL;7 1 1.5  70000"
			if got := table(t, c, "SELECT i, u, d, s, IF(LENGTH(b) > 9, LENGTH(b), HEX(b)) FROM a"); got != want {
				t.Errorf("%s: %s, want %s", form, got, want)
			}
			out, err := c.Prepare([]byte("SELECT * FROM a WHERE i = ? OR u = ?"))
			if err != nil || out.Params != 2 || out.Columns != 5 {
				t.Fatalf("%+v, %v", out, err)
			}
			sums := map[uint64]int{}
			for _, i := range []int64{-5, 7, -5, 7, 99} {
				r, delivered := &mysql.Result{Checksum: true}, 0
				if err := c.Execute(out, []mysql.Param{mysql.IntParam(i), mysql.NullParam()}, r); err != nil {
					t.Fatal(err)
				}
				q := &mysql.Result{Checksum: true, Row: func(values [][]byte) error {
					delivered += len(values)
					return nil
				}}
				err := c.Execute(out, []mysql.Param{mysql.IntParam(i), mysql.NullParam()}, q)
				if err != nil || q.Sum != r.Sum || uint64(delivered) != r.Rows || q.Bytes != r.Bytes {
					t.Errorf("%s: the sum differs, or %d of %d rows: %v", form, delivered,
						r.Rows, err)
				}
				sums[r.Sum.Ordered()] += int(r.Rows)
			}
			if len(sums) != 3 || sums[0] != 0 {
				t.Errorf("%s: sums and their rows are %v", form, sums)
			}
			if err := errors.Join(c.ResetStmt(out), c.CloseStmt(out)); err != nil {
				t.Error(err)
			}
			if err := c.Execute(out, []mysql.Param{mysql.IntParam(1), mysql.NullParam()}, nil); number(err) != 1243 {
				t.Errorf("%s: a closed statement gives %v", form, err)
			}
			err = c.Execute(in, nil, nil)
			if err == nil || !strings.Contains(err.Error(), "0 values for 5 parameters") {
				t.Errorf("no values give %v", err)
			}
			if _, err := c.Prepare([]byte("SELEC ?")); number(err) != 1064 {
				t.Errorf("a wrong statement gives %v", err)
			}
			if err := c.Ping(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestLarge sends and receives 40 MB and checks that this needs no memory of that size.
func TestLarge(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		const size = 40_000_000
		c := dial(t, s.socket())
		value := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		statement := fmt.Appendf(nil, "SELECT '%s'", value)
		want := sumOf(value)
		run(t, c, "SELECT 1")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := &mysql.Result{Checksum: true}
		err := c.Query(statement, r)
		runtime.ReadMemStats(&after)
		if err != nil || r.Rows != 1 || r.Sum.Ordered() != want.Ordered() {
			t.Errorf("%d rows of %d bytes, %v", r.Rows, r.Bytes, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
			t.Errorf("%d bytes were allocated", grown)
		}
		p, err := c.Prepare([]byte("SELECT LENGTH(?), CRC32(?) = CRC32(?)"))
		if err != nil {
			t.Fatal(err)
		}
		text, short := mysql.TextParam(value), mysql.TextParam([]byte("x"))
		if err := c.Execute(p, []mysql.Param{text, short, short}, nil); err != nil {
			t.Error(err)
		}
		// The server refuses a larger statement and closes the connection; its error may be lost.
		run(t, c, "DROP USER IF EXISTS large", "CREATE USER large")
		for _, way := range []mysql.Config{s.socket(), s.tcp("large", "")} {
			c, err := mysql.Dial(t.Context(), way)
			if err != nil {
				t.Fatal(err)
			}
			err = c.Query(append(statement, statement...), nil)
			if number(err) != 1153 && !errors.Is(err, sql.ErrGone) {
				t.Errorf("a statement of 80 MB gives %v", err)
			}
			t.Logf("a statement of 80 MB: %v", err)
			c.Quit()
		}
	})
}

// TestKilled kills a statement, a connection and a server while rows arrive.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, shared realServer) {
		s, err := start(t.Context(), shared.product, t.TempDir(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop(context.Background())
		const endless = "SELECT i, REPEAT('x', 1000) FROM k.big" // of 300 MB
		run(t, dial(t, s.socket()), "CREATE DATABASE k", "CREATE TABLE k.t (i INT)", "CREATE TABLE k.big (i INT)",
			"INSERT INTO k.t VALUES (0)"+strings.Repeat(", (1)", 547),
			"INSERT INTO k.big SELECT a.i FROM k.t a, k.t b")
		for name, end := range map[string]func(id uint32, c *mysql.Conn){
			"interrupted": func(_ uint32, c *mysql.Conn) { c.Interrupt() },
			"statement killed": func(id uint32, _ *mysql.Conn) {
				run(t, dial(t, s.socket()), fmt.Sprintf("KILL QUERY %d", id))
			},
			"connection killed": func(id uint32, _ *mysql.Conn) {
				run(t, dial(t, s.socket()), fmt.Sprintf("KILL %d", id))
			},
			"server killed": func(uint32, *mysql.Conn) { syscall.Kill(s.Pid(), syscall.SIGKILL) },
		} {
			if name == "server killed" {
				continue // it must be the last
			}
			kill(t, s, name, endless, end)
		}
		kill(t, s, "server killed", endless, func(uint32, *mysql.Conn) { syscall.Kill(s.Pid(), syscall.SIGKILL) })
		if _, err := mysql.Dial(t.Context(), s.socket()); err == nil {
			t.Error("the server runs")
		}
	})
}

// kill runs a query and calls end after 1000 rows.
func kill(t *testing.T, s realServer, name, query string, end func(uint32, *mysql.Conn)) {
	c := dial(t, s.socket())
	rows := 0
	err := c.Query([]byte(query), &mysql.Result{Row: func([][]byte) error {
		if rows++; rows == 1000 {
			end(c.ID, c)
		}
		return nil
	}})
	if rows < 1000 {
		t.Fatalf("%s: %d rows, %v", name, rows, err)
	}
	t.Logf("%s after %d rows: %v", name, rows, err)
	if name == "statement killed" {
		if number(err) != 1317 || c.Dead() != nil || c.Ping() != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	// The server may send an error before it closes the connection.
	if number(err) == 0 && !errors.Is(err, sql.ErrGone) {
		t.Errorf("%s: %v", name, err)
	}
	if err := c.Ping(); !errors.Is(err, sql.ErrGone) {
		t.Errorf("Ping after %s: %v", name, err)
	}
}

func TestSession(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		c := dial(t, s.socket())
		run(t, c, "CREATE DATABASE IF NOT EXISTS other", "SET @mine = 5")
		if err := errors.Join(c.Ping(), c.InitDB("other")); err != nil {
			t.Error(err)
		}
		if got := table(t, c, "SELECT DATABASE(), @mine"); got != "other 5" {
			t.Errorf("%s", got)
		}
		if err := c.InitDB("missing"); number(err) != 1049 {
			t.Errorf("a missing database: %v", err)
		}
		run(t, c, "START TRANSACTION READ ONLY")
		if !c.InTransaction() {
			t.Error("InTransaction is false in a transaction")
		}
		if err := c.ResetConnection(); err != nil {
			t.Error(err)
		}
		if got := table(t, c, "SELECT @mine"); got != "NULL" || c.InTransaction() {
			t.Errorf("after ResetConnection: %s", got)
		}
		if c.ID == 0 || table(t, c, "SELECT CONNECTION_ID()") != fmt.Sprint(c.ID) {
			t.Errorf("ID is %d", c.ID)
		}
		if err := c.Quit(); err != nil {
			t.Error(err)
		}
		if err := c.Ping(); !errors.Is(err, sql.ErrGone) {
			t.Errorf("Ping after Quit: %v", err)
		}
	})
}

// TestSums compares the sums of a server with themselves and with those of the other server, in both protocols.
func TestSums(t *testing.T) {
	const rows = 5000
	type sums struct{ ordered, unordered uint64 }
	seen := map[string]sums{}
	each(t, func(t *testing.T, s realServer) {
		c := dial(t, s.socket())
		run(t, c, "DROP DATABASE IF EXISTS sums", "CREATE DATABASE sums", "USE sums",
			"CREATE TABLE a (id INT PRIMARY KEY, n BIGINT, d DECIMAL(20,5), f DOUBLE, t DATETIME(6), s VARCHAR(300), "+
				"b LONGBLOB, e ENUM('x','y'))")
		var in strings.Builder
		for i := range rows {
			between, blob := ",", fmt.Sprintf("REPEAT(CHAR(%d), %d)", i%256, i%90000)
			if i == 0 {
				between = "INSERT INTO a VALUES "
			}
			if i%3 == 0 {
				blob = "NULL"
			}
			fmt.Fprintf(&in, "%s(%d, %d, %d.%d, %d/8e0, FROM_UNIXTIME(%d.%06d), REPEAT('ä', %d), %s, '%c')", between, i,
				i*i*i*97, i, i%1000, i, 1000000000+i, i, i%300, blob, 'x'+i%2)
		}
		run(t, c, "SET time_zone = '+00:00'", in.String())
		for _, prepared := range []bool{false, true} {
			ask := func(c *mysql.Conn, order string) (r mysql.Result) {
				r.Checksum = true
				text := []byte("SELECT * FROM a ORDER BY id " + order)
				if !prepared {
					if err := c.Query(text, &r); err != nil {
						t.Fatal(err)
					}
					return r
				}
				p, err := c.Prepare(text)
				if err == nil {
					err = errors.Join(c.Execute(p, nil, &r), c.CloseStmt(p))
				}
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			first, back := ask(c, ""), ask(c, "DESC")
			if first.Rows != rows || first.Sum.Ordered() == back.Sum.Ordered() ||
				first.Sum.Unordered() != back.Sum.Unordered() || first.Bytes != back.Bytes {
				t.Errorf("prepared %v: the sums in the other order are %x %x, want another and %x", prepared,
					back.Sum.Ordered(), back.Sum.Unordered(), first.Sum.Unordered())
			}
			for form, config := range forms(s.socket()) {
				config.Database = "sums"
				if again := ask(dial(t, config), ""); again.Sum != first.Sum {
					t.Errorf("prepared %v: %s: the sum of the same query differs", prepared, form)
				}
			}
			key, mine := fmt.Sprint(prepared), sums{first.Sum.Ordered(), first.Sum.Unordered()}
			if other, ok := seen[key]; ok && other != mine {
				t.Errorf("prepared %v: %x, the other server %x", prepared, mine, other)
			}
			seen[key] = mine
			run(t, c, "UPDATE a SET n = n + 1 WHERE id = 4321")
			if changed := ask(c, ""); changed.Sum.Unordered() == first.Sum.Unordered() {
				t.Errorf("prepared %v: the sum does not change with a value", prepared)
			}
			run(t, c, "UPDATE a SET n = n - 1 WHERE id = 4321")
		}
	})
}

// A query does not allocate memory.
func TestNoAllocations(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		c := dial(t, s.socket())
		text, rows := []byte("SELECT 1, 'two', NULL UNION ALL SELECT 2, 'three', 4"), 0
		p, err := c.Prepare([]byte("SELECT ?, 'x'"))
		if err != nil {
			t.Fatal(err)
		}
		params := []mysql.Param{mysql.IntParam(5)}
		for name, r := range map[string]*mysql.Result{
			"counted":   {},
			"checksum":  {Checksum: true},
			"delivered": {Row: func([][]byte) error { rows++; return nil }},
		} {
			for what, query := range map[string]func() error{
				"text":     func() error { return c.Query(text, r) },
				"prepared": func() error { return c.Execute(p, params, r) },
			} {
				n := testing.AllocsPerRun(200, func() {
					if err := query(); err != nil {
						t.Fatal(err)
					}
				})
				if n > 0 {
					t.Errorf("%s, %s: %v allocations", name, what, n)
				}
			}
		}
		if rows == 0 {
			t.Error("no rows")
		}
	})
}

// The context limits the time of a login.
func TestDialTimeout(t *testing.T) {
	silent, err := newSilent(t)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := mysql.Dial(ctx, mysql.Config{Network: "tcp", Address: silent}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Connections that follow each other can use the same memory.
func TestBuffer(t *testing.T) {
	each(t, func(t *testing.T, s realServer) {
		config := s.socket()
		config.Buffer = make([]byte, sql.BufferSize)
		for range 3 {
			c, err := mysql.Dial(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			if got := table(t, c, "SELECT 1, REPEAT('x', 70000)"); len(got) != 70002 {
				t.Errorf("%d bytes", len(got))
			}
			if !bytes.Contains(config.Buffer, []byte("xxxxxxxx")) {
				t.Error("the buffer was not used")
			}
			if err := c.Quit(); err != nil {
				t.Error(err)
			}
		}
	})
}
