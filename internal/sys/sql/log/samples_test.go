package log

import (
	"bufio"
	"compress/bzip2"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sampleLogs names the folder of logs that the tests of other programs read; scripts/deps.sh sql-logs prints one.
const sampleLogs = "TARE_SQL_LOGS"

func samplesDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(sampleLogs)
	if dir == "" {
		const say = "no logs of database servers: scripts/deps.sh sql-logs prints the folder of some, to be named " +
			"with " + sampleLogs + "=DIR"
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(say)
		}
		t.Skip(say)
	}
	return dir
}

// unpacked is a sample's text.
func unpacked(t *testing.T, path string) io.Reader {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	src, _, err := Decompress(f, func(r io.Reader) io.Reader { return bzip2.NewReader(r) })
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// logCounts is what a log has of each operation, and how many sessions.
type logCounts struct {
	connects, quits, statements int
	sessions                    uint64
	ambiguous                   int
}

func countEvents(t *testing.T, path string) (*Reader, logCounts, int64) {
	t.Helper()
	size := &counter{r: unpacked(t, path)}
	r, err := Open(size, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var n logCounts
	var e Event
	for err = r.Next(&e); err == nil; err = r.Next(&e) {
		switch {
		case e.Op == Connect:
			n.connects++
		case e.Op == Quit:
			n.quits++
		case e.Op.Statement():
			n.statements++
		}
		n.sessions = max(n.sessions, e.Session)
		if e.Ambiguous == "" {
			r.Settle(Replayed, "")
		} else {
			n.ambiguous++
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	checkAccount(t, r, size.n)
	if a := r.Account(); a.Statements.Total != int64(n.statements) || a.Statements.Ambiguous != int64(n.ambiguous) ||
		a.Statements.Replayed != int64(n.statements-n.ambiguous) {
		t.Errorf("%d statements, and the account says %+v", n.statements, a)
	}
	return r, n, size.n
}

// counter counts what is read through it.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// The figures are those of grep: lines with "statement:" or "execute NAME:", "connection authorized", "disconnection:",
// and bytes.
func TestSamplesOfPgBadger(t *testing.T) {
	dir := filepath.Join(samplesDir(t), "pgbadger")
	for name, want := range map[string]struct {
		logCounts
		format Format
		prefix string
		bytes  int64
	}{
		"rds.log.bz2":     {logCounts{0, 0, 114594, 119, 0}, PgStderr, "%t:%r:%u@%d:[%p]:", 18494368},
		"pg-syslog.1.bz2": {logCounts{6, 6, 59871, 6, 0}, PgSyslog, "db=%d,user=%u,app=%a,client=%h ", 11564552},
		"pg-syslog.2.gz":  {logCounts{6, 6, 59871, 6, 0}, PgSyslog, "db=%d,user=%u,app=%a,client=%h ", 11564552},
		"cloudsql.log.gz": {logCounts{398, 397, 1, 400, 0}, PgStderr, "[%p]: [%l-1] db=%d,user=%u ", 868588},
		"queryid.log.gz": {logCounts{0, 0, 20, 5, 5}, PgStderr, "%m [%p] [queryid=%Q] %q%u@%d ",
			7727}, // tabs are gone
		"begin_end.log":    {logCounts{8, 8, 0, 8, 0}, PgStderr, "%t [%p]: %qdb=%d,user=%u,app=%a,client=%h ", 3834},
		"stmt_type.log":    {logCounts{0, 0, 12, 12, 0}, PgStderr, "%m [%p] ", 1423},
		"pg-timezones.log": {logCounts{0, 0, 2, 2, 0}, PgStderr, "%t:%h:%u@%d:[%p]:", 217},
		"anonymize.log":    {logCounts{0, 0, 5, 3, 0}, PgCSV, "", 5744},
		"weeknumber.log":   {logCounts{0, 0, 6, 1, 0}, PgCSV, "", 1920},
		"logplex.gz":       {logCounts{0, 0, 4, 4, 0}, PgSyslog, " sql_error_code = %e ", 9813},
		"light.postgres.log.bz2": {logCounts{0, 0, 629, 175, 0}, PgStderr,
			"%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ", 117771},
		"tempfile_only.log.gz": {logCounts{0, 0, 65, 7, 0}, PgStderr, "%t [%p]: [%l-1] user=%u,db=%d ", 47505},
	} {
		t.Run(name, func(t *testing.T) {
			r, got, size := countEvents(t, filepath.Join(dir, name))
			if f, _ := r.Format(); got != want.logCounts || size != want.bytes || f != want.format ||
				r.Prefix() != want.prefix {
				t.Errorf("%s with prefix %q, %+v in %d bytes; want %+v", f, r.Prefix(), got, size, want)
			}
			if a := r.Account(); a.Bytes.Lost > 0 {
				t.Errorf("something is lost: %+v", a)
			}
		})
	}
	if r, err := Open(unpacked(t, filepath.Join(dir, "pgbouncer.log.gz")), Options{}); err == nil {
		f, _ := r.Format()
		t.Errorf("the log of another program is taken for %s", f)
	}
}

// A statement of a slow log has a line with its time above it, and is no command.
func statementsOf(t *testing.T, path string) (n int) {
	t.Helper()
	lines := bufio.NewScanner(unpacked(t, path))
	lines.Buffer(nil, 8<<20)
	timed := false
	for lines.Scan() {
		switch l := lines.Text(); {
		case strings.HasPrefix(l, "# Query_time"):
			timed = true
		case strings.HasPrefix(l, "# administrator command"):
			timed = false
		case !strings.HasPrefix(l, "#") && timed:
			n++
			timed = false
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return n
}

func TestSamplesOfPerconaToolkit(t *testing.T) {
	dir := samplesDir(t)
	slow, err := filepath.Glob(filepath.Join(dir, "percona", "slowlogs", "*.*"))
	if err != nil || len(slow) < 70 {
		t.Fatalf("%d slow logs in %s: %v", len(slow), dir, err)
	}
	all := 0
	for _, path := range slow {
		if name := filepath.Base(path); strings.HasPrefix(name, "slow006-session") {
			continue // statements that a program took out of a log
		}
		r, got, _ := countEvents(t, path)
		want := statementsOf(t, path)
		switch filepath.Base(path) {
		case "slow009.txt":
			if got.statements != 2001 || got.sessions != 2000 {
				t.Errorf("%+v in slow009, want 2001 statements on 2000 connections", got)
			}
		case "slow039.txt.gz":
			if a := r.Account(); a.Bytes.Replayed < 1_200_000 {
				t.Errorf("the long statement of slow039 is not all here: %+v", a)
			}
		}
		if f, _ := r.Format(); got.statements != want || f != Slow {
			t.Errorf("%s: %d statements in a log taken for %s, want %d", filepath.Base(path), got.statements, f, want)
		}
		all += got.statements
	}
	if all != 2549 {
		t.Errorf("%d statements in all of them, want 2549", all)
	}
	for name, want := range map[string]logCounts{
		"genlog001.txt": {2, 2, 2, 2, 0}, "genlog002.txt": {0, 0, 2, 1, 0}, "genlog003.txt": {1, 1, 2, 2, 0},
		"genlog004.txt": {1, 0, 1, 3, 0}, "genlog005.txt": {2, 0, 11, 4, 0},
		"pt-1573-general-log-system.log": {1, 1, 3, 1, 0},
	} {
		r, got, _ := countEvents(t, filepath.Join(dir, "percona", "genlogs", name))
		if f, _ := r.Format(); f != General || got != want {
			t.Errorf("%s: %+v in a log taken for %s, want %+v", name, got, f, want)
		}
	}
}
