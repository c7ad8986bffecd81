package sql_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/sql"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/supply"
	"tare/internal/sys/setdiff"
	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/log"
	"tare/internal/sys/sql/trace"
)

// reporter is a trial that has something to report.
type reporter interface {
	workload.Trial
	workload.Reporter
}

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

// TestOrderOfTransactions has sessions of PostgreSQL write at the same time, and replays its csvlog with fewer lanes
// than there are sessions. The transactions begin in the order in which they first wrote, by the log of the replay.
func TestOrderOfTransactions(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		if server["server"] != "postgresql" {
			log := filepath.Join(t.TempDir(), "general.log")
			if err := os.WriteFile(log, []byte("261121  0:05:31\t    8 Query\tSELECT 1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := supply.New(t.TempDir()).Of(t.Context(), &plan.Workload{Kind: "sql.replay",
				Params: map[string]string{"server": server["server"], "log": log, "order": "transactions"}})
			if err == nil || !strings.Contains(err.Error(), "the log tells no ids of transactions") {
				t.Errorf("a general log: %v", err)
			}
			return
		}
		r := recording(t, server)
		c := r.connect(t, "shop")
		c.Word(t, "CREATE TABLE ordered (who INT, n INT)")
		log := r.logged(t, c)
		begin := size(t, log)
		var clients []*sql.Client
		for range 5 {
			clients = append(clients, r.connect(t, "shop"))
		}
		var want []string
		for n := range 40 { // two begin, and the second writes first
			a, b := n%len(clients), (n+1+n/7%4)%len(clients)
			for _, who := range []int{a, b} {
				clients[who].Word(t, fmt.Sprintf("BEGIN /* %d-%d */", n, who))
			}
			for _, who := range []int{b, a} {
				clients[who].Word(t, fmt.Sprintf("INSERT INTO ordered VALUES (%d, %d)", who, n))
				want = append(want, fmt.Sprintf("BEGIN /* %d-%d */", n, who))
			}
			for _, who := range []int{a, b} {
				clients[who].Word(t, "COMMIT", "SELECT 'between'")
			}
		}
		for _, c := range clients {
			c.Quit(t)
		}
		r.logEnds(t, c, log, "the end of the transactions")
		recorded := cutFrom(t, log, begin)
		more := map[string]string{"log": recorded, "order": "transactions", "lanes": "2", "whole": "yes",
			"writes": "yes", "warm": "no"}
		for _, keeps := range []string{"kept", "as-recorded"} {
			r.logged(t, c)
			begin = size(t, log)
			more["sessions"] = keeps
			b, err := r.replay(t, 1, more)
			if err != nil {
				t.Fatal(err)
			}
			r.logEnds(t, c, log, "the end of the replay, "+keeps)
			if got := begins(t, cutFrom(t, log, begin)); !slices.Equal(got, want) {
				t.Errorf("%s: the transactions begin as %v, want %v", keeps, got, want)
			}
			if lanes, _ := strconv.Atoi(b.State["lanes"]); lanes < 3 || lanes > len(clients)+1 ||
				b.State["turn_wait_share"] == "" || b.State["errors"] != "none" {
				t.Errorf("%s: %v", keeps, b.State)
			}
		}
		if n := c.Word(t, "SELECT count(*) FROM ordered"); n != fmt.Sprint(3*len(want)) {
			t.Errorf("%s rows were written", n)
		}
		c.Quit(t)
	})
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// cutFrom copies what is in a file behind an offset.
func cutFrom(t *testing.T, name string, offset int64) string {
	t.Helper()
	text, err := os.ReadFile(name)
	to := filepath.Join(t.TempDir(), "cut.csv")
	if err == nil {
		err = os.WriteFile(to, text[offset:], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// begins lists the statements that begin a transaction, in the order of a log.
func begins(t *testing.T, name string) (all []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, err := log.Open(f, log.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var e log.Event
	for err = in.Next(&e); err == nil; err = in.Next(&e) {
		if strings.HasPrefix(string(e.Text), "BEGIN /*") {
			all = append(all, string(e.Text))
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return all
}

// TestDatabaseOfTheLog replays a log of a database that no parameter and no data name.
func TestDatabaseOfTheLog(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		dir := t.TempDir()
		text := "2020-03-11 20:40:43.250 UTC [1] u@its-own LOG:  statement: SELECT a FROM one\n" // begun before it
		if server["server"] != "postgresql" {
			text = "261121  0:05:31\t    7 Query\tSELECT a FROM one\n" +
				"\t\t    8 Connect\tu@localhost on its-own using Socket\n\t\t    8 Query\tSELECT a FROM one\n"
		}
		p := maps.Clone(server)
		p["log"], p["data"] = filepath.Join(dir, "a.log"), filepath.Join(dir, "a.sql")
		err := os.WriteFile(p["log"], []byte(text), 0o600)
		if err == nil {
			err = os.WriteFile(p["data"], []byte("CREATE TABLE one (a INT);\nINSERT INTO one VALUES (1);\n"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &recorded{params: p}
		sent := files(t, r.resolved(t, nil))
		r.serving = sql.StartWith(t, r.resolved(t, nil), sent)
		b, err := r.drive(t, 1, map[string]string{"whole": "yes"}, sent)
		if err != nil || b.State["errors"] != "none" || b.State["database"] != "its-own" {
			t.Errorf("%v, errors %s, database %s", err, b.State["errors"], b.State["database"])
		}
		// On a server that runs already, sessions that name none begin there, too.
		user := map[string]string{"mariadb": "root", "mysql": "root", "postgresql": "tare"}[server["server"]]
		b, err = r.drive(t, 1, map[string]string{"whole": "yes", "data": "", "settings": "", "root": "", "user": user,
			"address": sql.Address(t, r.serving)}, map[string]string{"log": sent["log"]})
		if err != nil || b.State["errors"] != "none" {
			t.Errorf("at an address: %v, errors %s", err, b.State["errors"])
		}
	})
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

// TestReplay replays a log in all ways. The work must be equal in all of them.
func TestReplay(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		seen := r.seen(t)
		want := r.expect(t)
		for _, more := range []map[string]string{
			{"lanes": "2"}, {"lanes": "8"}, {"lanes": "session"}, {"lanes": "3", "sessions": "kept"},
			{"lanes": "1", "sessions": "kept"}, {"lanes": "2", "pace": "1000"}, {"think": "flat", "connect": "1000"},
			{"prepared": "text"}, {"pin-time": "yes"}, {"warm": "no"},
		} {
			if r.postgres() && (more["prepared"] != "" || more["pin-time"] != "") {
				continue
			}
			name := fmt.Sprint(more)
			more["whole"] = "yes"
			b, err := r.replay(t, 1, more)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := maps.Clone(want)
			if more["prepared"] != "" { // the sum of a prepared statement's rows is one of their encoding
				want["sum"] = totals(b)["sum"]
			}
			if !maps.Equal(totals(b), want) {
				t.Errorf("%s: %v, want %v", name, totals(b), want)
			}
			if more["prepared"] == "" && !bytes.Equal(b.Sketch, r.sketch) {
				t.Errorf("%s: the sketch is not that of one lane", name)
			}
			r.checkFigures(t, name, b, more)
		}
		if got := r.seen(t); got != seen {
			t.Errorf("a function has written in a replay: %d rows more", got-seen)
		}
		r.checkWrites(t, seen)
		r.checkDifferences(t)
	})
}

// seen counts what the function has written.
func (r *recorded) seen(t *testing.T) int {
	t.Helper()
	c := r.connect(t, "shop")
	n, err := strconv.Atoi(c.Word(t, "SELECT COUNT(*) FROM seen"))
	if err != nil {
		t.Fatal(err)
	}
	c.Quit(t)
	return n
}

// checkWrites replays what writes, too: nothing that other lanes may change is compared.
func (r *recorded) checkWrites(t *testing.T, seen int) {
	t.Helper()
	b, err := r.replay(t, 1, map[string]string{"lanes": "4", "whole": "yes", "writes": "yes", "warm": "no"})
	if err != nil {
		t.Fatal(err)
	}
	// The logs of MySQL and MariaDB also have what the function does, which is not done twice.
	wrong := fmt.Sprintf("1146: %d", sessions)
	if r.postgres() {
		wrong = fmt.Sprintf("42P01: %d", sessions)
	}
	if r.seen(t) != seen+sessions || len(b.Checks) != 1 || totals(b)["statements"] == "" || b.State["errors"] != wrong {
		t.Errorf("%d rows were written, compared are %v, errors %s", r.seen(t)-seen, b.Checks, b.State["errors"])
	}
	for _, g := range b.Groups {
		if g.Check != "" {
			t.Errorf("%s is compared: %s", g.Text, g.Check)
		}
	}
	// A transaction that the log itself makes read-only does not mean that the server has become it.
	var own []trace.Event
	for _, text := range []string{"SELECT 1", "START TRANSACTION READ ONLY", "UPDATE item SET stock = stock", "COMMIT",
		"SELECT 2"} {
		own = append(own, trace.Event{Op: trace.Query, Text: []byte(text), Database: []byte("shop")})
	}
	b, err = r.drive(t, 1, map[string]string{"writes": "yes", "warm": "no"}, withEvents(t, r.params, own))
	got := b.State["errors"]
	if err != nil || totals(b)["statements"] != "5" || got != "1792: 1" && got != "25006: 1" {
		t.Errorf("a read-only transaction of the log: %v, %v, errors %s", err, b.Checks, got)
	}
}

// checkDifferences changes a row between two replays, and finds the statements that return it.
func (r *recorded) checkDifferences(t *testing.T) {
	t.Helper()
	log := written(t, r.params, "shop", "SELECT title FROM item WHERE id = 7", []int64{0, 0}, []int64{0})
	var sketches []*setdiff.Sketch
	group := ""
	for _, update := range []string{"UPDATE item SET title = concat(title, '!') WHERE id = 7",
		"UPDATE item SET title = replace(title, '!', '') WHERE id = 7"} {
		b, err := r.drive(t, 1, map[string]string{"lanes": "2", "whole": "yes", "warm": "no"}, log)
		if err != nil {
			t.Fatal(err)
		}
		s, err := setdiff.Parse(b.Sketch)
		if err != nil {
			t.Fatal(err)
		}
		sketches, group = append(sketches, s), b.Groups[0].ID
		c := r.connect(t, "shop")
		c.Word(t, update)
		c.Quit(t)
	}
	found, all := setdiff.Compare(sketches[0], sketches[1])
	if len(found) != 3 || !all {
		t.Errorf("%d of 3 statements that differ were found, all: %t", len(found), all)
	}
	for i, d := range found {
		if d.Number != uint64(i+1) || d.A == nil || d.B == nil || d.A.Rows != 1 || d.B.Rows != 1 ||
			d.A.Sum == d.B.Sum || fmt.Sprintf("%08X", d.A.Kind) != group[:8] {
			t.Errorf("%+v differs: %+v and %+v of group %s", d, d.A, d.B, group)
		}
	}
}

// totals are what a replay tells of all its statements together.
func totals(b *workload.Bench) map[string]string {
	all := maps.Clone(b.Checks)
	for _, name := range []string{"statements", "errors", "rows", "sum"} {
		all[name] = b.State[name]
	}
	return all
}

// expect replays the log with one lane and checks everything that is known of it.
func (r *recorded) expect(t *testing.T) map[string]string {
	t.Helper()
	b, err := r.replay(t, 1, map[string]string{"lanes": "1", "whole": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	r.sketch = b.Sketch
	wrong := fmt.Sprintf("1146: %d, 1792: %d", sessions, sessions)
	if r.postgres() {
		wrong = fmt.Sprintf("25006: %d, 42P01: %d", sessions, sessions)
	}
	n, _ := strconv.Atoi(totals(b)["statements"])
	if totals(b)["errors"] != wrong || n < sessions*statements ||
		r.params["server"] == "mariadb" && n != sessions*statements {
		t.Errorf("%v", totals(b))
	}
	total := int64(0)
	found := map[string]record.Group{}
	for _, g := range b.Groups {
		found[g.Text] = g
		total += g.Count
	}
	if total != int64(n) {
		t.Errorf("the groups have %d statements of %d", total, n)
	}
	want := map[string]record.Group{
		"select now(), ?": {Count: sessions, Rows: sessions},
		"select see(?)":   {Count: sessions, Errors: sessions, Check: "0 rows of 24 statements, sum "},
		"select title from item where id = ?": {Count: sessions, Rows: sessions,
			Check: "24 rows of 24 statements, sum "},
		"select nothing from nowhere": {Count: sessions, Errors: sessions, Check: "0 rows of 24 statements, sum "},
		"select id, title from item where id > ? and title <> ? order by id limit ?": {Count: 4 * sessions,
			Rows: 20 * sessions, Check: "480 rows of 96 statements, sum "},
	}
	if r.postgres() {
		for _, text := range []string{"select stock from item where id = ?", "select count(*) from item where id < ?"} {
			want[text] = want["select title from item where id = ?"]
		}
	}
	for text, want := range want {
		g := found[text]
		if g.Count != want.Count || g.Errors != want.Errors || g.Rows != want.Rows ||
			!strings.HasPrefix(g.Check, want.Check) || (want.Check == "") != (g.Check == "") || g.P50 <= 0 ||
			g.P99 < g.P50 || g.Seconds < g.P99 || len(g.ID) != 16 {
			t.Errorf("%s: %+v, want %+v", text, g, want)
		}
	}
	return totals(b)
}

// checkFigures checks that the figures are there that belong to the parameters, and no others.
func (r *recorded) checkFigures(t *testing.T, name string, b *workload.Bench, more map[string]string) {
	t.Helper()
	var declared []string
	for _, m := range trialtest.Named(t, sql.Kinds(), "sql.replay").MetricsFor(r.resolved(t, more)) {
		declared = append(declared, m.Name)
		if v := b.Metrics[m.Name]; !(v > 0) {
			t.Errorf("%s: %s is %v", name, m.Name, v)
		}
	}
	if len(b.Metrics) != len(declared) {
		t.Errorf("%s: %v are reported, %v declared", name, b.Metrics, declared)
	}
	want := map[string]string{"session": fmt.Sprint(sessions), "": b.State["lanes"]}[more["lanes"]]
	if want == "" {
		want = more["lanes"]
	}
	if n, _ := strconv.Atoi(b.State["lanes"]); want != "24" && b.State["lanes"] != want || n < 1 {
		t.Errorf("%s: %s lanes", name, b.State["lanes"])
	}
}

// Units of work are shards, which are taken again when all were taken.
func TestReplayOfShards(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		var counts []int
		for _, work := range []int64{1, 4, 8} {
			b, err := r.replay(t, work, map[string]string{"shard": "84", "lanes": "2"})
			if err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.Atoi(totals(b)["statements"])
			counts = append(counts, n)
		}
		if counts[0] < 84 || counts[0] > 100 || counts[1] < 4*84 || counts[2] != 2*counts[1] {
			t.Errorf("%d statements", counts)
		}
	})
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

// TestPace compares paces with each other and with the schedule. A busy machine may be late, but never early.
func TestPace(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		log := written(t, server, "shop", "SELECT 1", []int64{0, 100, 400}, []int64{200, 300}, []int64{60_350, 60_360})
		took := func(more map[string]string) time.Duration {
			more["lanes"], more["whole"] = "session", "yes"
			b, err := r.drive(t, 1, more, log)
			if err != nil {
				t.Fatal(err)
			}
			if b.Metrics["behind_p99"] <= 0 || b.State["behind_because"] == "" {
				t.Errorf("%v, %v", b.Metrics, b.State)
			}
			return b.Elapsed
		}
		slow := took(map[string]string{"pace": "original", "idle-wait": "200ms"})
		// The server may be late for reasons of its own, but not every time.
		fast := slow
		for try := 0; fast >= slow && try < 5; try++ {
			fast = took(map[string]string{"pace": "10", "idle-wait": "200ms"})
		}
		if slow < 610*time.Millisecond || fast < 61*time.Millisecond || fast >= slow {
			t.Errorf("in original time %v, ten times as fast %v", slow, fast)
		}
		gaps := took(map[string]string{"pace": "flat", "think": "1"})
		if gaps < 400*time.Millisecond {
			t.Errorf("with the pauses within sessions only, %v", gaps)
		}
		// The second session waits for the end of the first, much longer than any server takes for a statement, unless
		// the machine is very busy.
		log = written(t, server, "shop", "SELECT 1", []int64{0, 3000}, []int64{10, 20})
		why := ""
		for try := 0; !strings.HasPrefix(why, "lanes") && try < 5; try++ {
			late, err := r.drive(t, 1, map[string]string{"pace": "1", "lanes": "1", "whole": "yes"}, log)
			if err != nil {
				t.Fatal(err)
			}
			why = late.State["behind_because"]
		}
		if !strings.HasPrefix(why, "lanes") {
			t.Errorf("with one lane it is behind because of %s", why)
		}
		if r.postgres() { // others do not wait for a table when they prepare
			r.checkPreparation(t)
		}
	})
}

// checkPreparation has the server take longer for a preparation than there is time until the next statement.
func (r *recorded) checkPreparation(t *testing.T) {
	t.Helper()
	log := withEvents(t, r.params, []trace.Event{{Op: trace.Connect, Database: []byte("shop")},
		{Op: trace.Prepare, Statement: 1, Text: []byte("SELECT title FROM item")},
		{Op: trace.Query, Text: []byte("SELECT 1"), At: 50_000}})
	c := r.connect(t, "shop")
	c.Word(t, "BEGIN; LOCK TABLE item")
	done := make(chan *workload.Bench, 1)
	go func() {
		b, err := r.drive(t, 1, map[string]string{"lanes": "1", "pace": "original", "warm": "no"}, log)
		if err != nil {
			t.Error(err)
		}
		done <- b
	}()
	for end := time.Now().Add(time.Minute); c.Word(t, "SELECT COUNT(*) FROM pg_locks WHERE NOT granted") == "0"; {
		if time.Sleep(5 * time.Millisecond); time.Now().After(end) {
			t.Fatal("no preparation waits")
		}
	}
	time.Sleep(200 * time.Millisecond) // by which the statement is late
	c.Word(t, "COMMIT")
	c.Quit(t)
	if b := <-done; !strings.HasPrefix(b.State["behind_because"], "server") {
		t.Errorf("it is behind because of %s", b.State["behind_because"])
	}
}

// A replay does not allocate memory for a statement.
func TestReplayAllocatesNothing(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		allocations := func(n int) uint64 {
			log := written(t, server, "shop", "SELECT id, title FROM item WHERE id = 7", make([]int64, n))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := r.drive(t, 1, map[string]string{"lanes": "1", "warm": "no"}, log); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		allocations(100)
		const more = 2000
		if few, many := allocations(100), allocations(100+more); many > few+more/10 {
			t.Errorf("%d allocations for 100 statements, %d for %d more", few, many, more)
		}
	})
}

// TestRefusals has what a replay cannot be done with. None of it gives figures.
func TestRefusals(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		r.makeUser(t)
		refused := func(name, want string, more, files map[string]string) {
			b, err := r.drive(t, 1, more, files)
			f, ok := errors.AsType[*record.Failure](err)
			if !ok || !strings.Contains(f.Message, want) || strings.Contains(f.Message, "secret") ||
				len(b.Metrics) > 0 {
				t.Errorf("%s: %v, %v", name, err, b.Metrics)
			}
		}
		refused("schema missing", "3 of 3 statements failed", nil,
			written(t, server, "shop", "SELECT a FROM missing", []int64{0, 0, 0}))
		refused("database missing", "say database=NAME", nil,
			written(t, server, "nowhere", "SELECT 1", []int64{0}))
		more := map[string]string{"address": sql.Address(t, r.serving), "user": "tare-test", "settings": "", "root": "",
			"database": "shop", "lanes": "14", "sessions": "kept", "pace": "original"}
		long := []int64{0, 10_000} // so that all are there at once
		many := written(t, server, "shop", "SELECT 1", slices.Repeat([][]int64{long}, 14)...)
		many["password-file"] = password(t, "secret")
		r.limit(t, 10)
		refused("too many connections", "use fewer lanes", more, many)
		r.limit(t, 151)
		many["password-file"] = password(t, "another secret")
		if !r.postgres() { // a private PostgreSQL lets in whoever reaches its socket
			refused("wrong password", "it does not let the user in", more, many)
		}
		r.makeReadOnly(t, true)
		defer r.makeReadOnly(t, false)
		maps.Copy(more, map[string]string{"lanes": "1", "writes": "yes", "disposable": "yes", "pace": "flat"})
		change := written(t, server, "shop", "UPDATE item SET stock = stock WHERE id = 1", []int64{0, 0})
		change["password-file"] = password(t, "secret")
		refused("read-only", "it has become read-only", more, change)
	})
}

// TestIdleConnection has the server end all connections after the work: the counters are read on another one.
func TestIdleConnection(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := recording(t, server)
		for _, sessions := range []string{"kept", "as-recorded"} {
			p := r.resolved(t, map[string]string{"sessions": sessions, "lanes": "2", "warm": "no"})
			trial, err := trialtest.Named(t, sql.Kinds(), "sql.replay").New(p)
			if err != nil {
				t.Fatal(err)
			}
			b := &workload.Bench{Dir: t.TempDir(), Work: 1, Service: r.serving,
				Files: written(t, server, "shop", "SELECT 1", make([]int64, 99))}
			if err = trial.Setup(t.Context(), b); err == nil {
				err = trial.Measure(t.Context(), b)
			}
			b.Elapsed = time.Second
			r.endOthers(t)
			if err == nil {
				err = trial.(reporter).Report(b)
			}
			if err = errors.Join(err, trial.Cleanup(b)); err != nil {
				t.Fatal(err)
			}
			if len(b.Warnings) > 0 && b.Warnings[0].Code == "sql-counters" || b.State["buffer_miss_share"] == "" {
				t.Errorf("%s: %v, %v", sessions, b.Warnings, b.State)
			}
		}
	})
}

