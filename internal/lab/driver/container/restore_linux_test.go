package container

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/driver/container/dockertest"
	"tare/internal/lab/env"
	"tare/internal/lab/envtest"
	"tare/internal/lab/rootfs"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// restoreTime bounds a test of restores. No such test is about their speed.
const restoreTime = 8 * time.Minute

// postgresImage makes a Docker image from the root image of tare guest build, as the manual describes: the same files
// that a virtual machine has. The mount is in a mount namespace of its own, which ends with a killed test.
func postgresImage(t *testing.T, d *dockertest.Daemon, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	root, err := rootfs.Build(ctx, rootfs.Options{Packages: []string{"bzip2", "nginx-light", "postgresql"}})
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const script = `set -eu
mount -o ro,loop "$1" "$2"
shift
cd "$1"
shift
tar -c . | "$@"`
	argv := append([]string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", root.Path,
		t.TempDir()}, d.Client()...)
	began := time.Now()
	if _, err := proc.Run(ctx, nil, append(argv, "import", "-", name)...); err != nil {
		t.Fatal(err)
	}
	t.Logf("imported %s in %v", filepath.Base(root.Path), time.Since(began).Round(time.Millisecond))
}

// restoring restores a megabyte into a real server. The restore itself compares every row and file with the backup, and
// fails if one differs.
func restoring(t *testing.T, s *deploy.Conn, cell, root, tools string) (wire.Result, error) {
	t.Helper()
	kind, ok := all.Lookup("restore")
	if !ok {
		t.Fatal("there is no workload restore")
	}
	params, err := kind.Resolve(map[string]string{"size": "1MiB", "load": "postgresql", "tools": tools})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), restoreTime)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "restore", Params: params, Cell: cell, Root: root, Seed: 1},
		Work: 1})
	return got.Result, err
}

// TestRestoreIntoPostgreSQL restores with the programs of an image, and reports what an image lacks.
func TestRestoreIntoPostgreSQL(t *testing.T) {
	if testing.Short() {
		t.Skip("the work is in the containers, which the race detector does not see into")
	}
	d := dockertest.Shared(t)
	postgresImage(t, d, "tare-database:test")
	e := newEngine("docker", d.Host)
	t.Cleanup(func() {
		// It has half a gigabyte, in a daemon that other tests use later.
		if _, err := e.run(context.Background(), nil, "rmi", "--force", "tare-database:test"); err != nil {
			t.Error(err)
		}
	})
	t.Run("verified", func(t *testing.T) { restoresVerified(t, d) })
	t.Run("transactions", func(t *testing.T) { answersTransactions(t, d) })
	t.Run("a page of nginx", func(t *testing.T) { servesPages(t, d) })

	run := func(t *testing.T, tools string, mounts []env.Spec, image, root string, settings ...string) *record.Failure {
		t.Helper()
		o := options(t, "docker", image, append([]string{"host", d.Host}, settings...)...)
		o.Mounts = mounts
		_, err := restoring(t, connect(t, open(t, o), o.RunID), "c", root, tools)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok {
			t.Fatalf("the restore ended with %v", err)
		}
		return f
	}
	want := func(t *testing.T, f *record.Failure, kind string, said ...string) {
		t.Helper()
		for _, s := range said {
			if f.Kind != kind || !strings.Contains(f.Message, s) {
				t.Errorf("it failed as %q, want %q that says %q: %s\n%s", f.Kind, kind, s, f.Message, f.Evidence)
			}
		}
	}
	t.Run("nothing in the image", func(t *testing.T) {
		want(t, run(t, "environment", nil, "", "", "network", "none"), "refused", "needs bzip2",
			"apt-get install bzip2")
		want(t, run(t, "own", nil, "", "", "network", "none"), "refused", "there is no PostgreSQL in this environment",
			"apt-get install postgresql")
		o := options(t, "docker", "", "host", d.Host, "network", "none")
		_, err := envtest.Work(t, connect(t, open(t, o), o.RunID),
			wire.Job{Kind: "http.get", Cell: "http.get", Seed: 42}, 1)
		f, ok := errors.AsType[*record.Failure](err)
		if !ok {
			t.Fatalf("a page without nginx: %v", err)
		}
		want(t, f, "refused", "there is no nginx in this environment", "apt-get install nginx-light",
			"tare guest build --packages nginx-light", "root=debian&packages=nginx-light", "url=")
	})
	t.Run("user without a name", func(t *testing.T) {
		f := run(t, "own", nil, "tare-database:test", "", "pull", "never", "user", "4711", "volume", "tmpfs")
		want(t, f, "refused", "user 4711", "could not look up effective user ID", "/etc/passwd")
		if !strings.Contains(f.Evidence, "initdb: ") {
			t.Errorf("initdb's own words are not the evidence: %q", f.Evidence)
		}
	})
	t.Run("memory too small to hold it", func(t *testing.T) {
		small := []env.Spec{{Name: "small", Driver: tmpfs, Settings: map[string]string{"size": "64MiB"}}}
		want(t, run(t, "own", small, "tare-database:test", mountPoint("small"), "pull", "never"), "no-space",
			"64 MiB are free")
	})
	t.Run("no user that a server could be", func(t *testing.T) {
		// A container that already runs and whose list of users is empty.
		passwd := filepath.Join(t.TempDir(), "passwd")
		if err := os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := e.run(t.Context(), nil, "run", "--detach", "--name", "lonely", "--network", "none",
			"--stop-timeout", "0",
			"--volume", passwd+":/etc/passwd:ro", "--entrypoint", "/bin/sleep", "tare-database:test",
			"2147483647"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.remove(context.Background(), "lonely") })
		want(t, run(t, "own", nil, "", "", "container", "lonely"), "refused", "neither a user postgres nor a user "+
			"nobody")
	})
}

