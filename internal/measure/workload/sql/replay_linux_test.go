package sql_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/sql"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/setdiff"
	"tare/internal/sys/sql/promise"
	"tare/internal/sys/sql/trace"
)

// reporter is a trial that has something to report.
type reporter interface {
	workload.Trial
	workload.Reporter
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
		if err != nil || b.State["errors"] != "none" || b.State["database"] != "its-own" ||
			b.State[promise.State] == "" {
			t.Errorf("%v, errors %s, database %s, promises %q", err, b.State["errors"], b.State["database"],
				b.State[promise.State])
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
			// One may have ended by itself since.
			const count = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = "
			if c.Refused("KILL "+id) && c.Word(t, count+id) != "0" {
				t.Fatalf("connection %s cannot be ended", id)
			}
		}
	}
	c.Quit(t)
}
