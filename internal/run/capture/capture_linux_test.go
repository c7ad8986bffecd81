package capture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tare/internal/measure/dbserver"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/log"
)

// statements are what a session of the working client asks; %s is its name.
var statements = []string{"SELECT '%s 0'", "SELECT '%s 1\n\t\t    9 Query\tSELECT 2\n# User@Host: x'",
	"SELECT /* ; */ '%s 2'"}

// work has sessions ask statements, some of them at the same time.
func (b *bench) work(prefix string, sessions int) {
	b.Helper()
	next := make(chan string)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for name := range next {
				c, err := dial(context.Background(), &b.target, os.Getenv)
				if err != nil {
					b.Error(err)
					continue
				}
				for _, text := range statements {
					if _, err := c.rows(context.Background(), text, name); err != nil {
						b.Error(err)
					}
				}
				if err := c.close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range sessions {
		next <- fmt.Sprintf("%s-%d", prefix, i)
	}
	close(next)
	all.Wait()
}

// captured runs a capture, calls do while the log is on, and then stops it, if do says so.
func (b *bench) captured(o Options, do func() (stop bool)) (*Result, error) {
	b.Helper()
	c, err := Prepare(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan struct{})
	c.o.Began = func() {
		go func() {
			defer close(done)
			if do() {
				cancel()
			}
		}()
	}
	r, err := c.Run(ctx)
	if r != nil && r.Why != "" {
		<-done
	}
	return r, err
}

// read returns the statements of an output by the names of their sessions, and the size of the log.
func (b *bench) read(o Options) (found map[string][]string, account log.Account) {
	b.Helper()
	f, err := os.Open(o.Out)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	text, kind, err := log.Decompress(f, nil)
	if err != nil || (kind == "gzip") != strings.HasSuffix(o.Out, ".gz") {
		b.Fatal(kind, err)
	}
	r, err := log.Open(text, log.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if got, _ := r.Format(); got != o.format(o.Slow) {
		b.Errorf("it is read as %s", got)
	}
	found = map[string][]string{}
	names := map[uint64]string{}
	for e := (log.Event{}); ; {
		err := r.Next(&e)
		if errors.Is(err, io.EOF) {
			return found, r.Account()
		}
		if err != nil {
			b.Fatal(err)
		}
		if !e.Op.Statement() {
			continue
		}
		r.Settle(log.Replayed, "")
		words := strings.Split(string(e.Text), "'")
		if len(words) < 2 {
			b.Errorf("%q is not the client's", e.Text)
			continue
		}
		name, _, _ := strings.Cut(words[1], " ")
		if is := names[e.Session]; is != "" && is != name {
			b.Errorf("session %d is %s and %s", e.Session, is, name)
		}
		names[e.Session] = name
		found[name] = append(found[name], string(e.Text))
	}
}

// whole fails unless each session is there with all that it asked.
func (b *bench) whole(found map[string][]string) {
	b.Helper()
	for name, texts := range found {
		for i, text := range statements {
			if want := fmt.Sprintf(text, name); i >= len(texts) || texts[i] != want || len(texts) != len(statements) {
				b.Errorf("%s asked %q", name, texts)
				break
			}
		}
	}
}

func TestCapture(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		kinds := []bool{false, true}
		if b.target.Product == dbserver.PostgreSQL {
			kinds = kinds[:1]
		}
		for _, slow := range kinds {
			before := b.state()
			o := b.options()
			if o.Slow = slow; slow {
				o.Out = filepath.Join(b.dir, "slow.log")
			}
			r, err := b.captured(o, func() bool {
				b.work("w", 30)
				return true
			})
			if err != nil || r.Abandoned != nil || len(r.Left) > 0 || r.Why != "it was stopped" {
				t.Fatal(r, err)
			}
			found, account := b.read(o)
			b.whole(found)
			if len(found) != 30 || account.Statements.Total != int64(30*len(statements)) ||
				account.Bytes.Total != r.Bytes {
				t.Errorf("%d sessions of %d, %d bytes: %+v", len(found), 30, r.Bytes, account)
			}
			b.same(before)
		}
	})
}