// endOthers ends all other connections.
func (r *recorded) endOthers(t *testing.T) {
	t.Helper()
	c := r.connect(t, "")
	if r.postgres() {
		c.Word(t, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'tare' AND "+
			"pid <> pg_backend_pid()")
	} else {
		ids := c.Word(t, "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = 'root' AND "+
			"id <> CONNECTION_ID()")
		for id := range strings.SplitSeq(ids, ",") {
			c.Word(t, "KILL "+id)
		}
	}
	c.Quit(t)
}

// limit sets how many connections a server of MySQL's or MariaDB's takes. Ten is the least that MariaDB knows; it does
// not hold a user to MAX_USER_CONNECTIONS at all times. PostgreSQL's user has a limit, see makeUser.
func (r *recorded) limit(t *testing.T, connections int) {
	t.Helper()
	if r.postgres() {
		return
	}
	c := r.connect(t, "")
	c.Word(t, fmt.Sprintf("SET GLOBAL max_connections = %d", connections))
	c.Quit(t)
}

// makeUser makes a user of the server, who may have two connections to PostgreSQL.
func (r *recorded) makeUser(t *testing.T) {
	t.Helper()
	c := r.connect(t, "shop")
	if r.postgres() {
		c.Refused(`DROP OWNED BY "tare-test"`) // there is no such role at first
		c.Word(t, `DROP ROLE IF EXISTS "tare-test"`, `CREATE ROLE "tare-test" LOGIN CONNECTION LIMIT 2`,
			`GRANT ALL ON item TO "tare-test"`)
	} else {
		c.Word(t, "DROP USER IF EXISTS `tare-test`@localhost", "CREATE USER `tare-test`@localhost IDENTIFIED BY "+
			"'secret'", "GRANT SELECT, UPDATE ON shop.* TO `tare-test`@localhost")
	}
	c.Quit(t)
}

