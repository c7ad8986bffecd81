package study_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload/all"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/plan"
	"tare/internal/plan/study"
)

// database returns the study's workloads that need a server, on a machine that has PostgreSQL.
func database(t *testing.T) []plan.Workload {
	t.Helper()
	if testing.Short() {
		t.Skip("a server is started")
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) == 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("PostgreSQL is not installed (apt-get install postgresql)")
		}
		t.Skip("PostgreSQL is not installed (apt-get install postgresql)")
	}
	s, ok := study.Lookup("database")
	if !ok {
		t.Fatal("there is no study database")
	}
	return slices.DeleteFunc(parse(t, s).Workloads, func(w plan.Workload) bool { return w.Kind != "command" })
}

// servers lists the processes that work in a directory below dir. A server removes its file before its last breath, so
// it is given time.
func servers(dir string) (pids []string) {
	for range 600 {
		pids = nil
		all, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, link := range all {
			if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, dir) {
				pids = append(pids, filepath.Base(filepath.Dir(link)))
			}
		}
		if len(pids) == 0 {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return pids
}

// TestDatabaseAgainstARealServer runs a trial of each workload as an agent does: one after the other, each in a
// directory of its own beside the others.
func TestDatabaseAgainstARealServer(t *testing.T) {
	kind, ok := all.Lookup("command")
	if !ok {
		t.Fatal("there is no kind command")
	}
	base := ""
	for _, w := range database(t) {
		b, err := trialtest.Try(t, kind, w.Params, 1)
		if err != nil {
			t.Fatalf("%s: %v", w.Label, err)
		}
		base = filepath.Dir(b.Dir)
		// Not the CPU time: a kernel that counts in ticks may see no user's share in a run of a few milliseconds.
		for _, m := range kind.MetricsFor(w.Params) {
			if v := b.Metrics[m.Name]; !(v > 0) && m.Name != "user_seconds" && m.Name != "system_seconds" {
				t.Errorf("%s: %s is %v, want a positive figure", w.Label, m.Name, v)
			}
		}
		for _, name := range []string{"pg/ready", "bin/psql", "../database/ready"} {
			if _, err := os.Stat(filepath.Join(b.Dir, name)); err != nil {
				t.Errorf("%s: %v", w.Label, err)
			}
		}
		if _, err := os.Stat(filepath.Join(b.Dir, "pg/postmaster.pid")); err == nil {
			t.Errorf("%s: its server was not stopped", w.Label)
		}
	}
	if pids := servers(base); len(pids) > 0 {
		t.Errorf("processes %v are left", pids)
	}
}

// TestDatabaseNoticesOtherRows: figures of queries that gave other rows are none. A failed trial leaves no server
// behind.
func TestDatabaseNoticesOtherRows(t *testing.T) {
	kind, _ := all.Lookup("command")
	for _, w := range database(t) {
		if w.Params["conclude"] == "" {
			continue
		}
		given := map[string]string{}
		for k, v := range w.Params {
			given[k] = v
		}
		given["command"] += "\necho x >> rows.1\n"
		b, err := trialtest.Try(t, kind, given, 1)
		if err == nil || !strings.Contains(err.Error(), "conclude ended with exit code 1") {
			t.Errorf("%s: %v", w.Label, err)
		}
		if pids := servers(filepath.Dir(b.Dir)); len(pids) > 0 {
			t.Errorf("processes %v are left", pids)
		}
		return
	}
	t.Error("no workload of the study looks at its rows")
}
