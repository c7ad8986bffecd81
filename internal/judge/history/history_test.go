package history

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/record"
)

// entry is a run on a day with one ratio.
func entry(day int, ratio float64) Entry {
	r := &verdict.Result{Run: verdict.Run{ID: fmt.Sprintf("run-%03d", day), Name: "naïve ' \x00 \xff", Version: "1.0",
		Build: "b", Baseline: "host", Scope: "on this boot", Blocks: 10, Seconds: 1.5, Finished: true}}
	for _, m := range []string{"rate", "p99"} {
		r.Cells = append(r.Cells, verdict.Cell{Workload: "fs.randread bs=4KiB", Kind: "fs.randread", Metric: m,
			Unit: "1/s", Primary: m == "rate", Target: "vm:virtiofs",
			Baseline: "host", Center: 100, BaselineCenter: 200,
			Ratio: record.Ratio{Center: ratio, Low: ratio * 0.99, High: ratio * 1.01, Blocks: 10,
				Verdict: record.Different}})
	}
	return Entry{Result: r, Created: time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC), Bundle: "b",
		Work: map[string]string{"fs.randread bs=4KiB": "fs.randread bs=4KiB"},
		Host: &record.Facts{OS: "linux", Hostname: "weigher", CPU: "x", MemoryBytes: 8 << 30, Kernel: "6.1"}}
}

