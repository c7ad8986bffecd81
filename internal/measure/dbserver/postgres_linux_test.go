package dbserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/record"
	"tare/internal/sys/sql/postgres"
)

// postgresStarted starts PostgreSQL. If it is not installed, the test is skipped; with TARE_REQUIRE it fails.
func postgresStarted(t *testing.T, o dbserver.Options) dbserver.Server {
	t.Helper()
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
	return s
}

// postgresAsked runs a statement as a user.
func postgresAsked(t *testing.T, s dbserver.Server, user, text string) (rows uint64) {
	t.Helper()
	e := s.Endpoint()
	c, err := postgres.Dial(t.Context(), postgres.Config{Network: e.Network, Address: e.Address, User: user,
		Database: e.Database})
	var r postgres.Result
	if err == nil {
		err = errors.Join(c.Query([]byte(text), &r), c.Close())
	}
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return r.Rows
}

// TestPostgresCopied: a server on a copied data directory needs no account of its own there, and ignores the
// configuration files, also when it is started again.
func TestPostgresCopied(t *testing.T) {
	o := dbserver.Options{Product: dbserver.PostgreSQL, Dir: filepath.Join(t.TempDir(), "server")}
	s := postgresStarted(t, o)
	user := s.Endpoint().User
	postgresAsked(t, s, user, "CREATE ROLE other SUPERUSER LOGIN; CREATE TABLE a AS SELECT 42")
	postgresAsked(t, s, "other", "ALTER ROLE "+user+" RENAME TO gone")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pg_hba.conf", "postgresql.conf", "postgresql.auto.conf", "standby.signal"} {
		if err := os.WriteFile(filepath.Join(o.Dir, "data", name), []byte("nonsense\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Copied = true
	for range 2 {
		s := postgresStarted(t, o)
		if n := postgresAsked(t, s, user, "SELECT * FROM a"); n != 1 {
			t.Errorf("%d rows", n)
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPostgresAfterAKill: the processes of a server that was killed keep its memory until they see that it is gone. The
// next server waits for them.
func TestPostgresAfterAKill(t *testing.T) {
	o := dbserver.Options{Product: dbserver.PostgreSQL, Dir: filepath.Join(t.TempDir(), "server")}
	s := postgresStarted(t, o)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.Pid()))
	children := strings.Fields(string(text))
	if err != nil || len(children) == 0 {
		t.Fatalf("the server's processes: %q, %v", text, err)
	}
	all := func(signal syscall.Signal) {
		for _, child := range children {
			if pid, err := strconv.Atoi(child); err == nil {
				_ = syscall.Kill(pid, signal) // it may have ended
			}
		}
	}
	all(syscall.SIGSTOP) // as on a machine that is busy with something else
	if err := syscall.Kill(s.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	goOn := time.AfterFunc(time.Second, func() { all(syscall.SIGCONT) })
	defer func() {
		if goOn.Stop() {
			all(syscall.SIGCONT)
		}
	}()
	again := postgresStarted(t, o)
	postgresAsked(t, again, again.Endpoint().User, "SELECT 1")
	if err := errors.Join(again.Stop(t.Context()), s.Stop(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestPostgres: a real PostgreSQL keeps its data from one start to the next, and its socket only while it runs.
func TestPostgres(t *testing.T) {
	o := dbserver.Options{Product: dbserver.PostgreSQL, Dir: filepath.Join(t.TempDir(), "server")}
	for _, text := range []string{"CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)"} {
		s := postgresStarted(t, o)
		e := s.Endpoint()
		postgresAsked(t, s, e.User, text)
		if err := s.Stop(t.Context()); err != nil || s.Version() == "" {
			t.Errorf("%s: version %q, %v", text, s.Version(), err)
		}
		if _, err := os.Stat(e.Address); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is left: %v", err)
		}
	}
	o.Programs = t.TempDir()
	_, err := dbserver.Start(t.Context(), o)
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
		t.Errorf("a directory without programs gives %v", err)
	}
}
