package sql_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/sql"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/plan"
	"tare/internal/run/supply"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// recorded is a server with data in database shop, and the log that it wrote while sessions used it.
type recorded struct {
	params  map[string]string
	serving workload.Serving
	once    sync.Once
	sketch  []byte // of a replay with one lane
}

var recordings = map[string]*recorded{}

// sessions is how many sessions a recording has, and the statements of each that are replayed.
const (
	sessions   = 24
	statements = 14
)

// recording returns the recording of a product, which the tests of the package share.
func recording(t *testing.T, server map[string]string) *recorded {
	t.Helper()
	r := recordings[server["server"]]
	if r == nil {
		r = &recorded{params: maps.Clone(server)}
		recordings[server["server"]] = r
	}
	r.once.Do(func() { r.record(t) })
	if r.params["log"] == "" {
		t.Skip("there is no recording: see the first test of this server")
	}
	return r
}

func (r *recorded) postgres() bool { return r.params["server"] == "postgresql" }

func (r *recorded) connect(t *testing.T, database string) *sql.Client {
	t.Helper()
	return sql.Connect(t, r.resolved(t, nil), r.serving, database)
}

// resolved are the parameters of a trial.
func (r *recorded) resolved(t *testing.T, more map[string]string) workload.Params {
	t.Helper()
	given := maps.Clone(r.params)
	maps.Copy(given, more)
	if given["log"] == "" {
		given["log"] = "-"
	}
	p, err := trialtest.Named(t, sql.Kinds(), "sql.replay").Resolve(given)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// record starts a server and uses it while it writes a log.
func (r *recorded) record(t *testing.T) {
	r.params["settings"] = "general_log_file=tare.log;innodb_buffer_pool_size=32M;performance_schema=OFF;" +
		"log_bin_trust_function_creators=ON"
	if r.postgres() {
		r.params["settings"] = "logging_collector=on;log_destination=csvlog;log_directory=log;log_filename=tare.log;" +
			"log_connections=on;log_disconnections=on"
	}
	r.serving = sql.Start(t, r.resolved(t, nil))
	c := r.connect(t, "")
	var log string
	if r.postgres() {
		c.Word(t, "CREATE DATABASE shop")
		shop := r.connect(t, "shop")
		shop.Word(t, "CREATE TABLE item (id INT PRIMARY KEY, title TEXT, stock INT)",
			"INSERT INTO item SELECT n, 'item ' || n, n % 7 FROM generate_series(1, 2000) n",
			"CREATE TABLE seen (id INT)",
			"CREATE FUNCTION see(n INT) RETURNS INT LANGUAGE plpgsql AS $$ "+
				"BEGIN INSERT INTO seen VALUES (n); RETURN n; END $$")
		shop.Quit(t)
		log = r.logged(t, c)
	} else {
		c.Word(t, "CREATE DATABASE shop", "USE shop",
			"CREATE TABLE item (id INT PRIMARY KEY, title VARCHAR(200), stock INT)",
			"INSERT INTO item SELECT 20 * (a.n - 1) + b.n, CONCAT('item ', 20 * (a.n - 1) + b.n), b.n % 7 "+
				"FROM (WITH RECURSIVE x AS (SELECT 1 n UNION ALL SELECT n + 1 FROM x WHERE n < 100) "+
				"SELECT n FROM x) a, "+
				"(WITH RECURSIVE y AS (SELECT 1 n UNION ALL SELECT n + 1 FROM y WHERE n < 20) SELECT n FROM y) b",
			"CREATE TABLE seen (id INT)")
		c.Word(t, "CREATE FUNCTION see(n INT) RETURNS INT MODIFIES SQL DATA "+
			"BEGIN INSERT INTO seen VALUES (n); RETURN n; END")
		log = filepath.Join(c.Word(t, "SELECT @@datadir"), "tare.log")
		c.Word(t, "SET GLOBAL general_log = ON")
	}
	for i := range sessions {
		r.session(t, i)
	}
	if r.postgres() {
		r.logEnds(t, c, log, "the end of the log")
	} else {
		c.Word(t, "SET GLOBAL general_log = OFF")
	}
	c.Quit(t)
	text, err := os.ReadFile(log)
	if err == nil {
		log += ".whole" // the server goes on with the other one
		err = os.WriteFile(log, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.params["log"] = log
}

// session uses the server: in each session there are 14 statements that only read, and one that writes.
func (r *recorded) session(t *testing.T, i int) {
	t.Helper()
	database := "shop"
	if !r.postgres() && i%3 == 0 {
		database = ""
	}
	c := r.connect(t, database)
	if database == "" && i%2 == 0 {
		c.Use(t, "shop")
		c.Word(t, "SELECT DATABASE()")
	} else if database == "" {
		c.Word(t, "USE shop")
	} else {
		c.Word(t, "SELECT 'in shop'")
	}
	c.Word(t, "BEGIN", fmt.Sprintf("SELECT title FROM item WHERE id = %d", 1+i*7), "COMMIT",
		"SELECT stock, COUNT(*), MIN(title) FROM item GROUP BY stock ORDER BY stock", "SELECT NOW(), 'now'",
		fmt.Sprintf("SELECT /* a\n\t\t  99 Query\tDROP TABLE item */ title FROM item WHERE id < %d", 100*i))
	if !c.Refused("SELECT nothing FROM nowhere") {
		t.Error("there is a table that should not be there")
	}
	c.Word(t, fmt.Sprintf("SELECT see(%d)", i)) // it is replayed, and refused then
	c.Word(t, fmt.Sprintf("UPDATE item SET stock = stock WHERE id = %d", i))
	text := "SELECT id, title FROM item WHERE id > ? AND title <> ? ORDER BY id LIMIT 5"
	if r.postgres() {
		text = "SELECT id, title FROM item WHERE id > $1 AND title <> $2 ORDER BY id LIMIT 5"
	}
	c.Prepare(t, 1, "", text)
	for k := range 4 {
		c.Execute(t, 1, fmt.Sprint(i*10+k), "it's \\ \n a title")
	}
	if r.postgres() {
		c.ExecuteUnnamed(t, "SELECT stock FROM item WHERE id = $1", fmt.Sprint(1+i))
		c.Prepare(t, 2, "tare_1", "SELECT count(*) FROM item WHERE id < $1") // the name has become another's
		c.Execute(t, 2, fmt.Sprint(i))
	}
	c.Word(t, "SELECT 'good'; SELECT 'bye'")
	c.Quit(t)
}

// logged has PostgreSQL log all statements, and returns the name of the log.
func (r *recorded) logged(t *testing.T, c *sql.Client) string {
	t.Helper()
	c.Word(t, "ALTER SYSTEM SET log_statement = 'all'", "SELECT pg_reload_conf()")
	for c.Word(t, "SHOW log_statement") != "all" {
		time.Sleep(time.Millisecond)
	}
	return filepath.Join(c.Word(t, "SHOW data_directory"), "log", "tare.csv")
}

// logEnds waits until PostgreSQL has written its log up to a mark, and has it log no more.
func (r *recorded) logEnds(t *testing.T, c *sql.Client, log, mark string) {
	t.Helper()
	c.Word(t, "SELECT '"+mark+"'")
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if text, _ := os.ReadFile(log); strings.Contains(string(text), mark) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the server does not write its log")
		}
	}
	c.Word(t, "ALTER SYSTEM RESET log_statement", "SELECT pg_reload_conf()")
}

// replay runs a trial on the recording.
func (r *recorded) replay(t *testing.T, work int64, more map[string]string) (*workload.Bench, error) {
	t.Helper()
	return r.drive(t, work, more, files(t, r.resolved(t, more)))
}

// drive runs a trial with files as the controller would send them.
func (r *recorded) drive(t *testing.T, work int64, more, files map[string]string) (*workload.Bench, error) {
	t.Helper()
	b := &workload.Bench{Dir: t.TempDir(), Work: work, Seed: 42, Service: r.serving, Warmup: true, Files: files}
	trial, err := trialtest.Named(t, sql.Kinds(), "sql.replay").New(r.resolved(t, more))
	if err != nil {
		return b, err
	}
	return b, workload.Drive(t.Context(), trial, b)
}

// files are the files that the controller would send.
func files(t *testing.T, p workload.Params) map[string]string {
	t.Helper()
	m := supply.New(t.TempDir())
	defer m.Close()
	made, err := m.Of(t.Context(), &plan.Workload{Label: "replay", Kind: "sql.replay", Params: p})
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for name, f := range made {
		paths[name] = filepath.Join(t.TempDir(), hex.EncodeToString(f.Digest[:]))
		out, err := os.Create(paths[name])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(out, io.NewSectionReader(f.Content, 0, f.Size)); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// written makes a trace of sessions that have a statement at each of their times, in milliseconds.
func written(t *testing.T, server map[string]string, database, text string, times ...[]int64) map[string]string {
	t.Helper()
	var sessions [][]trace.Event
	number := uint64(0)
	for _, all := range times {
		var events []trace.Event
		for _, at := range all {
			number++
			events = append(events, trace.Event{Op: trace.Query, At: at * 1000, Text: []byte(text), Number: number,
				Database: []byte(database)})
		}
		sessions = append(sessions, events)
	}
	return withEvents(t, server, sessions...)
}

// withEvents makes a trace of sessions.
func withEvents(t *testing.T, server map[string]string, sessions ...[]trace.Event) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := trace.Meta{Start: 1}
	if server["server"] == "postgresql" {
		m.Dialect = lex.PostgreSQL
	}
	w := trace.NewWriter(f, m)
	for i, events := range sessions {
		for _, e := range events {
			w.Meta.Span = max(w.Meta.Span, e.At)
			e.Rows = -1
			if e.Op.Statement() {
				e.Fingerprint = w.Fingerprint(e.Text, lex.Verdict{Class: lex.Read})
			}
			if err := w.Add(uint64(i), &e); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"log": path}
}
