package dbserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/record"
	"tare/internal/sys/sql/mysql"
)

// options returns the options for a small server in a directory of the test. If the product is not installed, the test
// is skipped; with TARE_REQUIRE, as in CI, it fails.
func options(t *testing.T, p Product) Options {
	t.Helper()
	o := Options{Product: p, Dir: filepath.Join(t.TempDir(), "server"),
		Settings: []string{"innodb_buffer_pool_size=32M", "performance_schema=OFF"}}
	if p == MySQL {
		o.Root = os.Getenv("TARE_MYSQL_ROOT")
	}
	if _, err := findMySQL(t.Context(), o); err != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	return o
}

func each(t *testing.T, test func(*testing.T, Options)) {
	for _, p := range []Product{MariaDB, MySQL} {
		t.Run(string(p), func(t *testing.T) { test(t, options(t, p)) })
	}
}

func started(t *testing.T, o Options) Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		if f, ok := errors.AsType[*record.Failure](err); ok {
			t.Log(f.Evidence)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s
}

// ask runs statements and returns the first value of the last row.
func ask(t *testing.T, s Server, statements ...string) (value string) {
	t.Helper()
	e := s.Endpoint()
	c, err := mysql.Dial(t.Context(), mysql.Config{Network: e.Network, Address: e.Address, User: e.User,
		Password: e.Password, Database: e.Database})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Quit()
	for _, q := range statements {
		err := c.Query([]byte(q), &mysql.Result{Row: func(v [][]byte) error {
			value = string(v[0])
			return nil
		}})
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return value
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// waitForEnd waits for the end of a process.
func waitForEnd(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); running(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d still runs", pid)
		}
	}
}

