package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Space is a network namespace.
type Space struct {
	calls chan func()
	gone  chan struct{} // closed when the thread has left the namespaces
	once  sync.Once
	file  string
}

// New makes a namespace, which needs root. more are flags of other namespaces that its thread gets as well
// (unix.CLONE_NEWNS).
func New(more int) (*Space, error) {
	s := &Space{calls: make(chan func()), gone: make(chan struct{})}
	made := make(chan error, 1)
	go s.live(more, made)
	if err := <-made; err != nil {
		s.Close()
		return nil, fmt.Errorf("make namespaces: %w", err)
	}
	return s, nil
}

// live runs the thread in the namespace.
func (s *Space) live(more int, made chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread never ends, and the process sees its namespaces. While it is locked, another thread is used.
		go s.live(more, made)
		<-s.gone
		runtime.UnlockOSThread()
		return
	}
	left := sync.OnceFunc(func() { close(s.gone) })
	defer left()
	back, err := homes(more)
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWNET | more)
	}
	s.file = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
	made <- err
	for call := range s.calls {
		call()
	}
	for _, h := range back {
		err = errors.Join(err, unix.Setns(h.fd, h.kind), unix.Close(h.fd))
	}
	if err != nil {
		return // never unlocked: the thread ends with this function, and the namespaces with it
	}
	// What the thread has started, before it was this one's, gets the signal of its parent's death when it ends
	// (proc.Start). So it is kept.
	left()
	select {}
}

// savedNamespace is a namespace that a thread goes back to.
type savedNamespace struct{ fd, kind int }

// homes are the namespaces of this thread that it is about to leave.
func homes(more int) (back []savedNamespace, err error) {
	for name, kind := range map[string]int{"net": unix.CLONE_NEWNET, "mnt": unix.CLONE_NEWNS} {
		if kind != unix.CLONE_NEWNET && more&kind == 0 {
			continue
		}
		fd, err := unix.Open("/proc/thread-self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return back, err
		}
		back = append(back, savedNamespace{fd, kind})
	}
	return back, nil
}

// File stands for the namespace while it is not closed. The namespaces of a process have different ones.
func (s *Space) File() string { return s.file }

// Do runs a function in the namespace's thread. What it opens belongs to the namespace. It must not be called after
// Close.
func (s *Space) Do(f func() error) error {
	done := make(chan error, 1)
	s.calls <- func() { done <- f() }
	return <-done
}

// Closed tells whether Close was called.
func (s *Space) Closed() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// Close ends the thread. It is idempotent.
func (s *Space) Close() {
	s.once.Do(func() { close(s.calls) })
	<-s.gone
}
