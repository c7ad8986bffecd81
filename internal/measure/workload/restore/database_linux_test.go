package restore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/record"
	"tare/internal/sys/sql/postgres"
)

// TestBadDump: an error of the server ends the load with the server's reason, and leaves nothing of the dump.
func TestBadDump(t *testing.T) {
	needServer(t)
	needProgram(t, "psql")
	psql, err := findProgram("psql", "postgresql-client")
	if err != nil {
		t.Fatal(err)
	}
	b := inMemory(t)
	for name, c := range map[string]struct{ sql, want string }{
		"syntax": {"CREATE TABEL users (id bigint);\n", "syntax error"},
		"after a table": {"CREATE TABLE fine (id bigint);\nINSERT INTO missing VALUES (1);\n",
			`"missing" does not exist`},
		"in the rows": {"CREATE TABLE fine (id bigint);\nCOPY fine (id) FROM stdin;\n1\nx\n\\.\n",
			"invalid input syntax"},
		"unknown table": {"COPY nowhere (id) FROM stdin;\n1\n\\.\n", `"nowhere" does not exist`},
		"same key": {"CREATE TABLE fine (id bigint PRIMARY KEY);\nCOPY fine (id) FROM stdin;\n1\n1\n\\.\n",
			"duplicate key"},
	} {
		w := newTest(t, map[string]string{"load": loadPostgreSQL})
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(errors.Join(err, w.Cleanup(b)))
		}
		path := filepath.Join(w.path, "bad.sql")
		if err := os.WriteFile(path, []byte(c.sql), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tools := range []string{own, environment} {
			w.database.psql = psql
			err := w.database.load(t.Context(), path, tools)
			f, ok := errors.AsType[*record.Failure](err)
			if !ok || f.Kind != "measure" || !strings.Contains(f.Message, c.want) {
				t.Errorf("%s by %s: %v", name, tools, err)
			}
			err = w.database.talk(t.Context(), func(c *postgres.Conn) error {
				return c.Query([]byte("SELECT * FROM fine"), nil)
			})
			if err == nil || !strings.Contains(err.Error(), "does not exist") {
				t.Errorf("%s by %s: afterwards %v", name, tools, err)
			}
		}
		pid := w.database.server.Pid()
		if err := w.Cleanup(b); err != nil {
			t.Error(err)
		}
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("the server is still there: %v", err)
		}
	}
}

// TestServerDoesNotStart: a cluster that the real server refuses gives the server's own words.
func TestServerDoesNotStart(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	w := newTest(t, map[string]string{"load": loadPostgreSQL})
	err := drive(t.Context(), w, b, func() error {
		if err := errors.Join(w.database.stop(), os.Remove(filepath.Join(w.database.data, "PG_VERSION"))); err != nil {
			return err
		}
		return w.database.start(t.Context())
	})
	f, ok := errors.AsType[*record.Failure](err)
	if !ok || f.Kind != "setup" || !strings.Contains(f.Message, "ended during its start") ||
		!strings.Contains(f.Evidence, "PG_VERSION") {
		t.Errorf("the error is %v with %+v", err, f)
	}
}

// TestDiskFull fills a small file system of its own before the load.
func TestDiskFull(t *testing.T) {
	b := fresh(t)
	if err := unix.Mount("tare-test", b.Dir, "tmpfs", 0, "size=384m,mode=0755"); err != nil {
		missing(t, "a file system of its own cannot be mounted: "+err.Error())
	}
	defer unix.Unmount(b.Dir, unix.MNT_DETACH)
	bring(t, b)
	full := filepath.Join(b.Dir, "full")
	fill := func(spare int64) error {
		f, err := os.Create(full)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(f, endless{}); !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("fill the disk: %w", err)
		}
		st, err := f.Stat()
		if err != nil {
			return err
		}
		return f.Truncate(max(0, st.Size()-spare))
	}
	for _, load := range []string{loadNone, loadPostgreSQL} {
		if load == loadPostgreSQL {
			if testing.Short() {
				break
			}
			needPostgres(t)
		}
		w := newTest(t, map[string]string{"load": load})
		err := drive(t.Context(), w, b, func() error {
			if load == loadNone {
				return fill(16 << 10)
			}
			if _, err := w.merge(t.Context()); err == nil {
				t.Error("the deltas are not in the cache yet")
			}
			if _, err := w.verify(t.Context()); err != nil {
				return err
			}
			if _, err := w.merge(t.Context()); err != nil {
				return err
			}
			if err := fill(64 << 10); err != nil {
				return err
			}
			return w.database.load(t.Context(), w.merged(), own)
		})
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "no space left") {
			t.Errorf("load=%s: %v", load, err)
		}
		if err := os.Remove(full); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(b.Dir, "restore*"))
		if err != nil || len(left) > 0 {
			t.Errorf("load=%s: %v is left, %v", load, left, err)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestParseStat(t *testing.T) {
	if n := parseStat([]byte("  10 1 2 3   20 5 6 7 0 1 2\n")); n != 30 {
		t.Errorf("%d", n)
	}
	for _, bad := range []string{"", "x", "-1 0 0 0 -1", "1 2 3 4 y"} {
		if n := parseStat([]byte(bad)); n != 0 {
			t.Errorf("%q gives %d", bad, n)
		}
	}
	var none *disk
	if none.completed() != 0 {
		t.Error("no disk has done something")
	}
}

func TestSocketPath(t *testing.T) {
	needServer(t)
	b := inMemory(t)
	b.Dir = filepath.Join(b.Dir, strings.Repeat("deep", 25))
	if err := os.Mkdir(b.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := newTest(t, map[string]string{"load": loadPostgreSQL})
	var socket string
	if err := drive(context.Background(), w, b, func() error { socket = w.database.socket; return nil }); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(socket, b.Dir) {
		t.Errorf("the socket was in %s", socket)
	}
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", socket, err)
	}
}