// restoresVerified runs two restores in one container: the first with the image's bzip2 and psql, the second with
// tare's own stages, on a copy of the data directory of the first.
func restoresVerified(t *testing.T, d *dockertest.Daemon) {
	o := options(t, "docker", "tare-database:test", "host", d.Host, "pull", "never", "network", "none")
	s := connect(t, open(t, o), o.RunID)
	var results []wire.Result
	for _, tools := range []string{"environment", "own"} {
		r, err := restoring(t, s, "c", "", tools)
		if err != nil {
			if f, ok := errors.AsType[*record.Failure](err); ok {
				t.Logf("evidence:\n%s", f.Evidence)
			}
			t.Fatalf("restore with tools=%s: %v", tools, err)
		}
		t.Logf("tools=%s: prepared in %v, restored in %v; cluster made %s in %s ms, server started in %s ms", tools,
			time.Duration(r.SetupNS).Round(time.Millisecond),
			time.Duration(r.ElapsedNS).Round(time.Millisecond), r.State["cluster"], r.State["cluster_ms"],
			r.State["server_ms"])
		results = append(results, r)
	}
	first, second := results[0], results[1]
	if first.State["cluster"] != "now" || second.State["cluster"] != "earlier" ||
		second.State["prepared"] != "earlier" {
		t.Errorf("the first trial: %v, the second: %v", first.State, second.State)
	}
	if first.State["postgres_user"] != "postgres" || first.State["postgres"] == "" ||
		first.State["tools"] != "environment" {
		t.Errorf("restored with %v", first.State)
	}
	if len(first.Checks) != 6 || !maps.Equal(first.Checks, second.Checks) {
		t.Errorf("restored %v, then %v", first.Checks, second.Checks)
	}
	if counted := slices.DeleteFunc(slices.Collect(maps.Values(first.Checks)),
		func(v string) bool { return !strings.Contains(v, " rows ") }); len(counted) != 3 {
		t.Errorf("the rows of %d tables were counted: %v", len(counted), first.Checks)
	}
}

// servesPages runs nginx in a container with no network but its loopback.
func servesPages(t *testing.T, d *dockertest.Daemon) {
	o := options(t, "docker", "tare-database:test", "host", d.Host, "pull", "never", "network", "none")
	envtest.Pages(t, connect(t, open(t, o), o.RunID), 200, 2)
}

// answersTransactions runs transactions on a server in a container, where root cannot inspect other users' processes:
// the server must be found, answer all trials of a session alike, and be gone after it.
func answersTransactions(t *testing.T, d *dockertest.Daemon) {
	o := options(t, "docker", "tare-database:test", "host", d.Host, "pull", "never", "network", "none")
	e := open(t, o)
	do := func(s *deploy.Conn, name string, given map[string]string, work int64) wire.Result {
		t.Helper()
		r, err := envtest.Work(t, s, wire.Job{Kind: name, Params: given, Cell: name, Seed: 1}, work)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return r
	}
	s := connect(t, e, o.RunID)
	given := map[string]string{"server": "postgresql", "mix": "read-only", "rows": "1000", "lanes": "2"}
	first := do(s, "sql.oltp", given, 50)
	second := do(s, "sql.oltp", given, 50)
	if len(first.Checks) != 3 || !maps.Equal(first.Checks, second.Checks) {
		t.Errorf("equal transactions gave %v, then %v", first.Checks, second.Checks)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	do(connect(t, e, o.RunID), "command", map[string]string{"command": "! grep -sx postgres /proc/[0-9]*/comm"}, 1)
}
