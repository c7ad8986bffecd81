package cli_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/record"
	"tare/internal/sys/sql/mysql"
)

// A capture from the command line: what it would do, one that is stopped by Ctrl-C, and one that is killed.
func TestSQLCapture(t *testing.T) {
	l := newLab(t)
	l.env = append(l.env, "XDG_CACHE_HOME="+filepath.Join(l.dir, "cache"))
	s, err := dbserver.Start(t.Context(), dbserver.Options{Product: dbserver.MariaDB,
		Dir: filepath.Join(l.dir, "server"), Settings: []string{"innodb_buffer_pool_size=32M"}})
	if f, ok := errors.AsType[*record.Failure](err); ok && f.Kind == "refused" {
		missing(t, f.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	ask := func(text string) (last string) {
		t.Helper()
		e := s.Endpoint()
		c, err := mysql.Dial(t.Context(), mysql.Config{Network: e.Network, Address: e.Address, User: e.User})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Quit()
		err = c.Query([]byte(text), &mysql.Result{Row: func(v [][]byte) error {
			last = string(v[0])
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	const state = "SELECT CONCAT_WS(' ', @@general_log, @@general_log_file, @@log_output)"
	before := ask(state)
	same := func() {
		t.Helper()
		if now := ask(state); now != before {
			t.Errorf("%s was %s", now, before)
		}
	}
	args := []string{"sql", "capture", "--server", "mariadb", "--address", s.Endpoint().Address, "--user",
		s.Endpoint().User, "--for", "1h", "--limit", "64MiB"}
	o := l.do(append(args, "--dry-run")...)
	for _, want := range []string{"version 10.", `general_log from "OFF" to "ON"`, "64.0 MiB, not met", "tare-"} {
		if o.code != 0 || !strings.Contains(o.out, want) {
			t.Errorf("exit code %d, and %q is not in\n%s%s", o.code, want, o.out, o.err)
		}
	}
	same()
	begin := func(more ...string) *process {
		p := l.start(append(args, more...)...)
		p.until("a log that is on", func() bool { return strings.Contains(p.out.String(), "the log is on") })
		return p
	}
	p := begin("-o", "a.log.gz")
	ask("SELECT 41")
	p.cmd.Process.Signal(syscall.SIGINT)
	if o := p.end(); o.code != 0 || !strings.Contains(o.out, "a.log.gz") || !strings.Contains(o.err, "restored") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.err)
	}
	same()
	if o := l.do("sql", "inspect", "a.log.gz"); o.code != 0 || !strings.Contains(o.out, "select ?") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.err)
	}
	if o := l.do(append(args, "-o", "a.log.gz")...); o.code != 1 || !strings.Contains(o.err, "--force") {
		t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.err)
	}
	p = begin("-o", "b.log")
	p.cmd.Process.Kill()
	p.end()
	if ask(state) == before {
		t.Error("nothing was changed")
	}
	for _, args := range [][]string{{"clean", "-n"}, {"clean"}} {
		want := "capture of mariadb at " + s.Endpoint().Address + ": general_log_file, general_log"
		if o := l.do(args...); o.code != 0 || !strings.Contains(o.out, want) {
			t.Errorf("exit code %d:\n%s%s", o.code, o.out, o.err)
		}
	}
	same()
	if left, _ := filepath.Glob(filepath.Join(l.dir, "b.log*")); len(left) > 0 {
		t.Errorf("there are %q", left)
	}
	if notes, err := os.ReadDir(filepath.Join(l.dir, "cache", "tare", "captures")); err != nil || len(notes) > 0 {
		t.Errorf("there are %v, %v", notes, err)
	}
}
