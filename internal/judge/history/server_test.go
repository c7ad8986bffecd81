package history

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/judge/history/pgtest"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// long is the patience of writers in tests: it does not decide whether they succeed.
const long = 3 * time.Minute

// hostEntry is the run of host k of a fleet, with a bundle of some size.
func hostEntry(k, size int) Entry {
	e := entry(k, 2)
	name := fmt.Sprintf("n%03d", k)
	e.Host = &record.Facts{OS: "linux", Hostname: name, CPU: "x", MemoryBytes: 8 << 30, Kernel: "6.1"}
	e.Trials, e.Head = 100, "head-"+name
	e.Fleet = Fleet{Plan: "plan-1", Host: name, Machine: "m-" + name, Part: k + 1, Of: 200,
		Facts: map[string]string{"kernel": "6.1", "cpu.microcode": fmt.Sprint("0x", k%3)},
		Figures: []Figure{
			{Target: "host", Workload: "cpu.prime", Metric: "events", Kind: "cpu.prime", Unit: "ev/s", Better: "higher",
				Primary: true, Value: 100 + float64(k), Low: 90, High: 110, Blocks: 10},
			{Target: "host", Workload: "memory.copy", Metric: "seconds", Kind: "memory.copy", Unit: "s",
				Better: "lower", Primary: true, Why: "its clock is in doubt"}}}
	e.Packed = bytes.Repeat([]byte(name), size/len(name))
	return e
}

