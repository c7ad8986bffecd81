//go:build unix

package cli

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// said collects what is written by any goroutine.
type said struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// watched is a watch of signals without the process around it.
func watched(w io.Writer) (*interrupts, context.Context, chan int) {
	ctx, cancel := context.WithCancel(context.Background())
	codes := make(chan int, 1)
	i := &interrupts{cancel: cancel, say: w, sig: make(chan os.Signal, 8), exit: func(code int) { codes <- code }}
	go i.watch()
	return i, ctx, codes
}

func TestOneWishToStopIsNotTwo(t *testing.T) {
	for name, sigs := range map[string][]os.Signal{
		"timeout(1)":         {syscall.SIGTERM, syscall.SIGTERM},
		"a closed window":    {syscall.SIGHUP, syscall.SIGHUP},
		"a key that bounced": {os.Interrupt, os.Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w said
				i, ctx, codes := watched(&w)
				defer i.release()
				i.held = "all is removed" // hold would have real signals sent into the bubble
				for _, s := range sigs {
					i.sig <- s
					time.Sleep(5 * time.Millisecond)
				}
				if ctx.Err() == nil {
					t.Fatal("the context did not end")
				}
				select {
				case <-codes:
					t.Error("the program left at once")
				case <-time.After(time.Minute):
				}
			})
		})
	}
}

func TestAnotherCtrlCLeavesAtOnceOnATerminalThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := make(held)
		defer close(h)
		i, ctx, codes := watched(h)
		defer i.release()
		i.held = "all is removed" // hold would have real signals sent into the bubble
		i.sig <- os.Interrupt
		<-ctx.Done() // before anything could be said
		time.Sleep(bounce)
		i.sig <- os.Interrupt
		again := time.Now()
		select {
		case code := <-codes:
			if took := time.Since(again); code != exitFailed || took > lastWords {
				t.Errorf("code %d after %v", code, took)
			}
		case <-time.After(time.Minute):
			t.Error("the second one waits for the terminal")
		}
	})
}

func TestWhatMadeNothingEndsWithoutWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w said
		i, ctx, codes := watched(&w)
		defer i.release()
		i.sig <- os.Interrupt
		<-ctx.Done()
		select {
		case <-codes:
		case <-time.After(time.Minute):
			t.Fatal("a command that reads what never comes goes on")
		}
		if w.String() != "" {
			t.Errorf("said %q", w.String())
		}
	})
}

// TestAnOutputThatNobodyReadsEndsTheRun writes to a pipe without a reader, and to one that has one: a broken connection
// to an environment, for which the same signal comes, is not the user's wish.
func TestAnOutputThatNobodyReadsEndsTheRun(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	i, ctx, _ := watched(io.Discard)
	defer i.release()
	i.hold("all is removed")
	s := &screen{w: w, broken: i.broken}
	io.WriteString(s, "read\n")
	if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatal("a signal that may be for another connection stopped the run")
	}
	r.Close()
	io.WriteString(s, "not read\n")
	if ctx.Err() == nil {
		t.Error("the run goes on though nobody reads")
	}
}

func TestAgain(t *testing.T) {
	for _, c := range []struct {
		s     os.Signal
		after time.Duration
		want  bool
	}{
		{os.Interrupt, 10 * time.Millisecond, false}, {os.Interrupt, time.Second, true},
		{syscall.SIGTERM, time.Second, false}, {syscall.SIGTERM, 5 * time.Second, true},
		{syscall.SIGHUP, time.Hour, false},
	} {
		if got := again(c.s, c.after); got != c.want {
			t.Errorf("%v after %v: %v", c.s, c.after, got)
		}
	}
}