// makeReadOnly has the server refuse that user's changes, or not any more.
func (r *recorded) makeReadOnly(t *testing.T, is bool) {
	t.Helper()
	c := r.connect(t, "")
	if r.postgres() {
		c.Word(t, fmt.Sprintf(`ALTER ROLE "tare-test" SET default_transaction_read_only = %t`, is))
	} else {
		c.Word(t, fmt.Sprintf("SET GLOBAL read_only = %t", is))
	}
	c.Quit(t)
}

// password writes a file with a password.
func password(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLost has the server killed, and started again, during a replay.
func TestLost(t *testing.T) {
	sql.Each(t, func(t *testing.T, server map[string]string) {
		r := &recorded{params: maps.Clone(server)}
		o := dbserver.Options{Product: dbserver.Product(server["server"]), Dir: filepath.Join(t.TempDir(), "server"),
			Root: server["root"]}
		s := r.serve(t, o)
		var times []int64
		for at := range int64(600 * 50) { // for ten minutes
			times = append(times, 20*at)
		}
		log := written(t, server, "shop", "SELECT 1", times, times)
		for _, again := range []bool{true, false} {
			done := make(chan error, 1)
			go func() {
				b, err := r.drive(t, 1, map[string]string{"pace": "original", "lanes": "session", "whole": "yes",
					"warm": "no"}, log)
				if err == nil || len(b.Metrics) > 0 {
					err = fmt.Errorf("there are figures: %v, %w", b.Metrics, err)
				}
				done <- err
			}()
			r.waitForClients(t, 3)
			if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-s.Done()
			want := "has ended"
			if again {
				_ = s.Stop(t.Context())
				s = r.serve(t, o)
				want = "was started again"
			}
			err := <-done
			if f, ok := errors.AsType[*record.Failure](err); !ok || !strings.Contains(f.Message, want) {
				t.Errorf("%v, want %s", err, want)
			}
			_ = s.Stop(t.Context())
			if again {
				s = r.serve(t, o)
			}
		}
	})
}

// serve starts a server that has database shop.
func (r *recorded) serve(t *testing.T, o dbserver.Options) dbserver.Server {
	t.Helper()
	s, err := dbserver.Start(t.Context(), o)
	if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	r.serving = sql.Serving(t, s)
	c := r.connect(t, "")
	c.Refused("CREATE DATABASE shop") // it exists after another start
	c.Quit(t)
	return s
}

// waitForClients waits until so many clients are connected, and the server has run for some seconds: a start that is
// followed by another at once cannot be told from it.
func (r *recorded) waitForClients(t *testing.T, n int) {
	t.Helper()
	clients, age := "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'root'",
		"SELECT VARIABLE_VALUE FROM information_schema.global_status WHERE VARIABLE_NAME = 'UPTIME'"
	switch r.params["server"] {
	case "postgresql":
		clients = "SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'tare'"
		age = "SELECT floor(extract(epoch from now() - pg_postmaster_start_time()))"
	case "mysql":
		age = strings.ReplaceAll(age, "information_schema", "performance_schema")
	}
	c := r.connect(t, "")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		connected, _ := strconv.Atoi(c.Word(t, clients))
		seconds, _ := strconv.Atoi(c.Word(t, age))
		if connected >= n+1 && seconds >= 4 { // and this client
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d clients of a server that runs for %d s", connected, seconds)
		}
	}
	c.Quit(t)
}
