package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"tare/internal/measure/dbserver"
	"tare/internal/record"
	"tare/internal/sys/sql"
)

// The servers of these tests are real. Each is started when the first test needs it and stopped after the last one.
var (
	shared string // the folder of the servers
	mutex  sync.Mutex
	lives  []dbserver.Server
	starts = map[dbserver.Product]func() (dbserver.Server, error){}
)

func TestMain(m *testing.M) {
	if text := os.Getenv("TARE_CAPTURE_CHILD"); text != "" {
		os.Exit(child(text))
	}
	os.Exit(func() int {
		var err error
		if shared, err = os.MkdirTemp("", "tare-capture-test-"); err == nil {
			err = os.Chmod(shared, 0o755) // the servers run as users of their own
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		for _, p := range products {
			starts[p] = sync.OnceValues(func() (dbserver.Server, error) { return launch(p, string(p)) })
		}
		code := m.Run()
		for _, s := range lives {
			err = errors.Join(err, s.Stop(context.Background()))
		}
		if err = errors.Join(err, os.RemoveAll(shared)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

var products = []dbserver.Product{dbserver.MariaDB, dbserver.MySQL, dbserver.PostgreSQL}

// options are those of a server in a folder below the shared one.
func options(p dbserver.Product, folder string) dbserver.Options {
	o := dbserver.Options{Product: p, Dir: filepath.Join(shared, folder),
		Settings: []string{"innodb_buffer_pool_size=32M", "performance_schema=OFF"}}
	switch p {
	case dbserver.MySQL:
		o.Root = os.Getenv("TARE_MYSQL_ROOT")
		if folder == string(p) { // the shared one
			o.Port = freePort()
		}
	case dbserver.PostgreSQL:
		o.Settings = []string{"shared_buffers=16MB", "logging_collector=on"}
	}
	return o
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func launch(p dbserver.Product, folder string) (dbserver.Server, error) {
	for try := 0; ; try++ {
		s, err := dbserver.Start(context.Background(), options(p, folder))
		if err == nil {
			mutex.Lock()
			lives = append(lives, s)
			mutex.Unlock()
		}
		// Another may have taken the port before the server did.
		if f, ok := errors.AsType[*record.Failure](err); ok && try < 5 &&
			strings.Contains(f.Evidence, "ddress already in use") {
			continue
		}
		return s, err
	}
}

// each runs a test for each product. One that is not installed is skipped; with TARE_REQUIRE, as in CI, it fails.
func each(t *testing.T, test func(*testing.T, *bench)) {
	for _, p := range products {
		t.Run(string(p), func(t *testing.T) { test(t, newBench(t, p)) })
	}
}

// bench is a server and a user of it.
type bench struct {
	*testing.T
	server dbserver.Server
	target Target
	dir    string
}

// newBench returns the shared server of a product. The notes are kept in a folder of the test.
func newBench(t *testing.T, p dbserver.Product) *bench {
	t.Helper()
	return benchOf(t, p, starts[p])
}

// ownBench returns a server of the test's own.
func ownBench(t *testing.T, p dbserver.Product) *bench {
	t.Helper()
	dir, err := os.MkdirTemp(shared, "own-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := benchOf(t, p, func() (dbserver.Server, error) { return launch(p, filepath.Base(dir)) })
	t.Cleanup(b.stop)
	return b
}

func benchOf(t *testing.T, p dbserver.Product, start func() (dbserver.Server, error)) *bench {
	t.Helper()
	s, err := start()
	if f, ok := errors.AsType[*record.Failure](err); ok {
		t.Log(f.Evidence)
		if f.Kind == "refused" && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip(err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, s, Target{Product: p, Address: s.Endpoint().Address, User: s.Endpoint().User, TLS: sql.TLSOff},
		t.TempDir()}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(b.dir, "cache"))
	return b
}

func (b *bench) options() Options {
	return Options{Target: b.target, For: serverTimeout, Limit: 1 << 30, Share: 1,
		Out:  filepath.Join(b.dir, "a log.gz"),
		Look: Poll, Getenv: func(string) string { return "" }}
}

// session connects to the server as its administrator.
func (b *bench) session() *conn {
	b.Helper()
	c, err := dial(context.Background(), &b.target, os.Getenv)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// do runs statements, each in the same session.
func (b *bench) do(statements ...string) {
	b.Helper()
	c := b.session()
	defer c.close()
	for _, text := range statements {
		if _, err := c.rows(context.Background(), "%s", text); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
	}
}

// state is everything that a capture could leave changed: settings, and files with its name.
func (b *bench) state() string {
	b.Helper()
	c := b.session()
	defer c.close()
	text := "SHOW GLOBAL VARIABLES"
	if b.target.Product == dbserver.PostgreSQL {
		text = `SELECT name, coalesce(setting, '') || ' ' || coalesce(reset_val, '') || ' ' || source FROM pg_settings
			UNION ALL SELECT 'entries', pg_read_file('postgresql.auto.conf') ORDER BY 1`
	}
	rows, err := c.rows(context.Background(), "%s", text)
	if err != nil {
		b.Fatal(err)
	}
	state := ""
	for _, r := range rows {
		state += r[0] + "=" + r[1] + "\n"
	}
	for _, dir := range []string{"", "log"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(b.target.Address)), "data", dir, "tare-*"))
		if err != nil {
			b.Fatal(err)
		}
		state += strings.Join(files, "\n")
	}
	return state
}

// same fails if the state is not the one before, or if there is a note.
func (b *bench) same(before string) {
	b.Helper()
	if now := b.state(); now != before {
		was := strings.Split(before, "\n")
		for i, line := range strings.Split(now, "\n") {
			if i >= len(was) || line != was[i] {
				b.Errorf("is:  %s\nwas: %s", line, was[min(i, len(was)-1)])
			}
		}
	}
	if notes := b.notes(); len(notes) > 0 {
		b.Errorf("there are notes: %q", notes)
	}
	if parts, _ := filepath.Glob(filepath.Join(b.dir, "*.part")); len(parts) > 0 {
		b.Errorf("there are unfinished files: %q", parts)
	}
}

func (b *bench) notes() (texts []string) {
	names, _ := filepath.Glob(filepath.Join(b.dir, "cache", noteFolder, "*"))
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// child is a process that captures until it is killed, or as its options say. It says so when the log is on.
func child(text string) int {
	var o Options
	err := json.Unmarshal([]byte(text), &o)
	if decoy := os.Getenv("TARE_CAPTURE_DECOY"); decoy != "" && err == nil {
		err = elsewhere(decoy)
	}
	o.Getenv, o.Began = os.Getenv, func() { fmt.Println("began") }
	if err == nil {
		comeback = Poll
		var c *Capture
		if c, err = Prepare(context.Background(), o); err == nil {
			var r *Result
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			if r, err = c.Run(ctx); err == nil {
				err = r.Abandoned
			}
			for _, l := range r.Left {
				fmt.Println("left:", l)
			}
			if r.Written {
				fmt.Println("written")
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// elsewhere makes this process, which has namespaces of its own, see another machine: it has a folder and a file where
// the server has the log that it keeps.
func elsewhere(file string) error {
	dir := filepath.Dir(file)
	data := dir
	if filepath.Base(dir) == "log" {
		data = filepath.Dir(dir)
	}
	return errors.Join(syscall.Sethostname([]byte("elsewhere")), syscall.Mount("none", data, "tmpfs", 0, ""),
		os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte("1\n"), 0o644),
		os.WriteFile(file, []byte("it is another machine's\n"), 0o644))
}
