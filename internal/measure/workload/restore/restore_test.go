package restore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql/promise"
)

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := proc.LookPath(name); err != nil {
		missing(t, name+" is not installed")
	}
}

func needPostgres(t testing.TB) {
	t.Helper()
	if _, err := findPostgres(""); err != nil {
		missing(t, err.Error())
	}
}

// needServer is needPostgres for a test that -short leaves out: one server is started and loaded there.
func needServer(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("a server is started")
	}
	needPostgres(t)
}

func newTest(t testing.TB, given map[string]string) *trial {
	t.Helper()
	k := trialtest.Named(t, Kinds(), "restore")
	all := map[string]string{"size": "1MiB"}
	for name, v := range given {
		all[name] = v
	}
	p, err := k.Resolve(all)
	if err != nil {
		t.Fatal(err)
	}
	w, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return w.(*trial)
}

// backups is the folder of a trial set up once for all tests: making its backup takes longer than restoring it.
var backups string

func TestMain(m *testing.M) {
	trialtest.InMemory()
	code := m.Run()
	if backups != "" {
		os.RemoveAll(backups)
	}
	os.Exit(code)
}

// fresh is a bench without anything.
func fresh(t testing.TB) *workload.Bench {
	t.Helper()
	return &workload.Bench{Dir: t.TempDir(), Work: 1, Seed: 11}
}

// prepared is a bench with a backup.
func prepared(t testing.TB) *workload.Bench {
	t.Helper()
	b := fresh(t)
	bring(t, b)
	return b
}