func TestSample(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		before := b.state()
		o := b.options()
		o.Share = 0.3
		r, err := b.captured(o, func() bool {
			b.work("w", 120)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		found, account := b.read(o)
		b.whole(found)
		// By the binomial distribution, fewer than 10 or more than 70 of 120 come once in 10^8.
		if n := int64(len(found)); n != r.Kept || r.Sessions != 120 || n < 10 || n > 70 {
			t.Errorf("%d of %d sessions, and %d are in the log", r.Kept, r.Sessions, n)
		}
		if account.Bytes.Total > r.Bytes*2/3 || account.Bytes.Lost > 0 {
			t.Errorf("%d bytes: %+v", r.Bytes, account)
		}
		b.same(before)
	})
}

func TestEnds(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		before := b.state()
		o := b.options()
		o.For = Poll
		if r, err := b.captured(o, func() bool { return false }); err != nil || r.Why != "its time was over" {
			t.Error(r, err)
		}
		o.Force, o.For, o.Limit, o.Out = true, time.Hour, 64<<10, filepath.Join(b.dir, "plain.log")
		r, err := b.captured(o, func() bool {
			for i := range 40 {
				b.work(fmt.Sprint(i), 20)
			}
			return false
		})
		if err != nil || r.Why != "the limit of its size was met" || r.Bytes < o.Limit {
			t.Error(r, err)
		}
		if info, err := os.Stat(o.Out); err != nil || info.Size() != r.Bytes || info.Mode().Perm() != 0o600 {
			t.Error(info, err)
		}
		b.same(before)
	})
}

// begin starts a process that captures, and waits until the log is on.
func (b *bench) begin(o Options) (*exec.Cmd, *bufio.Reader) {
	b.Helper()
	cmd, lines := b.process(o, "")
	if line, err := lines.ReadString('\n'); line != "began\n" {
		b.Fatal(line, err)
	}
	return cmd, lines
}

// process starts a process that captures: with a decoy, see elsewhere, as if on another machine.
func (b *bench) process(o Options, decoy string) (*exec.Cmd, *bufio.Reader) {
	b.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TARE_CAPTURE_CHILD="+string(text), "TARE_CAPTURE_DECOY="+decoy)
	if decoy != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS}
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out)
}

func TestKilled(t *testing.T) {
	const secret = "a pass'word"
	each(t, func(t *testing.T, b *bench) {
		file := filepath.Join(b.dir, "pass word")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		admin := b.target
		b.target.User, b.target.Secret = "keeper", Secret{PasswordFile, file}
		create, drop := "CREATE USER keeper IDENTIFIED BY "+quote(secret), "DROP USER keeper"
		grant := "GRANT ALL ON *.* TO keeper"
		if b.target.Product == dbserver.PostgreSQL {
			create, drop, grant = "CREATE USER keeper SUPERUSER PASSWORD "+quote(secret), "DROP ROLE keeper", "SELECT 1"
		}
		user := b.target
		b.target = admin
		b.do(create, grant)
		before := b.state()
		o := b.options()
		o.Target = user
		cmd, _ := b.begin(o)
		b.work("w", 3)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		changed := b.state()
		if changed == before {
			t.Error("nothing was changed")
		}
		notes := b.notes()
		if len(notes) != 1 || strings.Contains(notes[0], "word'") || !strings.Contains(notes[0], file) {
			t.Errorf("notes: %q", notes)
		}
		for _, dry := range []bool{true, false} {
			if now := b.state(); now != changed {
				t.Error("a look has changed something")
			}
			lines, err := Clean(t.Context(), dry, os.Getenv)
			if err != nil || len(lines) != 1 || !strings.Contains(lines[0], string(user.Product)) ||
				strings.Contains(lines[0], "left") {
				t.Errorf("%q, %v", lines, err)
			}
		}
		b.same(before)
		if lines, err := Clean(t.Context(), false, os.Getenv); err != nil || len(lines) > 0 {
			t.Errorf("%q, %v", lines, err)
		}
		b.do(drop)
	})
}

