package restore

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/record"
)

// inMemory is a bench with a backup, in a file system in memory where that can be mounted: each trial brings its file
// system to stable storage, which takes seconds on a disk that others write to.
func inMemory(t *testing.T) *workload.Bench {
	t.Helper()
	b := fresh(t)
	dir := b.Dir
	if err := unix.Mount("tare-test", dir, "tmpfs", 0, "size=512m,mode=0755"); err != nil {
		t.Logf("work on the disk: %v", err)
	} else {
		t.Cleanup(func() {
			if err := unix.Unmount(dir, 0); err != nil {
				t.Errorf("unmount %s: %v", dir, errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)))
			}
		})
	}
	bring(t, b)
	return b
}

// served prepares a trial up to where its server answers, looks at it, and returns how its cluster was made.
func served(t *testing.T, b *workload.Bench, look func(*trial)) string {
	t.Helper()
	w := newTest(t, map[string]string{"load": loadPostgreSQL})
	b.State = nil
	err := w.Setup(t.Context(), b)
	if err == nil && look != nil {
		look(w)
	}
	if err := errors.Join(err, w.Cleanup(b)); err != nil {
		t.Fatal(err)
	}
	return b.State["cluster"]
}

// TestClusterIsKeptAndChecked: trials of a session work on copies of one cluster; one that was changed is made anew,
// and a link in it leads nowhere.
func TestClusterIsKeptAndChecked(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	at := func(name string) string { return filepath.Join(b.Dir, "cluster", name) }
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		change     func() error
	}{
		{"none", "now", func() error { return nil }},
		{"as it was", "earlier", func() error { return nil }},
		{"file missing", "now", func() error { return os.Remove(at("PG_VERSION")) }},
		{"file too many", "now", func() error { return os.WriteFile(at("more"), nil, 0o600) }},
		{"link for a file", "now", func() error {
			return errors.Join(os.Remove(at("PG_VERSION")),
				os.Symlink(secret, at("PG_VERSION")))
		}},
		{"damaged marker", "now", func() error { return os.WriteFile(at("")+".json", []byte("{"), 0o600) }},
		{"another server's", "now", func() error { return os.WriteFile(at("")+".json", []byte(`{"key":"x"}`), 0o600) }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		got := served(t, b, func(w *trial) {
			if _, err := os.Stat(filepath.Join(w.database.data, "postmaster.pid")); err != nil {
				t.Errorf("%s: the server works somewhere else: %v", c.name, err)
			}
			if left, err := filepath.Glob(at("postmaster.*")); err != nil || len(left) > 0 {
				t.Errorf("%s: a server worked on the original: %v %v", c.name, left, err)
			}
		})
		if got != c.want {
			t.Errorf("%s: the cluster was made %s, want %s", c.name, got, c.want)
		}
	}
}

