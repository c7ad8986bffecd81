package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// childEnv makes the test binary a writer that appends until it is killed.
const childEnv = "TARE_BUNDLE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		fmt.Println(writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver begins the bundle or goes on with it, and tells how many trials are on disk after each.
func writeForEver(dir string) error {
	w, err := Create(dir, "run-1", testPlan())
	n := 0
	if errors.Is(err, ErrResumable) {
		var b *Bundle
		if w, b, err = Resume(dir); err != nil {
			return err
		}
		trials, err := b.Load()
		if err != nil {
			return err
		}
		n = len(trials)
	}
	if err != nil {
		return err
	}
	for {
		t := testTrial(n)
		t.State = map[string]string{"pad": strings.Repeat("p", n%5*5000)}
		if err := w.Append(t); err != nil {
			return err
		}
		n++
		fmt.Println(n)
		if n%7 == 0 {
			if err := w.Plan(testPlan()); err != nil {
				return err
			}
			if _, err := w.Evidence("log", []byte("something")); err != nil {
				return err
			}
		}
	}
}

// TestKill9 kills a real writer at moments spread over its whole life, the first microseconds included, lets another go
// on, and holds that no trial it reported was lost and that the bundle is in order each time.
func TestKill9(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "b")
	reported := 0
	rounds, least := 0, 25
	if testing.Short() {
		least = 8
	}
	// more of them, and longer ones, on a slow machine
	for round := 0; round < least || reported < 20 && round < 100; round++ {
		rounds++
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		cmd := proc.Command(ctx, exe)
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(5+round*round/3) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		cancel()
		lines := strings.Fields(out.String())
		if n := len(lines); n > 0 {
			last, err := strconv.Atoi(lines[n-1])
			if err != nil {
				t.Fatalf("round %d: the writer says: %s", round, out.String())
			}
			reported = last
		}
		b, err := Open(dir)
		if reported == 0 && (errors.Is(err, ErrNotBundle) || errors.Is(err, os.ErrNotExist)) {
			continue // killed before it had begun
		}
		if err != nil {
			t.Fatalf("round %d, %d trials reported: %v", round, reported, err)
		}
		trials, err := b.Load()
		// The last one may be on disk and not yet reported.
		if err != nil || len(trials) < reported || len(trials) > reported+1 {
			t.Fatalf("round %d: %d trials reported, %d found, %v", round, reported, len(trials), err)
		}
		reported = len(trials)
		for i := range trials {
			if trials[i].Seq != i+1 {
				t.Fatalf("round %d: trial %d has number %d", round, i+1, trials[i].Seq)
			}
		}
		if r, found := verify(t, dir); !r.OK() {
			t.Fatalf("round %d: %s", round, found)
		}
	}
	if reported < 20 {
		t.Errorf("only %d trials were written in all; the test shows nothing", reported)
	}
	t.Logf("%d trials survived %d kills", reported, rounds)
}

// TestManyReaders holds that a bundle can be read while it is written.
func TestManyReaders(t *testing.T) {
	dir, w := newBundle(t, 1)
	done := make(chan error)
	go func() {
		for i := range 50 {
			if err := w.Append(testTrial(i)); err != nil {
				done <- err
				return
			}
			if err := w.Plan(testPlan()); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for last := 0; ; {
		b, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		trials, err := b.Load()
		if err != nil || len(trials) < last {
			t.Fatalf("%d trials after %d, %v", len(trials), last, err)
		}
		last = len(trials)
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
