package capture

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/dbserver"
)

// Files of this machine with the names of a far server's are not taken for them, also if a tunnel leads there.
func TestElsewhere(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("the test needs root")
		}
		t.Skip("the test needs root")
	}
	t.Run("mariadb", func(t *testing.T) {
		b := newBench(t, dbserver.MariaDB)
		file := filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "own.log")
		b.do("SET GLOBAL general_log_file = "+quote(file), "SET GLOBAL general_log = ON")
		defer b.do("SET GLOBAL general_log = OFF")
		cmd, lines := b.process(b.options(), file)
		said, _ := io.ReadAll(lines)
		if cmd.Wait() == nil || !strings.Contains(string(said), "and this is elsewhere; run tare on the server's") {
			t.Errorf("it said %q", said)
		}
	})
	b := newBench(t, dbserver.PostgreSQL)
	defer b.do("SELECT pg_reload_conf()")
	defer b.do("ALTER SYSTEM RESET ALL")
	for _, setting := range []string{"log_destination = 'csvlog'", "log_filename = 'own.log'",
		"log_min_duration_statement = 0", "log_connections = on", "log_disconnections = on"} {
		b.do("ALTER SYSTEM SET " + setting)
	}
	b.do("SELECT pg_reload_conf()")
	c := b.session()
	defer c.close()
	err := until(t.Context(), serverTimeout, func() (bool, error) {
		file, err := c.value(t.Context(), "SELECT pg_current_logfile('csvlog')")
		return file == "log/own.csv", err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "log")
	for _, along := range []bool{true, false} {
		o := b.options()
		o.Force = true
		cmd, lines := b.process(o, filepath.Join(dir, "own.csv"))
		if line, err := lines.ReadString('\n'); line != "began\n" {
			t.Fatal(line, err)
		}
		b.work("w", 3)
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		found, _ := b.read(o)
		b.whole(found)
		if len(found) != 3 {
			t.Errorf("%d sessions", len(found))
		}
		for _, ending := range []string{".csv", ".log"} {
			if named := strings.Contains(string(said), ending+" cannot be removed from here"); named == along {
				t.Errorf("it said %q", said)
			}
		}
		b.do("ALTER SYSTEM RESET log_min_duration_statement")
		b.do("SELECT pg_reload_conf()")
	}
}

// A log that somebody else turns into a file of their own meanwhile stays on.
func TestTheirs(t *testing.T) {
	b := newBench(t, dbserver.MariaDB)
	before := b.state()
	file := filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "theirs.log")
	c := b.session()
	defer c.close()
	was, err := c.value(t.Context(), "SELECT @@GLOBAL.general_log_file")
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.captured(b.options(), func() bool {
		b.do("SET GLOBAL general_log_file = " + quote(file))
		return true
	})
	if err != nil || len(r.Left) != 2 {
		t.Error(r, err)
	}
	if on, err := c.value(t.Context(), "SELECT @@GLOBAL.general_log"); err != nil || on != "1" {
		t.Errorf("their log is %s, %v", on, err)
	}
	b.do("SET GLOBAL general_log = OFF", "SET GLOBAL general_log_file = "+quote(was))
	b.same(before)
}

// What ALTER SYSTEM had set before is set again.
func TestEntries(t *testing.T) {
	b := newBench(t, dbserver.PostgreSQL)
	b.do("ALTER SYSTEM SET work_mem = '5MB'")
	b.do("ALTER SYSTEM SET log_min_duration_statement = '5s'")
	b.do("SELECT pg_reload_conf()")
	before := b.state()
	if r, err := b.captured(b.options(), func() bool { return true }); err != nil {
		t.Error(r, err)
	}
	b.same(before)
	// What somebody else sets meanwhile stays.
	o := b.options()
	o.Force = true
	r, err := b.captured(o, func() bool {
		b.do("ALTER SYSTEM SET log_min_duration_statement = '7s'")
		return true
	})
	if err != nil || len(r.Left) != 1 || !strings.HasPrefix(r.Left[0], "log_min_duration_statement ") {
		t.Error(r, err)
	}
	b.do("ALTER SYSTEM RESET ALL")
	b.do("SELECT pg_reload_conf()")
}

