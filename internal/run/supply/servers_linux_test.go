package supply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/sysinfo"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/datadir"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/mysql"
	"tare/internal/sys/sql/postgres"
	"tare/internal/sys/sql/trace"
)

// client is a connection to a server of any product.
type client struct {
	my   *mysql.Conn
	pg   *postgres.Conn
	stmt *mysql.Stmt
}

// answer is the result of a statement.
type answer struct {
	rows uint64
	sum  sql.Sum
}

// query runs a statement.
func (c *client) query(t *testing.T, text []byte) answer {
	t.Helper()
	my, pg := mysql.Result{Checksum: true}, postgres.Result{Digest: true}
	var err error
	if c.my != nil {
		err = c.my.Query(text, &my)
	} else {
		err = c.pg.Query(text, &pg)
	}
	return c.answer(t, text, &my, &pg, err)
}

func (c *client) answer(t *testing.T, text []byte, my *mysql.Result, pg *postgres.Result, err error) answer {
	t.Helper()
	if err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	if c.my != nil {
		return answer{my.Rows, my.Sum}
	}
	return answer{pg.Rows, pg.Sum}
}

func (c *client) prepare(t *testing.T, text []byte) {
	t.Helper()
	var err error
	if c.my != nil {
		c.stmt, err = c.my.Prepare(text)
	} else {
		c.pg.Parse("one", text)
		err = c.pg.Sync(nil)
	}
	if err != nil {
		t.Fatalf("prepare %s: %v", text, err)
	}
}

// execute runs the prepared statement. The checksum of MySQL is one of binary rows.
func (c *client) execute(t *testing.T, e *trace.Event) answer {
	t.Helper()
	var my mysql.Result
	pg := postgres.Result{Digest: true}
	var err error
	if c.my != nil {
		var params []mysql.Param
		for _, p := range e.Params {
			params = append(params, mysql.TextParam(p))
		}
		err = c.my.Execute(c.stmt, params, &my)
	} else {
		c.pg.Bind("", "one", e.Params)
		c.pg.Execute("", 0)
		err = c.pg.Sync(&pg)
	}
	return c.answer(t, e.Text, &my, &pg, err)
}

func (c *client) close() error {
	if c.my != nil {
		return c.my.Quit()
	}
	return errors.Join(c.pg.Query([]byte("DEALLOCATE ALL"), nil), c.pg.Close())
}

