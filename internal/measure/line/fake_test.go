package line

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// wire is one direction of a serial line in memory.
type wire struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	gone    bool // nobody writes any more
	passed  int

	perByte time.Duration         // how long a byte takes
	mangle  func(b []byte) []byte // what becomes of what is written; nil: nothing
	copies  func(b []byte)        // gets what is written, too
}

func newWire() *wire {
	w := &wire{}
	w.changed.L = &w.mu
	return w
}

// Write takes time, and waits while the line's buffer, as large as a terminal's, is full.
func (w *wire) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		piece := rest[:min(64, len(rest))]
		rest = rest[len(piece):]
		time.Sleep(w.perByte * time.Duration(len(piece)))
		if w.copies != nil {
			w.copies(piece)
		}
		if w.mangle != nil {
			piece = w.mangle(bytes.Clone(piece))
		}
		if !w.push(piece) {
			return 0, io.ErrClosedPipe
		}
	}
	return len(b), nil
}

func (w *wire) push(b []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.buf) > 4096 && !w.gone {
		w.changed.Wait()
	}
	w.buf = append(w.buf, b...)
	w.passed += len(b)
	w.changed.Broadcast()
	return !w.gone
}

// bytes is how much was written so far.
func (w *wire) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	w.changed.Broadcast()
}

// tap is one end of a line. When it is closed, the line stays as it is.
type tap struct {
	in, out *wire
	mu      sync.Mutex
	closed  bool
}

func (t *tap) Read(b []byte) (int, error) {
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	for len(t.in.buf) == 0 {
		if t.in.gone || t.isClosed() {
			return 0, io.EOF
		}
		t.in.changed.Wait()
	}
	if t.isClosed() {
		return 0, io.EOF
	}
	n := copy(b, t.in.buf)
	t.in.buf = t.in.buf[n:]
	t.in.changed.Broadcast()
	return n, nil
}

func (t *tap) Write(b []byte) (int, error) {
	if t.isClosed() {
		return 0, io.ErrClosedPipe
	}
	return t.out.Write(b)
}

func (t *tap) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (t *tap) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.in.mu.Lock()
	t.in.changed.Broadcast()
	t.in.mu.Unlock()
	return nil
}

// cable is a whole line. Its ends are unplugged when the test ends.
type cable struct{ toGuest, toHost *wire }

func newCable(t *testing.T) *cable {
	c := &cable{newWire(), newWire()}
	t.Cleanup(func() {
		c.cut()
		time.Sleep(time.Second) // until what is being written ends
	})
	return c
}

func (c *cable) cut() { c.toGuest.close(); c.toHost.close() }

func (c *cable) host() *tap  { return &tap{in: c.toHost, out: c.toGuest} }
func (c *cable) guest() *tap { return &tap{in: c.toGuest, out: c.toHost} }

// session makes a session on a line, and returns its ends.
func (c *cable) session(t *testing.T) (host, guest *Conn, l *Listener) {
	t.Helper()
	l = Listen(c.guest())
	t.Cleanup(func() { l.Close() })
	host = c.dial(t)
	guest, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return host, guest, l
}

func (c *cable) dial(t *testing.T) *Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	host, err := Dial(ctx, c.host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.p.close() })
	return host
}

// exchange sends data in both directions at once and checks what arrives.
func exchange(t *testing.T, a, b *Conn, size int) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, ends := range [][2]*Conn{{a, b}, {b, a}} {
		data := random(uint64(i), size)
		wg.Go(func() {
			if _, err := ends[0].Write(data); err != nil {
				t.Error(err)
			}
			ends[0].CloseWrite()
		})
		wg.Go(func() {
			got, err := io.ReadAll(ends[1])
			if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
				t.Errorf("%d bytes of %d arrived, unchanged: %v, error %v", len(got), size,
					bytes.HasPrefix(data, got), err)
			}
		})
	}
}

func random(seed uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	r.Read(b)
	return b
}
