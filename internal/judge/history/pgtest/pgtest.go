// Package pgtest starts real PostgreSQL servers for tests: Debian's, on a socket in a folder of their own.
package pgtest

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"tare/internal/sys/proc"
)

// Password is that of all roles.
const Password = "s3cret"

// patience bounds what must come at some time, however busy the machine is.
const patience = 3 * time.Minute

// Server is a PostgreSQL server that ends with its test. Its superuser is called tare.
type Server struct {
	t        testing.TB
	dir, bin string
	settings []string
	running  *proc.Stream
}

// Start starts a server that asks for passwords; settings are as max_connections=40. Without PostgreSQL the test is
// skipped, and fails where everything must be there.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("a server is started")
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		missing(t, "PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "tare-pg-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, bin: filepath.Dir(found[len(found)-1]), settings: settings}
	word := filepath.Join(dir, "word")
	if err := os.WriteFile(word, []byte(Password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Own(dir)
	if _, err := proc.RunCmd(s.command("initdb", "-D", s.data(), "-A", "scram-sha-256", "--pwfile", word, "-N", "-U",
		"tare", "--no-locale", "--encoding=UTF8"), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	s.Begin()
	return s
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// command prepares one of PostgreSQL's programs, which do not run as root.
func (s *Server) command(name string, args ...string) *proc.Cmd {
	argv := append([]string{filepath.Join(s.bin, name)}, args...)
	if os.Geteuid() == 0 {
		// It becomes the program, so that signals reach that.
		argv = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL",
			"--"}, argv...)
	}
	cmd := proc.Command(context.Background(), argv...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/"}
	return cmd
}

// Own gives a folder to the user that the server runs as.
func (s *Server) Own(path string) {
	s.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if _, err := proc.Run(s.t.Context(), nil, "chown", "postgres", path); err != nil {
		missing(s.t, "there is no user postgres to run the server as: "+err.Error())
	}
}

// Begin starts the server that was killed or stopped, and waits until it answers.
func (s *Server) Begin() {
	s.t.Helper()
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "fsync=off"}
	for _, set := range s.settings {
		args = append(args, "-c", set)
	}
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if s.running == nil {
			var err error
			if s.running, err = proc.Start(s.command("postgres", args...)); err != nil {
				s.t.Fatal(err)
			}
		}
		c, err := pgx.Connect(s.t.Context(), s.secret("postgres"))
		if err == nil {
			c.Close(context.Background())
			return
		}
		said := s.running.Stderr()
		select {
		case <-s.running.Done(): // one that was killed has not let go of its memory yet
			s.running.Close()
			s.running = nil
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("the server does not answer: %v; it says:\n%s", err, said)
		}
	}
}

// Kill ends the server as a crash does.
func (s *Server) Kill() {
	if s.running != nil {
		s.running.Kill()
		<-s.running.Done()
		s.running.Close()
		s.running = nil
	}
}

// end ends the server at once. Unlike one that is killed, it removes its shared memory, which would outlast the test.
func (s *Server) end() {
	if s.running != nil {
		s.running.Signal(syscall.SIGQUIT)
		select {
		case <-s.running.Done():
		case <-time.After(patience):
		}
	}
	s.Kill()
}

// Stop ends the server in order, without waiting for those who are connected.
func (s *Server) Stop() {
	s.t.Helper()
	s.running.Signal(os.Interrupt)
	select {
	case <-s.running.Done():
	case <-time.After(patience):
		s.t.Errorf("the server does not stop; it says:\n%s", s.running.Stderr())
	}
	s.Kill()
}

// Address is that of a database, for its superuser; the password is not in it.
func (s *Server) Address(database string) string { return s.AddressFor("tare", database) }

// AddressFor is the address for another role.
func (s *Server) AddressFor(role, database string) string {
	return "postgres:///" + database + "?user=" + role + "&host=" + url.QueryEscape(s.dir)
}

func (s *Server) secret(database string) string { return s.Address(database) + "&password=" + Password }

// DB is a connection of the superuser's to a database, closed with the test.
func (s *Server) DB(database string) *sql.DB {
	s.t.Helper()
	c, err := pgx.ParseConfig(s.secret(database))
	if err != nil {
		s.t.Fatal(err)
	}
	db := stdlib.OpenDB(*c)
	s.t.Cleanup(func() { db.Close() })
	return db
}

// Exec carries statements out as the superuser, in a database.
func (s *Server) Exec(database string, statements ...string) {
	s.t.Helper()
	db := s.DB(database)
	defer db.Close()
	for _, text := range statements {
		if _, err := db.ExecContext(s.t.Context(), text); err != nil {
			s.t.Fatalf("%s: %v", text, err)
		}
	}
}
