package sql_test

import (
	"compress/bzip2"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload/sql"
	"tare/internal/sys/proc"
)

// TestReplayOfPgbench replays what a PostgreSQL of Amazon's wrote of pgbench, on the tables that pgbench makes. First
// only what reads; then everything, after which the sums of the tables must agree, as after pgbench itself.
func TestReplayOfPgbench(t *testing.T) {
	if testing.Short() {
		t.Skip("16,254 transactions are done")
	}
	log := filepath.Join(os.Getenv("TARE_SQL_LOGS"), "pgbadger", "rds.log.bz2")
	if _, err := os.Stat(log); err != nil {
		const say = "TARE_SQL_LOGS names no folder of logs: %v"
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf(say, err)
		}
		t.Skipf(say, err)
	}
	const transactions = 16254
	r := &recorded{params: map[string]string{"server": string(dbserver.PostgreSQL), "log": log, "whole": "yes",
		"settings": "fsync=off; max_connections=50", "warm": "no"}}
	r.serving = sql.Start(t, r.resolved(t, nil))
	c := r.connect(t, "")
	for _, name := range []string{"pgbench", "gilles", "gtt_testdb", "lztest", "oratest", "test"} {
		c.Word(t, "CREATE DATABASE "+name) // those of the log
	}
	bin := filepath.Join(c.Word(t, "SELECT setting FROM pg_config WHERE name = 'BINDIR'"), "pgbench")
	user := c.Word(t, "SELECT current_user")
	if _, err := proc.Run(t.Context(), nil, bin, "-h", filepath.Dir(sql.Address(t, r.serving)), "-U", user, "-q", "-i",
		"-s", "1", "pgbench"); err != nil {
		t.Fatal(err)
	}

	b, err := r.replay(t, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v, errors %s", totals(b), b.State["errors"])
	reads := 0
	for _, g := range b.Groups {
		if g.Text == "select abalance from pgbench_accounts where aid = ?" {
			reads = int(g.Count)
		}
	}
	if reads != transactions {
		t.Errorf("%d balances were read of %d", reads, transactions)
	}

	// pgbench empties the history before its clients come. Sessions that are replayed side by side do not wait for each
	// other, so what came before is a log of its own.
	for _, log := range splitLog(t, log, regexp.MustCompile(`(?m)^.*@pgbench:\[14386\]:`)) {
		if b, err = r.replay(t, 1, map[string]string{"log": log, "writes": "yes"}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%v, errors %s", totals(b), b.State["errors"])
	}
	p := r.connect(t, "pgbench")
	if got := p.Word(t, "SELECT count(*) FROM pgbench_history"); got != strconv.Itoa(transactions) {
		t.Errorf("%s of %d transactions were done", got, transactions)
	}
	want := p.Word(t, "SELECT sum(delta) FROM pgbench_history")
	for _, column := range []string{"abalance FROM pgbench_accounts", "tbalance FROM pgbench_tellers",
		"bbalance FROM pgbench_branches"} {
		sum := p.Word(t, "SELECT sum("+column[:8]+")"+column[8:])
		if sum != want {
			t.Errorf("the sum of %s is %s, that of the history %s", column, sum, want)
		}
	}
	p.Quit(t)
	c.Quit(t)
}

// splitLog writes a compressed log as two, of which the second begins where a line matches.
func splitLog(t *testing.T, log string, at *regexp.Regexp) []string {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(bzip2.NewReader(f))
	if err != nil {
		t.Fatal(err)
	}
	where := at.FindIndex(text)
	if where == nil {
		t.Fatalf("no line of %s is like %s", log, at)
	}
	dir := t.TempDir()
	logs := []string{filepath.Join(dir, "before.log"), filepath.Join(dir, "after.log")}
	for i, part := range [][]byte{text[:where[0]], text[where[0]:]} {
		if err := os.WriteFile(logs[i], part, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return logs
}
