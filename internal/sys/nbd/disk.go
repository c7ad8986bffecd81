package nbd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// medium stores a device's bytes.
type medium interface {
	read(p []byte, off int64) error
	// With fua, write is durable when it returns.
	write(p []byte, off int64, fua bool) error
	zero(off, n int64, fua, hole bool) error
	trim(off, n int64) error
	flush() error
}

// directFile passes everything to a file immediately.
type directFile struct {
	file   *os.File
	flushs group
}

func (d *directFile) read(p []byte, off int64) error {
	_, err := d.file.ReadAt(p, off)
	return err
}

func (d *directFile) write(p []byte, off int64, fua bool) error {
	if _, err := d.file.WriteAt(p, off); err != nil {
		return err
	}
	if fua {
		return d.flush()
	}
	return nil
}

func (d *directFile) zero(off, n int64, fua, hole bool) error {
	err := errors.ErrUnsupported
	if hole {
		err = punchHole(d.file, off, n)
	}
	if err != nil {
		err = eachPiece(off, n, func(off int64, zeroes []byte) error {
			_, err := d.file.WriteAt(zeroes, off)
			return err
		})
	}
	if err == nil && fua {
		err = d.flush()
	}
	return err
}

// trim frees space if the file system can; a device may ignore it.
func (d *directFile) trim(off, n int64) error {
	if err := punchHole(d.file, off, n); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (d *directFile) flush() error { return d.flushs.do(func() error { return syncData(d.file) }) }

// piece is the number of bytes that are zeroed at once.
const piece = 1 << 20

var zeroes [piece]byte

func eachPiece(off, n int64, do func(off int64, zeroes []byte) error) error {
	for n > 0 {
		m := min(n, piece)
		if err := do(off, zeroes[:m]); err != nil {
			return err
		}
		off, n = off+m, n-m
	}
	return nil
}

// group lets requests that wait for the same operation share one call: requests that arrive during a call, which may
// have begun too early for them, share the next call.
type group struct {
	mu      sync.Mutex
	running bool
	next    *turn
}

type turn struct {
	done chan struct{}
	err  error
}

func (g *group) do(call func() error) error {
	g.mu.Lock()
	if g.running {
		if g.next == nil {
			g.next = &turn{done: make(chan struct{})}
		}
		t := g.next
		g.mu.Unlock()
		<-t.done
		return t.err
	}
	g.running = true
	g.mu.Unlock()
	err := call()
	g.mu.Lock()
	next := g.next
	g.next = nil
	g.running = next != nil
	g.mu.Unlock()
	if next != nil {
		go g.run(next, call)
	}
	return err
}

// run serves the waiting requests, and then those that arrived meanwhile.
func (g *group) run(t *turn, call func() error) {
	for t != nil {
		t.err = call()
		close(t.done)
		g.mu.Lock()
		t, g.next = g.next, nil
		g.running = t != nil
		g.mu.Unlock()
	}
}

// errno is the protocol's number for an error of a file.
func errno(err error) uint32 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.ENOSPC):
		return errNoSpace
	case errors.Is(err, errors.ErrUnsupported):
		return errUnsupported
	}
	return errIO
}

// openDisk opens an existing file that the device consists of.
func openDisk(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("open disk %s: %w", path, err)
	}
	st, err := f.Stat()
	if err == nil && (!st.Mode().IsRegular() || st.Size() == 0 || st.Size()%sector != 0) {
		err = fmt.Errorf("it must be a file with a whole number of %d-byte sectors", sector)
	}
	if err != nil {
		f.Close()
		return nil, 0, fmt.Errorf("open disk %s: %w", path, err)
	}
	return f, st.Size(), nil
}
