package sql_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/measure/workload/sql"
	"tare/internal/record"
)

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
		refused("database missing", "set database=NAME", nil,
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
			refused("wrong password", "it rejects the user", more, many)
		}
		r.makeReadOnly(t, true)
		defer r.makeReadOnly(t, false)
		maps.Copy(more, map[string]string{"lanes": "1", "writes": "yes", "disposable": "yes", "pace": "flat"})
		change := written(t, server, "shop", "UPDATE item SET stock = stock WHERE id = 1", []int64{0, 0})
		change["password-file"] = password(t, "secret")
		refused("read-only", "it has become read-only", more, change)
	})
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
