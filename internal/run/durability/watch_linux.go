//go:build amd64 || arm64

package durability

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// identity is the kernel's identity of a file.
type identity struct{ dev, ino uint64 }

// Watcher counts the flushes of files that any process of this machine asks the kernel for. It hangs a program on the
// entry of system calls (BPF) that stops nobody, so that what is watched runs at its own speed; it needs the rights to
// do so, which are root's.
//
// It sees fsync, fdatasync, syncfs, and flushes submitted to Linux's own asynchronous I/O (io_submit). It does not see
// what goes through an io_uring, nor a file server in the kernel.
type Watcher struct {
	tap  *tap
	stop chan struct{}
	done chan struct{}

	mu      sync.Mutex
	counts  map[identity]int
	callers map[identity]string
}

// pollEvery is how often events are taken from the ring. A file must still be open then, or it is not known which it
// was.
const pollEvery = 2 * time.Millisecond

// NewWatcher begins to watch, and tries itself: a flush of a file of its own in dir must be seen. The error says why
// there is no watching here.
func NewWatcher(dir string) (*Watcher, error) {
	t, err := openTap()
	if err != nil {
		return nil, err
	}
	w := &Watcher{tap: t, stop: make(chan struct{}), done: make(chan struct{}), counts: map[identity]int{},
		callers: map[identity]string{}}
	go w.follow()
	if err := w.try(dir); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// tryTime is how long the watcher's own flush may take to be seen.
const tryTime = 5 * time.Second

func (w *Watcher) try(dir string) error {
	f, err := os.CreateTemp(dir, "tare-watch-")
	if err != nil {
		return fmt.Errorf("test the watch over flushes: %w", err)
	}
	defer func() {
		f.Close()
		os.Remove(f.Name())
	}()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("test the watch over flushes: %w", err)
	}
	for end := time.Now().Add(tryTime); time.Now().Before(end); time.Sleep(pollEvery) {
		n, err := w.File(f.Name())
		if err == nil && n > 0 {
			w.forget(f.Name()) // a later file may get its number
		}
		if err != nil || n > 0 {
			return err
		}
	}
	return errors.New("the watch over flushes did not see one that tare made itself")
}

func (w *Watcher) follow() {
	defer close(w.done)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		w.mu.Lock()
		w.tap.read(w.saw)
		w.mu.Unlock()
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
	}
}

func (w *Watcher) saw(c call) {
	id, err := identify(fmt.Sprintf("/proc/%d/fd/%d", c.pid, c.fd))
	if err != nil {
		return // closed since, or another's namespace: it was not the file of a machine that runs on
	}
	if w.counts[id]++; w.callers[id] == "" {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.pid))
		w.callers[id] = strings.TrimSpace(string(name))
	}
}

func identify(path string) (identity, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	return identity{uint64(st.Dev), st.Ino}, err
}

// File is how many flushes of the file there have been.
func (w *Watcher) File(path string) (int, error) {
	id, err := identify(path)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tap.read(w.saw)
	return w.counts[id], nil
}

func (w *Watcher) forget(path string) {
	if id, err := identify(path); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.counts, id)
		delete(w.callers, id)
	}
}

// Caller is the name of the program that flushed the file first; "" when nobody did.
func (w *Watcher) Caller(path string) string {
	id, err := identify(path)
	if err != nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.callers[id]
}

// Close ends the watching.
func (w *Watcher) Close() error {
	close(w.stop)
	<-w.done
	if err := w.tap.close(); err != nil {
		return fmt.Errorf("end the watch over flushes: %w", err)
	}
	return nil
}