func TestServer(t *testing.T) {
	// Without --no-defaults, clients and servers read these files.
	home := t.TempDir()
	for _, name := range []string{".my.cnf", "my.cnf"} {
		text := []byte("[mysqld]\nnonsense\n[client]\nuser=x\n")
		if err := os.WriteFile(filepath.Join(home, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("MYSQL_HOME", home)
	each(t, func(t *testing.T, o Options) {
		s := started(t, o)
		if v := s.Version(); v == "" || strings.Contains(v, "MariaDB") != (o.Product == MariaDB) {
			t.Errorf("version %q", v)
		}
		if o.Product == MariaDB {
			ask(t, s, "CREATE DATABASE own", "CREATE PROCEDURE own.nothing() BEGIN END")
			if log := s.Log(); strings.Contains(log, "moved table") {
				t.Errorf("the tables are taken for those of another server: %s", log)
			}
		}
		if os.Geteuid() == 0 {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
			if err != nil || strings.Contains(string(status), "\nUid:\t0\t") || s.Account() == "root" {
				t.Errorf("it runs as %s: %v", s.Account(), err)
			}
		}
		if got := ask(t, s, "SELECT @@skip_networking"); got != "1" {
			t.Errorf("skip_networking is %s", got)
		}
		st, err := os.Stat(filepath.Dir(s.Endpoint().Address))
		if err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("the socket's folder: %v, %v", st.Mode(), err)
		}
		ask(t, s, "CREATE DATABASE kept", "CREATE TABLE kept.a (v INT)", "INSERT INTO kept.a VALUES (42)")
		pid := s.Pid()
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		waitForEnd(t, pid)
		if left, err := filepath.Glob(filepath.Join(o.Dir, "*")); err != nil || len(left) != 1 {
			t.Errorf("these files are left: %v, %v", left, err)
		}
		// The data can be used again, even if it belongs to another user.
		if os.Geteuid() == 0 {
			err := filepath.Walk(filepath.Join(o.Dir, "data"), func(path string, _ os.FileInfo, err error) error {
				return errors.Join(err, os.Lchown(path, 0, 0))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for try := 0; ; try++ {
			o.Port = freePort(t)
			again, err := Start(t.Context(), o)
			// Another may have taken the port before the server did.
			if f, ok := errors.AsType[*record.Failure](err); ok && try < 5 &&
				strings.Contains(f.Evidence, "ddress already in use") {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { again.Stop(context.Background()) })
			s = again
			break
		}
		if got := ask(t, s, "SELECT v FROM kept.a"); got != "42" {
			t.Errorf("the data contains %s", got)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
		if err != nil {
			t.Fatalf("connect to its port: %v", err)
		}
		c.Close()
	})
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestDoesNotStart checks that the error contains the reason from the log, and the log as evidence.
func TestDoesNotStart(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		s := started(t, o)
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(*Options)
			want   string
		}{
			"unknown setting": {func(o *Options) { o.Settings = append(o.Settings, "no_such=1") }, "no_such"},
			"port in use":     {func(o *Options) { o.Port = busyPort(t) }, "ddress already in use"},
		} {
			bad := o
			c.change(&bad)
			refused(t, bad, name, c.want)
		}
		broken := filepath.Join(o.Dir, "data", "ibdata1")
		if err := os.Truncate(broken, 100); err != nil {
			t.Fatal(err)
		}
		refused(t, o, "broken data", "ERROR")
		if left, err := filepath.Glob(filepath.Join(o.Dir, "*")); err != nil || len(left) != 1 {
			t.Errorf("these files are left: %v, %v", left, err)
		}
	})
}

// TestWhy holds that the reason is the server's, and not its answer to whoever asks whether it has started.
func TestWhy(t *testing.T) {
	for _, c := range [][2]string{
		{"FATAL:  the database system is starting up\nPANIC:  could not write\nFATAL:  later\n", "PANIC:  could not"},
		{"FATAL:  the database system is shutting down\nFATAL:  no space\n", "FATAL:  no space"},
	} {
		log, want := c[0], c[1]
		if got := why([]byte(log)); !strings.Contains(got, want) || strings.Contains(got, "the database system") {
			t.Errorf("%q: %q", log, got)
		}
	}
}

// TestPortThatIsTakenMeanwhile has somebody else listen at the port that was found free.
func TestPortThatIsTakenMeanwhile(t *testing.T) {
	test := func(t *testing.T, o Options) {
		find, busy, tries := findPort, busyPort(t), 0
		defer func() { findPort = find }()
		findPort = func() (int, error) {
			if tries++; tries < 2 {
				return busy, nil
			}
			return find()
		}
		o.Open = true
		s := started(t, o)
		if tries < 2 || s.Endpoint().Port == busy {
			t.Errorf("port %d after %d tries", s.Endpoint().Port, tries)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Endpoint().Port)))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if o.Product == PostgreSQL {
			return // its many starts take long
		}
		findPort = func() (int, error) { return busy, nil }
		if err := s.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err = Start(t.Context(), o)
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "setup" || !taken(f.Evidence) {
			t.Errorf("no port is free: %+v", err)
		}
	}
	each(t, test)
	t.Run(string(PostgreSQL), func(t *testing.T) {
		if _, err := findPostgres(""); err != nil && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
		test(t, Options{Product: PostgreSQL, Dir: filepath.Join(t.TempDir(), "server")})
	})
}

func busyPort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func refused(t *testing.T, o Options, name, want string) {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err == nil {
		s.Stop(t.Context())
		t.Fatalf("%s: the server has started", name)
	}
	f, ok := err.(*record.Failure)
	if !ok || f.Kind != "setup" || !strings.Contains(f.Message, "the server ended during its start") ||
		!strings.Contains(f.Evidence, want) {
		t.Errorf("%s: %v\n%+v", name, err, f)
	}
}

func TestRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"relative folder": {Options{Product: MariaDB, Dir: "x"}, "absolute"},
		"no product":      {Options{Dir: "/x"}, "unknown product"},
		"no setting":      {Options{Product: MariaDB, Dir: "/x", Settings: []string{"--help"}}, "not a setting"},
		"no program":      {Options{Product: MySQL, Dir: "/x", Programs: t.TempDir()}, "not installed"},
		"no root":         {Options{Product: MySQL, Dir: "/x", Root: t.TempDir()}, "not the root"},
		"MariaDB's root":  {Options{Product: MariaDB, Dir: "/x", Root: t.TempDir()}, "mysql only"},
	} {
		if s, err := Start(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// The server works in a directory that only root can enter, with a long path.
func TestClosedDirectoryWithLongPath(t *testing.T) {
	o := options(t, MariaDB)
	closed := filepath.Join(filepath.Dir(o.Dir), strings.Repeat("long", 30))
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	o.Dir = filepath.Join(closed, "with blank")
	s := started(t, o)
	if got := ask(t, s, "SELECT 6 * 7"); got != "42" {
		t.Errorf("got %s", got)
	}
	socket := filepath.Dir(s.Endpoint().Address)
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists", socket)
	}
}

// A server on a copied data directory ignores the passwords in it, also when it is started again, and does not
// replicate from the server that the other one replicates from.
func TestCopied(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		s := started(t, o)
		source, start := "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'", "START SLAVE"
		if o.Product == MySQL {
			source = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1, SOURCE_USER='x'"
			start = "START REPLICA"
		}
		const threads = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'system user'"
		if n := ask(t, s, source, start, threads); n == "0" {
			t.Error("it does not replicate, so that this test shows nothing")
		}
		ask(t, s, "CREATE DATABASE shop", "CREATE TABLE shop.a SELECT 42 AS b",
			"ALTER USER root@localhost IDENTIFIED BY 'x'")
		o.Copied = true
		for range 2 {
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = started(t, o)
			if got := ask(t, s, "SELECT b FROM shop.a"); got != "42" {
				t.Errorf("got %s", got)
			}
			if n := ask(t, s, threads); n != "0" {
				t.Errorf("%s threads replicate", n)
			}
		}
	})
}

// A start that is cancelled while it creates the data directory leaves no files.
func TestCancelledStart(t *testing.T) {
	o := options(t, MariaDB)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if found, _ := filepath.Glob(filepath.Join(o.Dir, "data*")); len(found) > 0 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if s, err := Start(ctx, o); err == nil {
		s.Stop(t.Context())
		t.Fatal("it started in spite of the cancellation")
	}
	if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(left) > 0 {
		t.Errorf("these files are left: %v", left)
	}
}

const ownerVar = "TARE_TEST_OWNER_OF"

// TestEndsWithItsOwner kills the process that started a server.
func TestEndsWithItsOwner(t *testing.T) {
	if dir := os.Getenv(ownerVar); dir != "" {
		s, err := Start(t.Context(), Options{Product: MariaDB, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(s.Pid())
		select {}
	}
	o := options(t, MariaDB)
	owner := exec.Command(os.Args[0], "-test.run=^TestEndsWithItsOwner$")
	owner.Env = append(os.Environ(), ownerVar+"="+o.Dir)
	owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := owner.StdoutPipe()
	if err == nil {
		err = owner.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, e := strconv.Atoi(strings.TrimSpace(line))
	owner.Process.Kill()
	owner.Wait()
	if err != nil || e != nil {
		t.Fatalf("%q: %v, %v", line, err, e)
	}
	waitForEnd(t, pid)
	// The next server starts in the same directory.
	s := started(t, o)
	if got := ask(t, s, "SELECT 6 * 7"); got != "42" {
		t.Errorf("got %s", got)
	}
}
