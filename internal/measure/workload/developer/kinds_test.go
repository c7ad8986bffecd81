package developer

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

	"tare/internal/measure/workload"
	"tare/internal/sys/sql/promise"
)

// leftovers lists what a trial of a kind leaves in its directory, for the next one.
var leftovers = map[string][]string{
	"dev.walk": {"tree", "tree.ok"}, "dev.status": {"tree", "tree.ok"}, "dev.probe": {"modules", "modules.ok"},
	"dev.compile": {"project", "project.ok"},
}

func inside(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

// variants are the settings that change what a kind does.
var variants = map[string][]map[string]string{
	"dev.edit": {{"how": "inplace"}, {"fsync": "yes"}, {"dependants": "0"}},
	"dev.journal": {{"mode": "truncate"}, {"mode": "wal"}, {"mode": "wal", "checkpoint": "3", "pages": "1"},
		{"fsync": "no", "locks": "no"}},
	"dev.compile": {{"rename": "no"}, {"think": "1ms"}, {"workaround": "yes"}},
	"dev.probe":   {{"depth": "1", "candidates": "0"}, {"depth": "9", "candidates": "20"}},
	"dev.build":   {{"jobs": "2", "cflags": "-O0"}, {"workaround": "yes", "jobs": "2"}},
}

// TestJournalPromises: a journal says which SQLite it stands for.
func TestJournalPromises(t *testing.T) {
	for fsync, want := range map[string]string{"yes": "FULL", "no": "OFF"} {
		b := weigh(t, t.TempDir(), "dev.journal", 1, map[string]string{"mode": "wal", "fsync": fsync})
		if got := b.State[promise.State]; got != "sqlite journal_mode=wal synchronous="+want {
			t.Errorf("fsync=%s: %q", fsync, got)
		}
	}
}

// TestEveryKind takes each kind with each amount of work through a trial: the evidence is the same however much was
// done, and nothing is left but what the next trial begins with.
func TestEveryKind(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			if k.Name == "dev.build" {
				needProgram(t, "make", "cc", "ar")
			}
			for _, given := range append(slices.Clone(variants[k.Name]), nil) {
				dir := t.TempDir()
				var first *workload.Bench
				amounts := works[k.Name]
				if testing.Short() && given != nil {
					amounts = amounts[:1]
				}
				for _, work := range amounts {
					b := weigh(t, dir, k.Name, work, given)
					if first == nil {
						first = b
					}
					if len(b.Checks) == 0 || !maps.Equal(first.Checks, b.Checks) {
						t.Errorf("%v: checks of work %d and %d: %v, %v", given, first.Work, b.Work, first.Checks,
							b.Checks)
					}
					if got := inside(t, dir); !slices.Equal(got, leftovers[k.Name]) {
						t.Errorf("%v: %v is left, want %v", given, got, leftovers[k.Name])
					}
					if len(b.Warnings) > 0 {
						t.Errorf("%v: %v", given, b.Warnings)
					}
				}
			}
		})
	}
}

// TestSameSeedSameWork: equal seeds give equal evidence in other places, other seeds other evidence.
func TestSameSeedSameWork(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name == "dev.build" { // see TestProject
			continue
		}
		var checks []map[string]string
		for _, seed := range []uint64{7, 7, 8} {
			b := &workload.Bench{Dir: t.TempDir(), Work: 2, Seed: seed}
			if err := workload.Drive(context.Background(), trial(t, k.Name, nil), b); err != nil {
				t.Fatalf("%s: %v", k.Name, err)
			}
			checks = append(checks, b.Checks)
		}
		if !maps.Equal(checks[0], checks[1]) {
			t.Errorf("%s: one seed gives %v and %v", k.Name, checks[0], checks[1])
		}
		// directories have the same names for all seeds
		if k.Name != "dev.walk" && k.Name != "dev.remove" && maps.Equal(checks[0], checks[2]) {
			t.Errorf("%s: two seeds give the same %v", k.Name, checks[0])
		}
	}
}

// TestCancelLeavesNothing ends each kind before, and in the middle of, what it does.
func TestCancelLeavesNothing(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name == "dev.build" {
			continue
		}
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := workload.Drive(ctx, trial(t, k.Name, nil), &workload.Bench{Dir: dir, Work: 3}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("%s under a context that is done gave %v", k.Name, err)
		}
		for _, left := range inside(t, dir) {
			if !slices.Contains(leftovers[k.Name], left) {
				t.Errorf("%s left %s after it was cancelled", k.Name, left)
			}
		}
		if got := inside(t, dir); slices.Contains(got, "tree.ok") && !slices.Contains(got, "tree") {
			t.Errorf("%s left a marker without what it marks: %v", k.Name, got)
		}
		w := trial(t, k.Name, nil)
		b := &workload.Bench{Dir: dir, Work: 2}
		ctx, cancel = context.WithCancel(context.Background())
		if err := w.Setup(ctx, b); err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		cancel()
		if err := w.Measure(ctx, b); !errors.Is(err, context.Canceled) {
			t.Errorf("%s cancelled while it measures gave %v", k.Name, err)
		}
		if err := w.Cleanup(b); err != nil {
			t.Errorf("%s: %v", k.Name, err)
		}
		if got := inside(t, dir); !slices.Equal(got, leftovers[k.Name]) {
			t.Errorf("%s cancelled while it measured left %v", k.Name, got)
		}
	}
}

