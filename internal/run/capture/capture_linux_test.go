package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