// A file that the server has made and that is not here is on another machine, and is named.
func TestKilledFarAway(t *testing.T) {
	b := newBench(t, dbserver.MariaDB)
	before := b.state()
	cmd, _ := b.begin(b.options())
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	files, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "tare-*.log"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := os.Rename(files[0], files[0]+".far"); err != nil {
		t.Fatal(err)
	}
	lines, err := Clean(t.Context(), false, os.Getenv)
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], files[0]+" cannot be removed from here") {
		t.Errorf("%q, %v", lines, err)
	}
	if err := os.Remove(files[0] + ".far"); err != nil {
		t.Error(err)
	}
	b.same(before)
}

// What the server's command line says cannot be changed, which is said before anything is.
func TestCommandLine(t *testing.T) {
	b := ownBench(t, dbserver.PostgreSQL)
	b.stop()
	o := options(dbserver.PostgreSQL, filepath.Base(filepath.Dir(filepath.Dir(b.target.Address))))
	o.Settings = append(o.Settings, "log_min_duration_statement=1000")
	s, err := dbserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	const want = `log_min_duration_statement is "1000" by the server's command line`
	if _, err = Prepare(t.Context(), b.options()); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func (b *bench) stop() {
	b.Helper()
	if err := b.server.Stop(context.Background()); err != nil {
		b.Error(err)
	}
}

func (b *bench) start() {
	b.Helper()
	dir := filepath.Dir(filepath.Dir(b.target.Address))
	s, err := launch(b.target.Product, filepath.Base(dir))
	if err != nil {
		b.Fatal(err)
	}
	b.server = s
}

func TestServerGone(t *testing.T) {
	for _, p := range products {
		t.Run(string(p), func(t *testing.T) { ownBench(t, p).gone() })
	}
}

// A server of another machine, whose files it has to read itself.
func TestRemoteServerGone(t *testing.T) {
	openFile = func(string) (part, error) { return part{}, fs.ErrNotExist }
	defer func() { openFile = openHere }()
	ownBench(t, dbserver.PostgreSQL).gone()
}

// gone captures while the server is restarted, and while it goes away.
func (b *bench) gone() {
	before := b.state()
	o := b.options()
	r, err := b.captured(o, func() bool {
		b.work("w", 5)
		b.stop()
		b.start()
		return false
	})
	if err != nil || r.Abandoned == nil || !strings.Contains(r.Why, "could not go on") {
		b.Fatal(r, err)
	}
	found, _ := b.read(o)
	b.whole(found)
	if len(found) != 5 {
		b.Errorf("%d sessions", len(found))
	}
	b.same(before)

	// Now it comes back only when the capture has given up.
	if err := os.Remove(o.Out); err != nil {
		b.Fatal(err)
	}
	cmd, lines := b.begin(o)
	b.stop()
	said, _ := io.ReadAll(lines)
	if cmd.Wait() == nil || !strings.Contains(string(said), "tare clean") {
		b.Errorf("it said %q", said)
	}
	if _, err := os.Stat(o.Out); strings.Contains(string(said), "written\n") != (err == nil) {
		b.Errorf("it said %q, and of its output: %v", said, err)
	}
	if lines, err := Clean(b.Context(), false, os.Getenv); err == nil || len(lines) > 0 || len(b.notes()) != 1 {
		b.Errorf("%q, %v", lines, err)
	}
	b.start()
	if lines, err := Clean(b.Context(), false, os.Getenv); err != nil || len(lines) != 1 {
		b.Errorf("%q, %v", lines, err)
	}
	b.same(before)
}

// A log that the server keeps already is read from its present end on, also when its owner rotates it.
func TestAlong(t *testing.T) {
	for _, p := range products {
		t.Run(string(p), func(t *testing.T) {
			b := ownBench(t, p)
			file := filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", "own.log")
			rotate := func() {
				b.do("SELECT 'rotate' FROM pg_rotate_logfile()")
			}
			if p == dbserver.PostgreSQL {
				b.do("ALTER SYSTEM SET log_destination = 'csvlog,stderr'")
				b.do("ALTER SYSTEM SET log_filename = 'own-%H%M%S.log'")
				b.do("ALTER SYSTEM SET log_min_duration_statement = 0")
				b.do("ALTER SYSTEM SET log_connections = on")
				b.do("ALTER SYSTEM SET log_disconnections = on")
				b.stop()
				b.start()
			} else {
				b.do("SET GLOBAL general_log_file = "+quote(file), "SET GLOBAL general_log = ON")
				rotate = func() {
					if err := os.Rename(file, file+".1"); err != nil {
						t.Error(err)
					}
					b.do("FLUSH NO_WRITE_TO_BINLOG /* 'rotate' */ GENERAL LOGS")
				}
			}
			b.work("early", 2)
			before := b.state()
			o := b.options()
			r, err := b.captured(o, func() bool {
				b.work("w", 5)
				rotate()
				b.work("x", 5)
				return true
			})
			if err != nil || len(r.Left) > 0 {
				t.Fatal(r, err)
			}
			found, _ := b.read(o)
			delete(found, "rotate")
			b.whole(found)
			if names := slices.Sorted(maps.Keys(found)); len(names) != 10 || names[0] != "w-0" {
				t.Errorf("it has %q", names)
			}
			b.same(before)
		})
	}
}

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
	err := until(t.Context(), patience, func() (bool, error) {
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

// Where PostgreSQL's file cannot be opened, the server reads it.
func TestRemote(t *testing.T) {
	b := newBench(t, dbserver.PostgreSQL)
	s, err := connect(t.Context(), &b.target, os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := b.session()
	defer c.close()
	dir, err := c.value(t.Context(), "SHOW data_directory")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "it's a file")
	want := make([]byte, 2*remoteChunk+3)
	for i := range want {
		want[i] = byte(i * i >> 3)
	}
	if err := os.WriteFile(file, want, 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	r := &remote{s.(*postgresServer), file}
	if n, err := r.s.fileSize(t.Context(), file); err != nil || n != int64(len(want)) {
		t.Error(n, err)
	}
	got, err := io.ReadAll(io.NewSectionReader(r, 5, int64(len(want))))
	if err != nil || string(got) != string(want[5:]) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want)-5, err)
	}
	if _, err := s.open(t.Context(), file+"x"); err == nil {
		t.Error("a file that is not there can be opened")
	}
}

// By TCP and TLS, with a password that the server checks.
func TestTLS(t *testing.T) {
	b := newBench(t, dbserver.MySQL)
	b.do("CREATE USER far IDENTIFIED BY 'word'", "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO far")
	defer b.do("DROP USER far")
	before := b.state()
	o := b.options()
	o.Address = fmt.Sprintf("127.0.0.1:%d", b.server.Endpoint().Port)
	o.User, o.TLS, o.Secret = "far", sql.TLSRequire, Secret{Variable, "WORD"}
	o.Getenv = func(name string) string { return map[string]string{"WORD": "word"}[name] }
	if _, err := b.captured(o, func() bool { return true }); err != nil {
		t.Error(err)
	}
	o.Force, o.TLS = true, sql.TLSVerify // the server has signed its certificate itself
	if _, err := Prepare(t.Context(), o); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	o.TLS, o.Secret = sql.TLSRequire, Secret{}
	if _, err := Prepare(t.Context(), o); err == nil || !strings.Contains(err.Error(), "1045") {
		t.Error(err)
	}
	b.same(before)
}