// TestKilledTrialIsReplaced: what a killed trial left does not disturb the next.
func TestKilledTrialIsReplaced(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name == "dev.build" {
			continue
		}
		dir := t.TempDir()
		w := trial(t, k.Name, nil)
		b := &workload.Bench{Dir: dir, Work: 1, Seed: 7}
		if err := w.Setup(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if err := w.Measure(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		weigh(t, dir, k.Name, 2, nil)
		if err := w.Cleanup(b); err != nil { // the killed one's handles
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}

// TestForeignChangeIsFound changes what stands between two trials.
func TestForeignChangeIsFound(t *testing.T) {
	for _, c := range []struct{ kind, path, want string }{
		{"dev.walk", "tree/src000/mod00000/internal/stranger", "another program changes"},
		{"dev.probe", "modules/app0/node_modules", "does not exist"},
		{"dev.compile", "project/include0/stranger.h", ""},
	} {
		dir := t.TempDir()
		weigh(t, dir, c.kind, 1, nil)
		at := filepath.Join(dir, filepath.FromSlash(c.path))
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := workload.Drive(context.Background(), trial(t, c.kind, nil), &workload.Bench{Dir: dir, Work: 20, Seed: 7})
		if c.want == "" {
			if err != nil {
				t.Errorf("%s with a stranger beside its files gave %v", c.kind, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with a stranger among its files gave %v", c.kind, err)
		}
		weigh(t, dir, c.kind, 1, nil) // prepared anew
	}
}

func TestTruncatedSourceIsFound(t *testing.T) {
	dir := t.TempDir()
	weigh(t, dir, "dev.status", 1, nil)
	weigh(t, dir, "dev.compile", 1, nil)
	header := filepath.Join(dir, "project", headerPath(headerDir[5], 5, 1))
	if err := os.Truncate(header, 3); err != nil {
		t.Fatal(err)
	}
	if err := workload.Drive(context.Background(), trial(t, "dev.compile", nil),
		&workload.Bench{Dir: dir, Work: 4, Seed: 7}); err == nil || !strings.Contains(err.Error(), "read 3 bytes") {
		t.Errorf("a truncated header gave %v", err)
	}
	file := filepath.Join(dir, "tree", filepath.FromSlash(newTree(3, 7).files[40].path))
	if err := os.Truncate(file, 1); err != nil {
		t.Fatal(err)
	}
	if err := workload.Drive(context.Background(), trial(t, "dev.status", nil),
		&workload.Bench{Dir: dir, Work: 4, Seed: 7}); err == nil || !strings.Contains(err.Error(), "it has 1 bytes") {
		t.Errorf("a truncated file gave %v", err)
	}
	weigh(t, dir, "dev.status", 1, nil)
}

// TestLongestNames works below a directory whose path is nearly as long as the system takes.
func TestLongestNames(t *testing.T) {
	dir := t.TempDir()
	for len(dir)+256 < 3900 {
		dir = filepath.Join(dir, strings.Repeat("n", 255))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		if k.Name == "dev.build" { // no compiler takes such paths
			continue
		}
		weigh(t, dir, k.Name, 2, nil)
	}
}

func TestStrangeDirectoryNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b\n'\"\xff%s")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("this file system takes no such name: %v", err)
	}
	for _, k := range Kinds() {
		if k.Name == "dev.build" {
			needProgram(t, "make", "cc", "ar")
		}
		weigh(t, dir, k.Name, 1, nil)
	}
}

// TestLateTimesAreWaitedFor: somebody else sets the files' times after they were written, as a server does.
func TestLateTimesAreWaitedFor(t *testing.T) {
	dir := t.TempDir()
	l := trial(t, "dev.status", nil).(*lookOver)
	b := &workload.Bench{Dir: dir, Home: dir, Work: 1, Seed: 7}
	if err := l.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	defer l.Cleanup(b)
	files := newTree(l.modules, b.Seed).files
	slices.SortFunc(files, func(a, b source) int { return strings.Compare(a.path, b.path) })
	// On a busy machine the change may come when nobody waits any more. Then it is waited for longer.
	for quiet := 500 * time.Millisecond; ; quiet *= 4 {
		late := time.Now().Add(-time.Hour - quiet)
		set := make(chan error, 1)
		var began, changed time.Time
		go func() {
			time.Sleep(quiet / 3)
			began = time.Now()
			err := os.Chtimes(filepath.Join(l.path, filepath.FromSlash(files[3].path)), late, late)
			changed = time.Now()
			set <- err
		}()
		start := time.Now()
		if err := l.calm(t.Context(), files, quiet); err != nil {
			t.Fatal(err)
		}
		ended := time.Now()
		if err := <-set; err != nil {
			t.Fatal(err)
		}
		if changed.Sub(start) > quiet && quiet < time.Minute {
			continue
		}
		if waited := ended.Sub(began); waited < quiet {
			t.Errorf("it waited for %v after the change, less than %v", waited, quiet)
		}
		if got := time.Unix(0, l.index[3].modified); !got.Equal(late.Truncate(time.Nanosecond)) {
			t.Errorf("the index says %v, the file is of %v", got, late)
		}
		return
	}
}