func connected(t *testing.T, s dbserver.Server, product dbserver.Product) *client {
	t.Helper()
	e := s.Endpoint()
	c := &client{}
	var err error
	if product == dbserver.PostgreSQL {
		c.pg, err = postgres.Dial(t.Context(), postgres.Config{Network: e.Network, Address: e.Address, User: e.User,
			Database: e.Database})
	} else {
		c.my, err = mysql.Dial(t.Context(), mysql.Config{Network: e.Network, Address: e.Address, User: e.User,
			Password: e.Password, Database: e.Database})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// started starts a server. Without the product the test is skipped; with TARE_REQUIRE it fails.
func started(t *testing.T, product dbserver.Product, dir string, settings ...string) dbserver.Server {
	t.Helper()
	o := dbserver.Options{Product: product, Dir: dir, Settings: settings}
	if product == dbserver.MySQL {
		if o.Root = os.Getenv("TARE_MYSQL_ROOT"); o.Root == "" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip("TARE_MYSQL_ROOT names no root with a MySQL; scripts/deps.sh mysql prints one")
		}
	}
	s, err := dbserver.Start(t.Context(), o)
	if f, ok := errors.AsType[*record.Failure](err); ok {
		t.Log(f.Evidence)
		if f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

// load runs the statements of a dump, for MySQL in a new database.
func load(t *testing.T, c *client, dialect lex.Dialect, dump []byte) {
	t.Helper()
	if dialect == lex.MySQL {
		c.query(t, []byte("CREATE DATABASE shop"))
		c.query(t, []byte("USE shop"))
	}
	for {
		span, end, whole := lex.Next(dump, lex.Options{Dialect: dialect})
		if !whole {
			return
		}
		c.query(t, dump[span.Start:span.End])
		dump = dump[end:]
	}
}

// replay runs all sessions of a trace on one connection and returns the results of its statements.
func replay(t *testing.T, c *client, tr *trace.Trace) (answers []answer) {
	t.Helper()
	var e trace.Event
	rows := make([]uint64, len(tr.Fingerprints()))
	for i := range tr.Sessions() {
		cursor := tr.Session(i)
		err := cursor.Next(&e)
		for ; err == nil; err = cursor.Next(&e) {
			var a answer
			switch e.Op {
			case trace.Query:
				a = c.query(t, e.Text)
			case trace.Prepare:
				c.prepare(t, e.Text)
			case trace.Execute:
				a = c.execute(t, &e)
				if c.my != nil {
					if as := c.query(t, e.Text); as.rows != a.rows {
						t.Errorf("%s: %d rows as a text, and %d as it was prepared", e.Text, as.rows, a.rows)
					} else {
						a = as
					}
				}
			case trace.CloseStmt:
				if c.pg != nil {
					c.query(t, []byte("DEALLOCATE one"))
				}
			}
			if e.Op.Statement() {
				rows[e.Fingerprint] += a.rows
				answers = append(answers, a)
			}
		}
		if err != io.EOF {
			t.Fatal(err)
		}
	}
	for i, k := range tr.Fingerprints() {
		if rows[i] == 0 && !strings.HasPrefix(k.Text, "set names") {
			t.Errorf("no row came back of %d times %s", k.Statements, k.Text)
		}
	}
	return answers
}

// TestShopOnRealServers checks that the shop's statements give equal results on all products.
func TestShopOnRealServers(t *testing.T) {
	var first []answer
	for _, product := range []dbserver.Product{dbserver.MariaDB, dbserver.PostgreSQL, dbserver.MySQL} {
		t.Run(string(product), func(t *testing.T) {
			p := workload.Params{"server": string(product), "log": "shop", "data": "shop", "items": "300",
				"views": "200"}
			files := of(t, maker(t), p)
			tr := opened(t, files["log"])
			c := connected(t, started(t, product, filepath.Join(t.TempDir(), "server")), product)
			load(t, c, dialectOf(p), files["data"])
			got := replay(t, c, tr)
			if err := c.close(); err != nil {
				t.Error(err)
			}
			if first == nil {
				first = got
			}
			if !slices.Equal(first, got) {
				t.Errorf("%d statements, the first of other results is %d; another server had %d", len(got),
					differs(first, got), len(first))
			}
		})
	}
	if len(first) < 800 {
		t.Errorf("%d statements", len(first))
	}
}

// differs returns the first index at which two lists differ.
func differs(a, b []answer) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestDataOfRealServers starts a server on the copy of another one's data directory. While that one runs, the copy is
// refused.
func TestDataOfRealServers(t *testing.T) {
	for _, product := range []dbserver.Product{dbserver.MariaDB, dbserver.PostgreSQL, dbserver.MySQL} {
		t.Run(string(product), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "server")
			s := started(t, product, dir)
			c := connected(t, s, product)
			load(t, c, dialectOf(workload.Params{"server": string(product)}),
				[]byte("CREATE TABLE kept (a INT); INSERT INTO kept VALUES (5);"))
			if err := c.close(); err != nil {
				t.Fatal(err)
			}
			w := replays(workload.Params{"server": string(product), "data": filepath.Join(dir, "data")})
			m := maker(t)
			if _, err := m.Of(t.Context(), w); err == nil || !strings.Contains(err.Error(), "a server uses") {
				t.Fatalf("a server that runs: %v", err)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			archive := of(t, m, w.Params)["data"]
			to := filepath.Join(t.TempDir(), "server")
			err := errors.Join(os.Mkdir(to, 0o755), datadir.Unpack(bytes.NewReader(archive), filepath.Join(to, "data")))
			if err != nil {
				t.Fatal(err)
			}
			c = connected(t, started(t, product, to), product)
			defer c.close()
			table := "kept"
			if c.my != nil {
				table = "shop.kept"
			}
			if a := c.query(t, fmt.Appendf(nil, "SELECT a FROM %s", table)); a.rows != 1 {
				t.Errorf("%d rows have come along", a.rows)
			}
		})
	}
}

// TestRoomForData checks that nothing is copied to a disk that has too little room: a file, and a directory.
func TestRoomForData(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ibdata1"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large") // and empty: it takes no room itself
	err := os.WriteFile(large, []byte("SELECT 1;"), 0o600)
	if err == nil {
		err = os.Truncate(large, sysinfo.Free(dir)+1<<30)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a copy would end before it fills the disk
	for _, data := range []string{large, dir} {
		m := New(filepath.Join(dir, "files"))
		w := replays(workload.Params{"server": "mariadb", "data": data})
		if _, err := m.Of(ctx, w); err == nil || !strings.Contains(err.Error(), "free some space") {
			t.Errorf("%s: %v", data, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLogsOfRealServers has real servers log the sessions of the shop: the trace of the log contains the statements
// and the parameters of the sessions.
func TestLogsOfRealServers(t *testing.T) {
	collector := []string{"logging_collector=on", "log_destination=csvlog", "log_directory=log", "log_filename=all",
		"log_statement=all", "log_connections=on", "log_disconnections=on"}
	for product, settings := range map[dbserver.Product][]string{
		dbserver.MariaDB:    {"general_log=ON", "general_log_file=all.log"},
		dbserver.MySQL:      {"general_log=ON", "general_log_file=all.log"},
		dbserver.PostgreSQL: collector,
	} {
		t.Run(string(product), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "server")
			s := started(t, product, dir, settings...)
			p := workload.Params{"server": string(product), "log": "shop", "data": "shop", "items": "100",
				"views": "40"}
			files := of(t, maker(t), p)
			c := connected(t, s, product)
			load(t, c, dialectOf(p), files["data"])
			if err := c.close(); err != nil {
				t.Fatal(err)
			}
			want := opened(t, files["log"])
			for i := range want.Sessions() {
				c := connected(t, s, product)
				if c.my != nil {
					c.query(t, []byte("USE shop"))
				}
				visit(t, c, want.Session(i))
				if err := c.close(); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			delete(p, "data")
			if p["log"] = filepath.Join(dir, "data", "all.log"); product == dbserver.PostgreSQL {
				p["log"] = filepath.Join(dir, "data", "log", "all.csv")
			}
			m := maker(t)
			got := opened(t, of(t, m, p)["log"])
			if a := m.account(replays(p)); a.Statements.Ambiguous+a.Statements.Lost+a.Bytes.Lost > 0 {
				t.Errorf("the account is %+v", a)
			}
			logged, sessions := visits(t, got), visits(t, want)
			if len(sessions) != 40 {
				t.Errorf("%d sessions", len(sessions))
			}
			if !slices.Equal(logged, sessions) {
				i := 0
				for i < min(len(logged), len(sessions)) && logged[i] == sessions[i] {
					i++
				}
				t.Errorf("session %d of %d differs, the log has\n%s\nof\n%s", i, len(sessions),
					slices.Concat(logged, []string{""})[i], slices.Concat(sessions, []string{""})[i])
			}
		})
	}
}

func opened(t *testing.T, file []byte) *trace.Trace {
	t.Helper()
	tr, err := trace.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// visit runs one session.
func visit(t *testing.T, c *client, session *trace.Cursor) {
	t.Helper()
	var e trace.Event
	err := session.Next(&e)
	for ; err == nil; err = session.Next(&e) {
		switch e.Op {
		case trace.Query:
			c.query(t, e.Text)
		case trace.Prepare:
			c.prepare(t, e.Text)
		case trace.Execute:
			c.execute(t, &e)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
}

// visits returns what the sessions of the shop in a trace do, as text.
func visits(t *testing.T, tr *trace.Trace) (all []string) {
	t.Helper()
	var e trace.Event
	for i := range tr.Sessions() {
		var text strings.Builder
		session := tr.Session(i)
		err := session.Next(&e)
		for ; err == nil; err = session.Next(&e) {
			switch {
			case e.Op == trace.Prepare, e.Op == trace.Query && !bytes.HasPrefix(e.Text, []byte("DEALLOCATE")) &&
				!bytes.HasPrefix(e.Text, []byte("USE")):
				fmt.Fprintf(&text, "%s\n", e.Text)
			case e.Op == trace.Execute:
				fmt.Fprintf(&text, "%d %q\n", e.Statement, e.Params)
			}
		}
		if err != io.EOF {
			t.Fatal(err)
		}
		// PostgreSQL's log is in the encoding of the server: what sets that of the client is not replayed.
		visit := strings.TrimPrefix(text.String(), "SET NAMES 'UTF8'\n")
		if strings.HasPrefix(visit, "SET NAMES") ||
			strings.HasPrefix(visit, "SELECT ") && !strings.HasPrefix(visit, "SELECT VERSION()") {
			all = append(all, visit)
		}
	}
	return all
}