// bring copies the backup to a bench.
func bring(t testing.TB, b *workload.Bench) {
	t.Helper()
	if backups == "" {
		dir, err := os.MkdirTemp("", "tare-restore-test-")
		if err != nil {
			t.Fatal(err)
		}
		backups = dir
		w, first := newTest(t, nil), &workload.Bench{Dir: dir, Work: 1, Seed: b.Seed}
		if err := errors.Join(w.Setup(t.Context(), first), w.Cleanup(first)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(b.Dir, os.DirFS(backups)); err != nil {
		t.Fatal(err)
	}
}

// drive takes a trial through its life; spoil, where set, is called between preparing and measuring.
func drive(ctx context.Context, w *trial, b *workload.Bench, spoil func() error) (err error) {
	defer func() { err = errors.Join(err, w.Cleanup(b)) }()
	if err := w.Setup(ctx, b); err != nil {
		return err
	}
	if spoil != nil {
		if err := spoil(); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := w.Measure(ctx, b); err != nil {
		return err
	}
	b.Elapsed = time.Since(start)
	return w.Report(b)
}

// refusedSetup returns the failure that a trial's setup must end in. It must be one itself, not something that wraps
// one: the agent looks no deeper.
func refusedSetup(t *testing.T, w *trial, b *workload.Bench) *record.Failure {
	t.Helper()
	err := w.Setup(t.Context(), b)
	if left := w.Cleanup(b); left != nil {
		t.Error(left)
	}
	f, ok := err.(*record.Failure)
	if !ok {
		t.Fatalf("setup gives %T: %v", err, err)
	}
	return f
}

func TestRestore(t *testing.T) {
	b := fresh(t)
	var checks map[string]string
	for i, given := range []map[string]string{
		{"load": loadNone, "tools": own}, {"load": loadNone, "tools": environment, "cache": cacheCold},
		{"load": loadPostgreSQL, "tools": own, "threads": "1"}, {"load": loadPostgreSQL, "tools": environment},
	} {
		if given["tools"] == environment {
			needProgram(t, "bzip2")
		}
		if given["load"] == loadPostgreSQL {
			needPostgres(t)
		}
		w := newTest(t, given)
		b.Metrics, b.Checks, b.State, b.Warnings = nil, nil, nil, nil
		if err := drive(t.Context(), w, b, nil); err != nil {
			t.Fatalf("%v: %v", given, err)
		}
		if checks == nil {
			checks = b.Checks
		}
		for name, v := range b.Checks {
			if checks[name] != v {
				t.Errorf("%v: check %s is %s, and was %s", given, name, v, checks[name])
			}
		}
		if len(b.Checks) != 6 || len(b.Warnings) > 0 {
			t.Errorf("%v: checks %v, warnings %v", given, b.Checks, b.Warnings)
		}
		if want := map[bool]string{true: "earlier", false: "now"}[i > 0]; b.State["prepared"] != want {
			t.Errorf("%v: the backup was prepared %s", given, b.State["prepared"])
		}
		if b.State["tools"] != given["tools"] || b.State["cached"] != "3 of 5 files" {
			t.Errorf("%v: state %v", given, b.State)
		}
		declared := map[string]bool{}
		for _, m := range metrics(given["load"] == loadPostgreSQL) {
			declared[m.Name] = true
			optional := strings.HasSuffix(m.Name, "_io_per_second") || strings.HasSuffix(m.Name, "_cpu_seconds")
			if v := b.Metrics[m.Name]; !(v > 0) && !optional {
				t.Errorf("%v: %s = %v", given, m.Name, v)
			}
		}
		for name := range b.Metrics {
			if !declared[name] {
				t.Errorf("%v: %s is reported and not declared", given, name)
			}
		}
		if sum := b.Metrics["verify_seconds"] + b.Metrics["unpack_seconds"] + b.Metrics["merge_seconds"] +
			b.Metrics["load_seconds"] + b.Metrics["sync_seconds"]; sum > b.Metrics["seconds"]*1.001 ||
			sum < b.Metrics["seconds"]*0.5 {
			t.Errorf("%v: the stages take %v s and the whole %v s", given, sum, b.Metrics["seconds"])
		}
		kept := []string{"backup", "backup.json"}
		if given["load"] == loadPostgreSQL {
			kept = append(kept, "cluster", "cluster.json")
			if want := map[string]string{own: "now",
				environment: "earlier"}[given["tools"]]; b.State["cluster"] != want {
				t.Errorf("%v: the cluster was made %s", given, b.State["cluster"])
			}
			if !strings.HasPrefix(b.State[promise.State], "postgresql fsync=on full_page_writes=on ") {
				t.Errorf("%v: the server promises %q", given, b.State[promise.State])
			}
			t.Logf("%s: cluster %s ms, server %s ms, cluster made %s", given["tools"], b.State["cluster_ms"],
				b.State["server_ms"], b.State["cluster"])
		}
		left, err := os.ReadDir(b.Dir)
		if err != nil || !slices.EqualFunc(left, kept,
			func(e os.DirEntry, name string) bool { return e.Name() == name }) {
			t.Errorf("%v: %v is left, %v", given, left, err)
		}
	}
}

// TestSeed: another seed is another backup, and the same seed the same.
func TestSeed(t *testing.T) {
	var sums []string
	for _, seed := range []uint64{1, 1, 2} {
		b, err := generate(t.Context(), t.TempDir(), 1<<20, seed)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, p := range b.Parts {
			text += p.MD5
		}
		sums = append(sums, text)
	}
	if sums[0] != sums[1] || sums[0] == sums[2] {
		t.Errorf("seeds 1, 1 and 2 give %v", sums)
	}
}

// TestRefusals: what is wrong is said, and nothing passes as restored.
func TestRefusals(t *testing.T) {
	damage := func(path string) error {
		p, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p[len(p)/2] ^= 1
		return os.WriteFile(path, p, 0o600)
	}
	for _, c := range []struct {
		name, want string
		spoil      func(w *trial) error
	}{
		{"source with a wrong digest", "MD5 digest", func(w *trial) error {
			return damage(filepath.Join(w.source, w.backup.part(partDelta1).name()))
		}},
		{"archive damaged behind its verification", "damaged", func(w *trial) error {
			// Found by the decompressor's own checksums: the digest is made to fit.
			p := w.backup.part(partFiles)
			path := filepath.Join(w.store.cache, p.name())
			if err := damage(path); err != nil {
				return err
			}
			_, sum, err := w.store.read(context.Background(), path, nil)
			p.MD5 = sum
			return errors.Join(err, os.Rename(path, filepath.Join(w.store.cache, p.name())))
		}},
		{"source that is gone", "no such file", func(w *trial) error {
			return os.Remove(filepath.Join(w.source, w.backup.part(partDelta2).name()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := prepared(t)
			w := newTest(t, nil)
			err := drive(t.Context(), w, b, func() error { return c.spoil(w) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
			if _, err := os.Stat(w.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left", w.path)
			}
		})
	}
}

// TestCacheIsVerified: a file in the cache that was changed is fetched again, and the restore is right.
func TestCacheIsVerified(t *testing.T) {
	b := prepared(t)
	w := newTest(t, nil)
	err := drive(t.Context(), w, b, func() error {
		return os.WriteFile(w.file(partDump), []byte("something else"), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.State["cached"] != "2 of 5 files" {
		t.Errorf("cached: %s", b.State["cached"])
	}
}

// TestSpoiledBackup: a session's backup that was changed is an error once, and made anew after that.
func TestSpoiledBackup(t *testing.T) {
	b := prepared(t)
	w := newTest(t, nil)
	if err := drive(t.Context(), w, b, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.source, w.backup.part(partDump).name())
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := refusedSetup(t, newTest(t, nil), b); !strings.Contains(f.Message, "MD5") {
		t.Errorf("a spoiled backup gives %+v", f)
	}
	if err := drive(t.Context(), newTest(t, nil), b, nil); err != nil || b.State["prepared"] != "now" {
		t.Errorf("afterwards: %v, prepared %s", err, b.State["prepared"])
	}
}

func TestCancelled(t *testing.T) {
	b := prepared(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := drive(ctx, newTest(t, nil), b, func() error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestParameters(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "restore")
	for _, given := range []map[string]string{{"size": "1KiB"}, {"tools": "mine"}, {"load": "mysql"},
		{"threads": "-1"}} {
		if _, err := k.Resolve(given); err == nil {
			t.Errorf("%v is accepted", given)
		}
	}
	p, err := k.Resolve(map[string]string{"postgres": "/usr/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.New(p); err == nil {
		t.Error("a server's folder with load=none is accepted")
	}
	if _, err := findPostgres("relative"); err == nil {
		t.Error("a relative folder is accepted")
	}
	_, err = findPostgres(t.TempDir())
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
		t.Errorf("an empty folder gives %v", err)
	}
}