func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// contract is what any history does, whatever keeps it.
func contract(t *testing.T, address string) {
	s, ctx := open(t, address), t.Context()
	add := func(e Entry, want Change) {
		t.Helper()
		if c, err := s.Add(ctx, e); err != nil || c != want {
			t.Fatalf("%s: %q, %v; want %q", e.Result.Run.ID, c, err, want)
		}
	}
	if runs, err := s.Runs(ctx, 0); err != nil || len(runs) != 0 {
		t.Fatalf("an empty history has %v: %v", runs, err)
	}
	for day := range 24 {
		ratio := 2 + 0.01*float64(day*7%5)
		if day >= 12 {
			ratio *= 1.3
		}
		add(entry(day, ratio), Added)
	}
	add(entry(3, 2.01), Unchanged)
	moved := entry(3, 2.01)
	moved.Bundle = "elsewhere"
	add(moved, Unchanged)
	longer := entry(3, 2.01)
	longer.Result.Run.Blocks = 20
	add(longer, Replaced)
	other := entry(30, 9)
	other.Host.Hostname = "another"
	add(other, Added)
	bigger := entry(31, 5)
	bigger.Work = map[string]string{"fs.randread bs=4KiB": "size=1GiB"}
	add(bigger, Added)

	runs, err := s.Runs(ctx, 3)
	if err != nil || len(runs) != 3 || runs[2].ID != "run-031" || runs[2].Cells != 2 || !runs[2].Finished ||
		runs[2].Host != "weigher" {
		t.Fatalf("%+v %v", runs, err)
	}
	cell, err := s.Find(ctx, "vm:virtiofs/fs.randread bs=4KiB")
	if err != nil || !cell.Primary || cell.Runs != 26 {
		t.Fatalf("%+v %v", cell, err)
	}
	trends, err := s.Trends(ctx, cell)
	if err != nil || len(trends) != 3 {
		t.Fatalf("%d trends: %v", len(trends), err)
	}
	tr := trends[0]
	if len(tr.Points) != 24 || len(tr.Shifts) != 1 || tr.Shifts[0].At != 12 || !tr.Points[12].Changed ||
		tr.Points[12].RunID != "run-012" {
		t.Errorf("%d points, shifts %+v", len(tr.Points), tr.Shifts)
	}
	if c, err := s.Find(ctx, "vm:virtiofs/fs.randread"); err != nil || c != cell {
		t.Errorf("the kind alone: %+v %v", c, err)
	}
	if _, err := s.Find(ctx, "nosuch"); err == nil || !strings.Contains(err.Error(),
		"there are: vm:virtiofs/fs.randread bs=4KiB, vm:virtiofs/fs.randread bs=4KiB/p99") {
		t.Errorf("a name like none: %v", err)
	}
	if _, err := s.Find(ctx, "vm:virtiofs/fs.randread bs=8KiB"); err == nil ||
		!strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a wrong name: %v", err)
	}
	if c, err := s.Find(ctx, "vm:virtiofs/fs.randread bs=4KiB/p99"); err != nil || c.Primary {
		t.Errorf("%+v %v", c, err)
	}

	// Another baseline is another trend, and what was withheld counts for no change.
	for day := range 24 {
		e, m := entry(40+day, 2), &verdict.Cell{}
		if m = &e.Result.Cells[0]; day >= 12 {
			m.Ratio = record.Ratio{Center: 0.8, Low: 0.79, High: 0.81, Blocks: 10, Verdict: record.Different}
			m.Baseline = "vm"
		}
		m.Workload, e.Result.Cells = "moved", e.Result.Cells[:1]
		w := *m
		w.Workload, w.Baseline = "doubtful", "host"
		if day >= 12 {
			w.Verdict = record.Withheld
		}
		e.Result.Cells = append(e.Result.Cells, w)
		add(e, Added)
	}
	for name, want := range map[string]int{"moved": 2, "doubtful": 1} {
		c, err := s.Find(ctx, "vm:virtiofs/"+name)
		if err != nil {
			t.Fatal(err)
		}
		trends, err := s.Trends(ctx, c)
		if err != nil || len(trends) != want || trends[0].Baseline != "host" {
			t.Fatalf("%s: %+v %v", name, trends, err)
		}
		for _, tr := range trends {
			if len(tr.Shifts) > 0 {
				t.Errorf("%s against %s: %+v", name, tr.Baseline, tr.Shifts)
			}
			if last := tr.Points[len(tr.Points)-1]; name == "doubtful" && (!last.Ignored || last.Ratio != 0.8) {
				t.Errorf("the withheld figure is %+v", last)
			}
		}
	}
	for day := range 24 {
		if _, err := s.db.ExecContext(ctx, s.bind("DELETE FROM tare_cells WHERE run_id = ?"),
			fmt.Sprintf("run-%03d", 40+day)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.db.ExecContext(ctx, s.bind("DELETE FROM tare_runs WHERE run_id = ?"),
			fmt.Sprintf("run-%03d", 40+day)); err != nil {
			t.Fatal(err)
		}
	}
	// Several at once, over connections of their own, some with the same run.
	var wait sync.WaitGroup
	errs := make(chan error, 12)
	for i := range 12 {
		wait.Go(func() {
			mine, err := Open(ctx, address)
			if err == nil {
				_, err = mine.Add(ctx, entry(100+i%4, 2))
				err = errors.Join(err, mine.Close())
			}
			errs <- err
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if runs, err := s.Runs(ctx, 0); err != nil || len(runs) != 30 {
		t.Errorf("%d runs: %v", len(runs), err)
	}
	// A context that is done leaves nothing half done.
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Add(done, entry(200, 1)); err == nil {
		t.Error("recorded for a caller that left")
	}

	if _, err := s.db.ExecContext(ctx, "UPDATE tare_schema SET version = 9"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, address); !errors.Is(err, ErrNewer) {
		t.Errorf("newer tables: %v", err)
	}
	if _, err := s.Add(ctx, entry(200, 1)); !errors.Is(err, ErrNewer) {
		t.Errorf("tables that a newer tare has upgraded meanwhile: %v", err)
	}
}

func TestSQLite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a folder?#%41")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	contract(t, filepath.Join(dir, "history.db"))
}

func TestFilesThatAreNoHistory(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "x.db")
	if err := os.WriteFile(bad, []byte(strings.Repeat("hello", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{bad, dir} {
		if _, err := Open(t.Context(), p); err == nil || !strings.Contains(err.Error(), "open history") {
			t.Errorf("%s: %v", p, err)
		}
	}
	if b, _ := os.ReadFile(bad); !strings.HasPrefix(string(b), "hello") {
		t.Error("a foreign file was changed")
	}
}

func TestPasswords(t *testing.T) {
	for address, ok := range map[string]bool{
		"history.db": true, "postgres://host/db": true, "postgres://me@host/db?sslmode=disable": true,
		"postgres://me:secret@host/db": false, "postgresql://host/db?user=me&password=secret": false,
		"postgres://me:sec%ret@host/": false, "postgres://host/db?sslkey=k&sslpassword=secret": false,
		"postgres://": true,
	} {
		if err := CheckPublic(address); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "sec") {
			t.Errorf("%s: %v", address, err)
		}
	}
	_, err := Open(t.Context(), "postgres://me:secret@127.0.0.1:1/db?password=secret&connect_timeout=1")
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the password: %v", err)
	}
}

func TestForeignRowsAreToldNotTrusted(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "h.db"))
	if _, err := s.Add(t.Context(), entry(1, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.Exec("UPDATE tare_runs SET created = 'yesterday'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Runs(t.Context(), 0); err == nil {
		t.Error("a time that is none was believed")
	}
	var n int
	if err := s.db.QueryRow("SELECT COUNT(*) FROM tare_cells").Scan(&n); err != nil && !errors.Is(err, sql.ErrNoRows) ||
		n != 2 {
		t.Errorf("%d cells: %v", n, err)
	}
}
