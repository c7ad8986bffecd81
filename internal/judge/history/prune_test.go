package history

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// pruning holds what goes and what stays, whatever keeps the history.
func pruning(t *testing.T, address string) {
	s, ctx := open(t, address), t.Context()
	for k := range 30 { // of one machine, one trend
		if _, err := s.Add(ctx, entry(k, 2)); err != nil {
			t.Fatal(err)
		}
	}
	for k := 100; k < 104; k++ { // four machines with a trend of one run each, and bundles
		if _, err := s.Add(ctx, hostEntry(k, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	aged := func(days int, where string) {
		t.Helper()
		at := time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339)
		if _, err := s.db.ExecContext(ctx, s.bind("UPDATE tare_runs SET recorded = ? WHERE "+where), at); err != nil {
			t.Fatal(err)
		}
	}
	if s.postgres {
		aged = func(days int, where string) {
			t.Helper()
			if _, err := s.db.ExecContext(ctx, fmt.Sprintf("UPDATE tare_runs SET recorded = now() - "+
				"interval '%d days' WHERE %s", days, where)); err != nil {
				t.Fatal(err)
			}
		}
	}
	aged(100, "run_id < 'run-025'")
	if n, err := s.Pin(ctx, []string{"run-003", "run-004"}, true); err != nil || n != 2 {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := s.Pin(ctx, []string{"run-004"}, false); err != nil || n != 1 {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := s.Pin(ctx, []string{"run-005", "run-999"}, true); !errors.Is(err, ErrUnknown) || n != 0 {
		t.Errorf("a run that is not recorded is pinned: %d %v", n, err)
	}
	rules := Retention{Age: 90 * 24 * time.Hour, Keep: 10, DryRun: true}
	want := Pruned{Runs: 19, Pinned: 1, Needed: 5} // 24 old ones are not pinned, and the newest ten are 20 to 29
	for _, dry := range []bool{true, true, false} {
		rules.DryRun = dry
		if p, err := s.Prune(ctx, rules); err != nil || p != want {
			t.Errorf("dry %v: %+v, want %+v: %v", dry, p, want, err)
		}
	}
	runs, err := s.Runs(ctx, 0)
	if err != nil || len(runs) != 15 || runs[0].ID != "run-003" || runs[1].ID != "run-020" {
		t.Errorf("%d runs are left: %v", len(runs), err)
	}
	// What was recorded again is pinned as before.
	again := entry(3, 2)
	again.Trials = 7
	if c, err := s.Add(ctx, again); err != nil || c != Replaced {
		t.Errorf("%q %v", c, err)
	}
	aged(1000, "run_id = 'run-003'")
	if p, err := s.Prune(ctx, Retention{Age: time.Hour, Keep: 10}); err != nil || p.Pinned != 1 || p.Runs != 0 {
		t.Errorf("%+v %v", p, err)
	}
	if !s.postgres {
		return
	}
	aged(50, "run_id >= 'run-102'")
	p, err := s.Prune(ctx, Retention{BundleAge: 30 * 24 * time.Hour})
	if err != nil || p != (Pruned{Bundles: 2, Bytes: 2000}) {
		t.Errorf("bundles: %+v %v", p, err)
	}
	kept, err := s.Bundles(ctx, nil, "plan-1")
	if err != nil || len(kept) != 2 || kept[0].Host != "n100" {
		t.Fatalf("%+v %v", kept, err)
	}
	if b, err := s.Packed(ctx, &kept[1]); err != nil || string(b[:4]) != "n101" || len(b) != 1000 {
		t.Errorf("%d bytes: %v", len(b), err)
	}
	if _, err := s.db.Exec("UPDATE tare_bundles SET packed = 'x'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Packed(ctx, &kept[1]); err == nil {
		t.Error("a bundle that was changed in the database is given out")
	}
}

func TestPruneFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.db")
	pruning(t, path)
	s := open(t, path)
	if _, err := s.Bundles(t.Context(), nil, ""); !errors.Is(err, ErrNoServer) {
		t.Error(err)
	}
}

// TestOneStepForward holds that a run which is recorded never goes back to an older state, and that trials which
// somebody has changed are seen.
func TestOneStepForward(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "h.db"))
	state := func(trials int, finished bool, head string) Entry {
		e := entry(1, 2)
		e.Trials, e.Head, e.Result.Run.Finished = trials, head, finished
		return e
	}
	for i, c := range []struct {
		entry Entry
		want  Change
		err   error
	}{
		{state(10, false, "a"), Added, nil},
		{state(20, false, "b"), Replaced, nil},
		{state(10, false, "a"), Outdated, nil},
		{state(30, true, "c"), Replaced, nil},
		{state(20, false, "b"), Outdated, nil},
		{state(30, true, "c"), Unchanged, nil},
		{state(30, true, "forged"), "", ErrOther},
		{state(40, true, "d"), Replaced, nil}, // with a new budget
		{state(30, true, "c"), Outdated, nil},
	} {
		if got, err := s.Add(t.Context(), c.entry); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("step %d: %q, %v; want %q, %v", i, got, err, c.want, c.err)
		}
	}
}
