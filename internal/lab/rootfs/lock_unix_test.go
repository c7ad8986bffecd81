//go:build unix

package rootfs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLock: only one process has the lock, however many want it, and nothing is left.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ".lock-x")
	var inside, most, turns atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				release, err := lock(t.Context(), path, func(string) {})
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				turns.Add(1)
				inside.Add(-1)
				if err := release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if most.Load() != 1 || turns.Load() != 12 {
		t.Errorf("%d at a time, %d turns", most.Load(), turns.Load())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// TestLockGivesUp when cancelled, and reports that it waits.
func TestLockGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock-x")
	release, err := lock(t.Context(), path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := 0
	if _, err := lock(ctx, path, func(string) { told++; cancel() }); !errors.Is(err, context.Canceled) || told != 1 {
		t.Errorf("%v, told %d times", err, told)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if _, err := lock(t.Context(), filepath.Join(path, "no", "folder"), func(string) {}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
