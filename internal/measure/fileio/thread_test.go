package fileio

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestThreadPassesOnWhatCameOfIt(t *testing.T) {
	var th Thread
	th.Wait() // for nothing
	sad := errors.New("sad")
	if err := th.Run(func(bool) error { return sad }); err != sad {
		t.Errorf("got %v", err)
	}
	defer func() {
		if p := recover(); p != "from the thread" {
			t.Errorf("Run panics with %v", p)
		}
		th.Wait()
		if err := th.Run(func(bool) error { return nil }); err != nil {
			t.Errorf("after a panic: %v", err)
		}
	}()
	_ = th.Run(func(bool) error { panic("from the thread") })
}

// TestThreadUsesWhatIsOpen: files that were open before are open there, and nothing of what is opened there is left.
func TestThreadUsesWhatIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	h, err := Open(path, Mode{Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	var th Thread
	for i := range 20 {
		err := th.Run(func(private bool) error {
			if runtime.GOOS == "linux" && !private && os.Getenv("TARE_REQUIRE") != "" {
				t.Error("the thread has no table of files of its own")
			}
			if _, err := h.WriteAt([]byte{byte(i)}, int64(i)); err != nil {
				return err
			}
			other, err := Open(path, Mode{})
			if err != nil {
				return err
			}
			return other.Close()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	th.Wait()
	if took := time.Since(began); took >= patience {
		t.Errorf("the thread took %v to end", took)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(path); err != nil || len(got) != 20 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestThreadTimers: what the work waits for comes, although Go's poller may be made while it waits.
func TestThreadTimers(t *testing.T) {
	var th Thread
	err := th.Run(func(bool) error {
		select {
		case <-time.After(10 * time.Millisecond):
			return nil
		case <-t.Context().Done():
			return t.Context().Err()
		}
	})
	if err != nil {
		t.Error(err)
	}
	r, w, err := os.Pipe() // watched by the poller
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	time.AfterFunc(10*time.Millisecond, func() { w.Write([]byte("x")); w.Close() })
	if n, err := r.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