// whole fails for each run that is not there once, with all that belongs to it.
func whole(t *testing.T, db *sql.DB, runs int) {
	t.Helper()
	var n, torn int
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM tare_runs").Scan(&n); err != nil || n != runs {
		t.Errorf("%d runs are recorded, want %d: %v", n, runs, err)
	}
	err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM tare_runs r WHERE
		2 <> (SELECT COUNT(*) FROM tare_cells c WHERE c.run_id = r.run_id) OR
		2 <> (SELECT COUNT(*) FROM tare_figures c WHERE c.run_id = r.run_id) OR
		2 <> (SELECT COUNT(*) FROM tare_facts c WHERE c.run_id = r.run_id) OR
		1 <> (SELECT COUNT(*) FROM tare_bundles c WHERE c.run_id = r.run_id)`).Scan(&torn)
	if err != nil || torn != 0 {
		t.Errorf("%d runs are recorded in part: %v", torn, err)
	}
}

// childEnv makes the test binary a writer that records runs until it is killed.
const childEnv = "TARE_HISTORY_CHILD"

func TestMain(m *testing.M) {
	if address := os.Getenv(childEnv); address != "" {
		s, err := OpenWith(context.Background(), address, Options{Patience: long})
		for k := 0; err == nil; k++ {
			_, err = s.Add(context.Background(), hostEntry(k, 1<<20))
			fmt.Println(k)
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestPostgreSQL has what a server must do, on one server.
func TestPostgreSQL(t *testing.T) {
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t)
	t.Run("contract", func(t *testing.T) {
		p.Exec("postgres", "CREATE DATABASE contract")
		contract(t, p.Address("contract"))
	})
	t.Run("restart", func(t *testing.T) {
		p.Exec("postgres", "CREATE DATABASE other")
		s := open(t, p.Address("other"))
		if c, err := s.Add(t.Context(), entry(1, 2)); err != nil || c != Added {
			t.Fatalf("%q, %v", c, err)
		}
		p.Stop()
		p.Begin()
		// Also without patience: a connection that was not used within the last second is tried before it is used.
		time.Sleep(1100 * time.Millisecond)
		if runs, err := s.Runs(t.Context(), 0); err != nil || len(runs) != 1 {
			t.Errorf("after a restart %d runs: %v", len(runs), err)
		}
		if c, err := s.Add(t.Context(), entry(2, 2)); err != nil || c != Added {
			t.Errorf("after a restart: %q, %v", c, err)
		}
	})
	t.Run("migration", func(t *testing.T) { migration(t, p) })
	t.Run("prune", func(t *testing.T) {
		p.Exec("postgres", "CREATE DATABASE prune")
		pruning(t, p.Address("prune"))
	})
	t.Run("roles", func(t *testing.T) { roles(t, p) })
	t.Run("refusals", func(t *testing.T) { refusals(t, p) })
}

// refusals holds that each reason for which a server cannot be used says what to do, in one line.
func refusals(t *testing.T, p *pgtest.Server) {
	address := p.Address("postgres")
	for _, c := range []struct{ password, address, want string }{
		{"wrong", address, "PGPASSWORD"},
		{pgtest.Password, p.Address("elsewhere"), "createdb"},
		{pgtest.Password, p.AddressFor("nobody", "postgres"), "PGPASSWORD"},
		{pgtest.Password, "postgres://tare@127.0.0.1:1/x?sslmode=disable", "does the server run"},
		{pgtest.Password, "postgres://tare@127.0.0.1:1/x?sslmode=dissable", "sslmode is invalid"},
		{pgtest.Password, "postgres:///x?service=nosuch&servicefile=/nosuch", "service file"},
	} {
		t.Setenv("PGPASSWORD", c.password)
		_, err := Open(t.Context(), c.address)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			strings.Count(err.Error(), "refused") > 1 ||
			strings.Contains(err.Error(), c.password) && c.password != "wrong" {
			t.Errorf("%s: %v", c.address, err)
		}
	}
	// A file of passwords and a service file, as psql reads them.
	dir := t.TempDir()
	pass, service := filepath.Join(dir, "pass"), filepath.Join(dir, "service")
	host := address[strings.Index(address, "host=")+len("host="):]
	host = strings.ReplaceAll(host, "%2F", "/")
	for name, text := range map[string]string{pass: "*:*:postgres:tare:" + pgtest.Password + "\n",
		service: "[lab]\nhost=" + host + "\nuser=tare\ndbname=postgres\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PGPASSWORD", "")
	t.Setenv("PGPASSFILE", pass)
	t.Setenv("PGSERVICEFILE", service)
	for _, a := range []string{address, "postgres:///?service=lab"} {
		if s, err := Open(t.Context(), a); err != nil {
			t.Errorf("%s: %v", a, err)
		} else {
			s.Close()
		}
	}
}

// roles holds what roles with few rights can do, and what they are told.
func roles(t *testing.T, p *pgtest.Server) {
	p.Exec("postgres", "CREATE DATABASE shared",
		"CREATE ROLE writer LOGIN PASSWORD '"+pgtest.Password+"'",
		"CREATE ROLE reader LOGIN PASSWORD '"+pgtest.Password+"'")
	p.Exec("shared", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	if _, err := Open(t.Context(), p.AddressFor("writer", "shared")); err == nil ||
		!strings.Contains(err.Error(), "GRANT CREATE ON SCHEMA") {
		t.Errorf("a role that may not make tables: %v", err)
	}
	owner := open(t, p.Address("shared"))
	if _, err := owner.Add(t.Context(), hostEntry(0, 100)); err != nil {
		t.Fatal(err)
	}
	p.Exec("shared", "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO writer",
		"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
	w := open(t, p.AddressFor("writer", "shared"))
	if c, err := w.Add(t.Context(), hostEntry(1, 100)); err != nil || c != Added {
		t.Errorf("a role that may write: %q, %v", c, err)
	}
	r := open(t, p.AddressFor("reader", "shared"))
	if runs, err := r.Runs(t.Context(), 0); err != nil || len(runs) != 2 {
		t.Errorf("a role that may read sees %d runs: %v", len(runs), err)
	}
	if _, err := r.Add(t.Context(), hostEntry(2, 100)); err == nil ||
		!strings.Contains(err.Error(), "may not do that") {
		t.Errorf("a role that may only read: %v", err)
	}
	if _, err := r.Prune(t.Context(), Retention{Age: time.Nanosecond}); err == nil ||
		!strings.Contains(err.Error(), "may not do that") {
		t.Errorf("a role that may only read prunes: %v", err)
	}
	p.Exec("postgres", "ALTER ROLE writer SET default_transaction_read_only = on")
	if _, err := open(t, p.AddressFor("writer", "shared")).Add(t.Context(), hostEntry(3, 100)); err == nil ||
		!strings.Contains(err.Error(), "read only") {
		t.Errorf("a server that takes no writes: %v", err)
	}
	whole(t, owner.db, 2)
}

// old makes tables of an older version with one run, as an older tare left them.
func old(t *testing.T, s *Store, version int) {
	t.Helper()
	made, err := schemaFiles.ReadFile("schema/0-2.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(made), fmt.Sprint("INSERT INTO tare_schema VALUES (", version, ")"),
		`INSERT INTO tare_runs VALUES ('run-001', 'd', '2026-01-02T00:00:00Z', 'n', 'b', 'host', 'm', 'h', 'k', '1', 'b', '', 10,
			1.5, 1)`,
		`INSERT INTO tare_cells VALUES ('run-001', 'vm:virtiofs', 'fs.randread bs=4KiB', 'rate', 'w', 'fs.randread', '1/s', 1,
			'DIFFERENT', 2, 1.9, 2.1, 100, 200, 10, 'host')`,
		`INSERT INTO tare_cells VALUES ('run-001', 'vm', 'fs.randread bs=4KiB', 'rate', 'w', 'fs.randread', '1/s', 1,
			'DIFFERENT', 2, 1.9, 2.1, 100, 200, 10, 'host')`} {
		if _, err := s.db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if version == 1 {
		if _, err := s.db.ExecContext(t.Context(), "ALTER TABLE tare_cells DROP COLUMN baseline"); err != nil {
			t.Fatal(err)
		}
	}
}

// upgraded holds that tables of an older version, which s has now, were upgraded and lost nothing.
func upgraded(t *testing.T, s *Store, version int) {
	t.Helper()
	baseline := func(target string) (b string) {
		t.Helper()
		if err := s.db.QueryRowContext(t.Context(), s.bind("SELECT baseline FROM tare_cells WHERE run_id = ? AND "+
			"target = ? AND is_primary = 1"), "run-001", target).Scan(&b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if b := baseline("vm"); b != "host" {
		t.Errorf("version %d: the baseline of an environment is %q", version, b)
	}
	if b := baseline("vm:virtiofs"); (b == "") != (version == 1) {
		t.Errorf("version %d: the mount's baseline is %q", version, b)
	}
	if runs, err := s.Runs(t.Context(), 0); err != nil || len(runs) != 1 || runs[0].Cells != 2 {
		t.Errorf("version %d: %+v %v", version, runs, err)
	}
	if c, err := s.Add(t.Context(), entry(1, 2.07)); err != nil || c != Replaced || baseline("vm:virtiofs") != "host" {
		t.Errorf("version %d: recorded again after the upgrade: %q, %v", version, c, err)
	}
}

// migration upgrades tables of each older version while others write.
func migration(t *testing.T, p *pgtest.Server) {
	for version := 1; version < Schema; version++ {
		name := fmt.Sprintf("v%d", version)
		p.Exec("postgres", "CREATE DATABASE "+name)
		raw := &Store{db: p.DB(name), postgres: true}
		old(t, raw, version)
		if _, err := Open(t.Context(), p.Address(name)); !errors.Is(err, ErrOlder) ||
			!strings.Contains(err.Error(), "tare history migrate") {
			t.Errorf("version %d: %v", version, err)
		}
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				s, err := OpenWith(t.Context(), p.Address(name), Options{Patience: long, Upgrade: true})
				if err != nil {
					t.Errorf("version %d: %v", version, err)
					return
				}
				s.Close()
			})
		}
		wait.Wait()
		upgraded(t, open(t, p.Address(name)), version)
	}
	// What cannot be upgraded stays as it was.
	p.Exec("postgres", "CREATE DATABASE half")
	raw := &Store{db: p.DB("half"), postgres: true}
	old(t, raw, 2)
	p.Exec("half", "CREATE TABLE tare_facts (theirs TEXT)")
	if _, err := OpenWith(t.Context(), p.Address("half"), Options{Upgrade: true}); err == nil ||
		!strings.Contains(err.Error(), "from version 2 to 3") || !strings.Contains(err.Error(), "tare_facts") {
		t.Errorf("an upgrade that fails: %v", err)
	}
	if v, err := raw.version(t.Context(), raw.db); err != nil || v != 2 {
		t.Errorf("an upgrade that fails leaves version %d: %v", v, err)
	}
	if _, err := raw.db.Exec("SELECT plan FROM tare_runs"); err == nil {
		t.Error("an upgrade that fails leaves a part of it")
	}
}

func TestUpgradesFiles(t *testing.T) {
	for version := 1; version < Schema; version++ {
		path := filepath.Join(t.TempDir(), "h.db")
		raw := &Store{}
		if err := raw.connect(path); err != nil {
			t.Fatal(err)
		}
		old(t, raw, version)
		raw.Close()
		upgraded(t, open(t, path), version)
	}
}

// TestManyWriters has 200 writers make the tables and record their runs at once, twice each, on a server that has
// connections for fewer, while somebody ends some of those.
func TestManyWriters(t *testing.T) {
	const writers = 200
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t, "max_connections=60")
	over := make(chan struct{})
	var others, wait sync.WaitGroup
	others.Go(func() {
		db := p.DB("postgres")
		db.SetMaxOpenConns(1)
		for n := 0; n < 20; n++ {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			// Any error means that it was refused as well.
			db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'tare' AND state <> 'idle' ORDER BY random() LIMIT 2`)
		}
	})
	waited := make(chan string, writers)
	for k := range writers {
		wait.Go(func() {
			s, err := OpenWith(t.Context(), p.Address("postgres"), Options{Patience: long,
				Waiting: func(why string) { waited <- why }})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for range 2 {
				if _, err := s.Add(t.Context(), hostEntry(k, 50_000)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	close(over)
	others.Wait()
	close(waited)
	refused := 0
	for why := range waited {
		if strings.Contains(why, "53300") {
			refused++
		}
	}
	db := p.DB("postgres")
	whole(t, db, writers)
	var deadlocks int
	err := db.QueryRow("SELECT SUM(deadlocks) FROM pg_stat_database").Scan(&deadlocks)
	if err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks: %v", deadlocks, err)
	}
	t.Logf("%d of %d writers were refused for want of connections at first", refused, writers)
	s := open(t, p.Address("postgres"))
	if c, err := s.Add(t.Context(), hostEntry(7, 50_000)); err != nil || c != Unchanged {
		t.Errorf("once more: %q, %v", c, err)
	}
}

// TestServerDiesInMidWrite kills the server while writers record large bundles, and starts it again.
func TestServerDiesInMidWrite(t *testing.T) {
	const writers, each = 8, 6
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t)
	open(t, p.Address("postgres")).Close()
	var wait sync.WaitGroup
	recorded := make(chan int, writers*each)
	for w := range writers {
		wait.Go(func() {
			s, err := OpenWith(t.Context(), p.Address("postgres"), Options{Patience: long})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			for k := range each {
				if _, err := s.Add(t.Context(), hostEntry(w*each+k, 2<<20)); err != nil {
					t.Error(err)
				}
				recorded <- 1
			}
		})
	}
	for range 2 {
		for range writers {
			<-recorded
		}
		p.Kill()
		p.Begin()
	}
	wait.Wait()
	whole(t, p.DB("postgres"), writers*each)
}

// TestWriterKilledInMidWrite kills a process that records runs: each run is there whole or not at all, and recording
// all again leaves each there once.
func TestWriterKilledInMidWrite(t *testing.T) {
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t)
	db := p.DB("postgres")
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	most, recorded := 0, 0
	for range 4 {
		cmd := proc.Command(t.Context(), own)
		cmd.Env = append(os.Environ(), childEnv+"="+p.Address("postgres"))
		child, err := proc.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		for lines := 1 + rand.IntN(6); lines > 0; lines-- {
			var k int
			if _, err := fmt.Fscanln(child, &k); err != nil {
				t.Fatalf("%v: %s", err, child.Stderr())
			}
			most = max(most, k)
		}
		time.Sleep(rand.N(30 * time.Millisecond))
		child.Kill()
		<-child.Done()
		child.Close()
		// What it had sent may still be carried out.
		n := 1
		for end := time.Now().Add(long); n > 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if err := db.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = 'tare'").Scan(
				&n); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.QueryRow("SELECT COUNT(*) FROM tare_runs").Scan(&n); err != nil || n < most+1 {
			t.Errorf("%d runs are recorded after the writer said so of %d: %v", n, most+1, err)
		}
		whole(t, db, n)
		recorded = max(recorded, n)
	}
	s := open(t, p.Address("postgres"))
	// The writer may have recorded more than it was heard to say.
	all := max(recorded, most+3)
	for k := range all {
		if _, err := s.Add(t.Context(), hostEntry(k, 1<<20)); err != nil {
			t.Error(err)
		}
	}
	whole(t, db, all)
}