// TestClusterThatDoesNotStart: what the server says of it is the message, and the next trial has a new one.
func TestClusterThatDoesNotStart(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	if got := served(t, b, nil); got != "now" {
		t.Fatalf("the first cluster was made %s", got)
	}
	control := filepath.Join(b.Dir, "cluster", "global", "pg_control")
	text, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	// As long as it was, so that only the server can tell.
	if err := os.WriteFile(control, make([]byte, len(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	f := refusedSetup(t, newTest(t, map[string]string{"load": loadPostgreSQL}), b)
	if f.Kind != "setup" || !strings.Contains(f.Message, "its log says: FATAL: ") ||
		!strings.Contains(f.Evidence, "incompatible with server") {
		t.Errorf("%+v", f)
	}
	if got := served(t, b, nil); got != "now" {
		t.Errorf("after that the cluster was made %s", got)
	}
}

// TestSurroundingsDoNotMatter: a locale that does not exist, a port that another server has, and the user's own
// settings for PostgreSQL are nothing to the trial's server.
func TestSurroundingsDoNotMatter(t *testing.T) {
	needServer(t)
	needProgram(t, "bzip2")
	for name, v := range map[string]string{"LC_ALL": "xx_XX.UTF-8", "LANG": "xx_XX", "PGPORT": "1",
		"PGHOST": "192.0.2.1", "PGDATA": "/nowhere", "PGOPTIONS": "-c nonsense=1", "PSQLRC": "/nowhere"} {
		t.Setenv(name, v)
	}
	if l, err := net.Listen("tcp", "127.0.0.1:5432"); err == nil { // else a server has it, which is as good
		defer l.Close()
	}
	b := inMemory(t)
	for _, tools := range []string{own, environment} {
		if err := drive(t.Context(), newTest(t, map[string]string{"load": loadPostgreSQL, "tools": tools}), b,
			nil); err != nil {
			t.Errorf("tools=%s: %v", tools, err)
		}
	}
}

// TestServerThatDies: a real server one of whose processes is killed in the middle of the load, as a kernel out of
// memory does, and one that is killed itself.
func TestServerThatDies(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	for _, tools := range []string{own, environment} {
		w := newTest(t, map[string]string{"load": loadPostgreSQL, "tools": tools})
		err := drive(t.Context(), w, b, func() error {
			// The statement has the server start a shell, whose parent is the process that serves the client.
			path := filepath.Join(w.path, "deadly.sql")
			if err := os.WriteFile(path, []byte("COPY (SELECT 1) TO PROGRAM 'kill -9 $PPID';\n"), 0o600); err != nil {
				return err
			}
			return w.database.load(t.Context(), path, tools)
		})
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != "measure" || !strings.Contains(f.Message, "was terminated by signal 9") ||
			!strings.Contains(f.Evidence, "terminated by signal 9") {
			t.Errorf("tools=%s: %v with %+v", tools, err, f)
		}
	}
	w := newTest(t, map[string]string{"load": loadPostgreSQL})
	err := drive(t.Context(), w, b, func() error {
		if err := unix.Kill(w.database.server.Pid(), unix.SIGKILL); err != nil {
			return err
		}
		<-w.database.server.Done()
		return nil
	})
	f, ok := errors.AsType[*record.Failure](err)
	if !ok || f.Kind != "measure" || !strings.Contains(f.Evidence, "[postgres: signal: killed]") {
		t.Errorf("%v with %+v", err, f)
	}
}

// TestServerWorksBesideAMount: where the cell is on a mount, the socket is where the environment itself works.
func TestServerWorksBesideAMount(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	b.Home = t.TempDir()
	var socket string
	served(t, b, func(w *trial) { socket = w.database.socket })
	if filepath.Dir(socket) != b.Home {
		t.Errorf("the socket was in %s", socket)
	}
	if left, err := os.ReadDir(b.Home); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestShortFolder(t *testing.T) {
	long, short := filepath.Join("/tmp", strings.Repeat("x", 100)), t.TempDir()
	if len(short) > 60 {
		t.Setenv("TMPDIR", "")
		short = "/tmp"
	}
	dir, err := shortFolder([]string{long, "/nowhere", short})
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if filepath.Dir(dir) != short {
		t.Errorf("it is in %s", dir)
	}
	_, err = shortFolder([]string{long, "/nowhere"})
	f, ok := err.(*record.Failure)
	if !ok || f.Kind != "refused" || strings.Contains(f.Message, "\n") || !strings.Contains(f.Message, "/nowhere") {
		t.Errorf("%v", err)
	}
}

func TestReason(t *testing.T) {
	const stamp = "2026-11-21 10:00:00.000 UTC [12] "
	for log, want := range map[string]string{
		"": "",
		stamp + "LOG:  starting\n" + stamp +
			"FATAL:  the database system is starting up\n": "",
		stamp + "FATAL:  could not create shared memory segment: No space left on device\n" + stamp +
			"LOG:  database system is shut down\n": "FATAL: could not create shared memory segment: No space left " +
			"on device",
		stamp + "LOG:  server process (PID 9) was terminated by signal 9: Killed\n" + stamp +
			"FATAL:  the database system is in recovery mode\n": "server process (PID 9) was terminated by signal " +
			"9: Killed",
		stamp + "PANIC:  could not write\n" + stamp +
			"LOG:  server process (PID 9) was terminated by signal 6: Aborted\n": "PANIC: could not write",
		stamp + "ERROR:  syntax error\n": "",
	} {
		if got := reason(log); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}