func TestRefused(t *testing.T) {
	type refusal struct {
		name, says string
		with       func(*Options)
		before     []string
		after      []string
	}
	common := func(b *bench) []refusal {
		exists := filepath.Join(b.dir, "exists")
		if err := os.WriteFile(exists, nil, 0o600); err != nil {
			b.Fatal(err)
		}
		return []refusal{
			{name: "output exists", says: "--force", with: func(o *Options) { o.Out = exists }},
			{name: "output is a folder", says: "regular", with: func(o *Options) { o.Out, o.Force = b.dir, true }},
			{name: "no such folder", says: "no such file", with: func(o *Options) { o.Out = b.dir + "/no/x" }},
			{name: "too little room", says: "--limit", with: func(o *Options) { o.Limit = 1 << 60 }},
			{name: "no server", says: "connect", with: func(o *Options) { o.Address += "x" }},
			{name: "no password", says: "read the password", with: func(o *Options) {
				o.Secret = Secret{PasswordFile, exists + "x"}
			}},
		}
	}
	each(t, func(t *testing.T, b *bench) {
		all := common(b)
		wrong := func(o *Options) {
			o.User, o.Secret = "nobody", Secret{Variable, "PASSWORD"}
			o.Getenv = func(string) string { return "wrong" }
		}
		user := func(o *Options) { o.User = "plain" }
		if b.target.Product == dbserver.PostgreSQL {
			all = append(all,
				refusal{name: "wrong user", says: `user "nobody" (the password is that of the variable PASSWORD)`,
					with: wrong},
				refusal{name: "no privilege", says: "not a superuser", with: user,
					before: []string{"CREATE USER plain"}, after: []string{"DROP USER plain"}})
		} else {
			privilege := "SUPER"
			if b.target.Product == dbserver.MySQL {
				privilege = "SYSTEM_VARIABLES_ADMIN"
			}
			all = append(all,
				refusal{name: "wrong password", says: "1045", with: wrong,
					before: []string{"CREATE USER nobody IDENTIFIED BY 'x'"}, after: []string{"DROP USER nobody"}},
				refusal{name: "no privilege", says: `user "plain" lacks the privilege ` + privilege, with: user,
					before: []string{"CREATE USER plain"}, after: []string{"DROP USER plain"}},
				refusal{name: "own slow log", says: "general log", with: func(o *Options) { o.Slow = true },
					before: []string{"SET GLOBAL slow_query_log = ON"},
					after:  []string{"SET GLOBAL slow_query_log = OFF"}},
				refusal{name: "log in a table", says: "log_output is TABLE",
					before: []string{"SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = ON"},
					after:  []string{"SET GLOBAL general_log = OFF", "SET GLOBAL log_output = 'FILE'"}},
				refusal{name: "other log in a table", says: "slow_query_log is on",
					before: []string{"SET GLOBAL log_output = 'TABLE'", "SET GLOBAL slow_query_log = ON"},
					after:  []string{"SET GLOBAL slow_query_log = OFF", "SET GLOBAL log_output = 'FILE'"}},
				refusal{name: "another machine", says: "on the server's machine only", with: func(o *Options) {
					o.Address = "192.0.2.1:3306"
				}},
				refusal{name: "other product", says: "the server is not", with: func(o *Options) {
					o.Product = map[dbserver.Product]dbserver.Product{dbserver.MariaDB: dbserver.MySQL,
						dbserver.MySQL: dbserver.MariaDB}[o.Product]
				}})
		}
		for _, c := range all {
			b.do(c.before...)
			before := b.state()
			o := b.options()
			if c.with != nil {
				c.with(&o)
			}
			if _, err := Prepare(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			b.same(before)
			b.do(c.after...)
		}
	})
}

func TestNoCollector(t *testing.T) {
	b := ownBench(t, dbserver.PostgreSQL)
	b.stop()
	o := options(dbserver.PostgreSQL, filepath.Base(filepath.Dir(filepath.Dir(b.target.Address))))
	o.Settings = nil
	s, err := dbserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	if _, err := Prepare(t.Context(), b.options()); err == nil || !strings.Contains(err.Error(), "logging_collector") {
		t.Error(err)
	}
}

// A log that cannot be read here costs nothing.
func TestUnreadable(t *testing.T) {
	b := newBench(t, dbserver.MariaDB)
	before := b.state()
	c, err := Prepare(t.Context(), b.options())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Plan.File = filepath.Join(b.dir, "elsewhere") // as on another machine
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "on the server's machine") {
		t.Error(err)
	}
	if err := reachable(&Plan{File: filepath.Join(b.dir, "no/x")}); err == nil {
		t.Error("a folder that is not there can be read")
	}
	b.same(before)
}
