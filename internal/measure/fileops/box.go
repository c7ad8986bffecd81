package fileops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"
)

// Box is a side in this process: a private directory and what is open in it. It serves one request at a time.
type Box struct {
	path    string
	root    *os.Root
	top     *os.File // the directory itself, for calls that os.Root does not have
	remove  func() error
	handles map[int]io.Closer
	next    int

	// busy is the lock of the fields above, held by Do, or by Close after it.
	busy  chan struct{}
	mu    sync.Mutex
	stuck Op  // an operation that did not return
	files int // number of files that Fill made here, or on the other side if this one verifies
}

// directory is the prefix of the names of directories that boxes make.
const directory = "tare-card-"

// grace is the time after the end of its context from which on an operation counts as stuck.
const grace = 300 * time.Millisecond

// In opens the existing directory path, which Close does not remove.
func In(path string) (*Box, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("open the directory for tests of files: %w", err)
	}
	return newBox(path, root, nil)
}

// Make makes a fresh private directory below dir, which Close removes. Its name is Base.
func Make(dir string) (*Box, error) {
	path, err := os.MkdirTemp(dir, directory+"*")
	if err != nil {
		return nil, fmt.Errorf("make the directory for tests of files: %w", err)
	}
	b, err := In(path)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	b.remove = func() error { return os.RemoveAll(path) }
	return b, nil
}

// Adopt opens the directory name below dir, a copy of one that another box made with Make, and removes it on Close.
func Adopt(dir, name string) (*Box, error) {
	if err := checkName([]byte(name)); err != nil {
		return nil, err
	}
	if len(name) <= len(directory) || name[:len(directory)] != directory || filepath.Base(name) != name {
		return nil, fmt.Errorf("open the directory for tests of files: %q was not made for tests", clip(name))
	}
	above, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory for tests of files: %w", err)
	}
	root, err := above.OpenRoot(name)
	if err != nil {
		above.Close()
		return nil, fmt.Errorf("open the directory for tests of files: %w", err)
	}
	b, err := newBox(filepath.Join(dir, name), root, above)
	if err != nil {
		return nil, err
	}
	b.remove = func() error { return errors.Join(above.RemoveAll(name), above.Close()) }
	return b, nil
}

func newBox(path string, root *os.Root, above *os.Root) (*Box, error) {
	top, err := root.Open(".")
	if err != nil {
		root.Close()
		if above != nil {
			above.Close()
		}
		return nil, fmt.Errorf("open the directory for tests of files: %w", err)
	}
	return &Box{path: path, root: root, top: top, handles: map[int]io.Closer{}, busy: make(chan struct{}, 1)}, nil
}

// Base is the last name of the directory's path.
func (b *Box) Base() string { return filepath.Base(b.path) }

// StuckError is the error of a side with an earlier operation that is stuck in the kernel.
type StuckError struct{ Op Op }

func (e *StuckError) Error() string { return fmt.Sprintf("%s has not returned", e.Op) }

// Do implements Side. It returns soon after ctx is done, even if the operation does not; every later request then gets
// a StuckError until the operation returns.
func (b *Box) Do(ctx context.Context, r Request) (Reply, error) {
	if err := r.Check(); err != nil {
		return Reply{}, err
	}
	o := operations[r.Op]
	if o.do == nil {
		return Reply{}, fmt.Errorf("%s: this side is already open", r.Op)
	}
	select {
	case b.busy <- struct{}{}:
	default:
		b.mu.Lock()
		defer b.mu.Unlock()
		return Reply{}, &StuckError{b.stuck}
	}
	b.mu.Lock()
	b.stuck = r.Op
	b.mu.Unlock()
	done := make(chan Reply, 1)
	go func() {
		reply := b.guard(ctx, o, &r)
		<-b.busy
		done <- reply
	}()
	select {
	case reply := <-done:
		return reply, nil
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		return Reply{}, fmt.Errorf("%s: %w", r.Op, ctx.Err())
	case <-late.C:
		return Reply{}, &StuckError{r.Op}
	}
}

// guard carries out an operation. Access to mapped memory that a server does not deliver, or after a truncation, causes
// a fault, which must not end an agent.
func (b *Box) guard(ctx context.Context, o operation, r *Request) (reply Reply) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(interface{ Addr() uintptr }); ok {
				reply = Reply{Fault: &Fault{"SIGBUS", fmt.Sprintf("%s: no memory at %#x", r.Op, e.Addr())}}
				return
			}
			panic(p)
		}
	}()
	if b.root == nil {
		return Reply{Fault: &Fault{"EBADF", fmt.Sprintf("%s: the side is closed", r.Op)}}
	}
	if err := o.do(b, ctx, r, &reply); err != nil {
		reply.Fault = fault(r.Op, err)
	}
	return reply
}

// closeTime bounds Close: an unlink on a dead network mount must not block it. removeTime is added for each file of
// Fill, of which there may be ten thousand.
const (
	closeTime  = 10 * time.Second
	removeTime = 10 * time.Millisecond
)

// expect records the number of files to remove.
func (b *Box) expect(files int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = max(b.files, files)
}

// Close closes what is open and removes the directory if the box made it. It waits a moment for a running operation; if
// that does not return, Close changes nothing and returns an error. It is idempotent.
func (b *Box) Close() error {
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case b.busy <- struct{}{}:
	case <-late.C:
		b.mu.Lock()
		defer b.mu.Unlock()
		return fmt.Errorf("close %s: %w", b.path, &StuckError{b.stuck})
	}
	b.mu.Lock()
	b.stuck = End
	patience := closeTime + time.Duration(b.files)*removeTime
	b.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := b.close()
		<-b.busy
		done <- err
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("close %s: %w", b.path, err)
		}
		return nil
	case <-limit.C:
		return fmt.Errorf("close %s: %w", b.path, &StuckError{End})
	}
}

func (b *Box) close() error {
	if b.root == nil {
		return nil
	}
	var errs []error
	for _, h := range b.handles {
		errs = append(errs, h.Close())
	}
	errs = append(errs, b.top.Close(), b.root.Close())
	b.root, b.handles = nil, nil
	if b.remove != nil {
		errs = append(errs, b.remove())
	}
	return errors.Join(errs...)
}

// keep gives an open file, map or watch a number.
func (b *Box) keep(c io.Closer, reply *Reply) error {
	if len(b.handles) >= maxHandles {
		return errors.Join(fmt.Errorf("more than %d files, maps and watches are open", maxHandles), c.Close())
	}
	b.next++
	b.handles[b.next] = c
	reply.Handle = b.next
	return nil
}

// held returns an open file, map or watch, by its number.
func held[T io.Closer](b *Box, handle int) (T, error) {
	h, ok := b.handles[handle].(T)
	if !ok {
		return h, fmt.Errorf("number %d is not open, or of another kind", handle)
	}
	return h, nil
}
