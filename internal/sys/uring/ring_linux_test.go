package uring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ring makes a ring on a real file of n random buffers, and skips where the kernel has none.
func ring(t *testing.T, depth, size, n int) (*Ring, []byte, *os.File) {
	t.Helper()
	data := make([]byte, n*size)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, err := New(f.Fd(), depth, size)
	if errors.Is(err, ErrUnavailable) {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("%v, and TARE_REQUIRE is set", err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
	return r, data, f
}

// TestReadsAndWrites moves a file's records around at several depths, through many turns of the rings.
func TestReadsAndWrites(t *testing.T) {
	for _, depth := range []int{1, 3, 32} {
		const size, n, turns = 4096, 200, 1000
		r, data, f := ring(t, depth, size, n)
		t.Log(r.Describe())
		type op struct {
			at    int
			write bool
		}
		slots := make([]op, depth)
		busy := map[int]bool{} // records in flight
		put := func(s int) {
			at := rand.IntN(n)
			for busy[at] {
				at = rand.IntN(n)
			}
			busy[at] = true
			slots[s] = op{at, rand.IntN(2) == 0}
			if !slots[s].write {
				r.Read(s, int64(at*size))
				return
			}
			for i := range r.Buffer(s) {
				r.Buffer(s)[i] = byte(rand.Uint32())
			}
			copy(data[at*size:], r.Buffer(s))
			r.Write(s, int64(at*size))
		}
		for s := range slots {
			put(s)
		}
		for done := 0; done < turns; {
			if err := r.Submit(1 + rand.IntN(depth)); err != nil {
				t.Fatal(err)
			}
			for s, res, ok := r.Next(); ok; s, res, ok = r.Next() {
				if res != size {
					t.Fatalf("operation gave %d", res)
				}
				at := slots[s].at
				if !slots[s].write && !bytes.Equal(r.Buffer(s), data[at*size:(at+1)*size]) {
					t.Fatalf("depth %d: record %d is not what was written", depth, at)
				}
				delete(busy, at)
				put(s)
				done++
			}
		}
		if r.InFlight() != depth {
			t.Errorf("%d in flight, want %d", r.InFlight(), depth)
		}
		for r.InFlight() > 0 {
			if err := r.Submit(depth); err != nil {
				t.Fatal(err)
			}
			for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
			}
		}
		got, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("depth %d: the file is not what was written (%v)", depth, err)
		}
	}
}

// TestErrorsArrive reads past the end and from a file that is open for writing only.
func TestErrorsArrive(t *testing.T) {
	r, _, _ := ring(t, 2, 512, 1)
	r.Read(0, 1<<20)
	if err := r.Submit(1); err != nil {
		t.Fatal(err)
	}
	if s, res, ok := r.Next(); !ok || s != 0 || res != 0 {
		t.Errorf("a read past the end gave %d, %d, %v", s, res, ok)
	}
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "out"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := New(f.Fd(), 1, 512)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Enable(); err != nil {
		t.Fatal(err)
	}
	w.Read(0, 0)
	if err := w.Submit(1); err != nil {
		t.Fatal(err)
	}
	if _, res, ok := w.Next(); !ok || syscall.Errno(-res) != unix.EBADF {
		t.Errorf("a read of a file open for writing gave %d, %v", res, ok)
	}
}

// TestCloseWaits closes a ring with reads in flight.
func TestCloseWaits(t *testing.T) {
	r, _, _ := ring(t, 64, 1<<16, 64)
	for s := range 64 {
		r.Read(s, int64(s)<<16)
	}
	if err := r.Submit(0); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if r.InFlight() != 0 {
		t.Errorf("%d in flight after Close", r.InFlight())
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestOutOfRange(t *testing.T) {
	for _, c := range [][2]int{{0, 512}, {5000, 512}, {1, 0}, {1, 1<<30 + 1}} {
		if r, err := New(0, c[0], c[1]); err == nil {
			r.Close()
			t.Errorf("depth %d with %d bytes is accepted", c[0], c[1])
		}
	}
}

// TestSubmitDoesNotAllocate: nothing in the timed loop may.
func TestSubmitDoesNotAllocate(t *testing.T) {
	r, _, _ := ring(t, 8, 512, 8)
	if n := testing.AllocsPerRun(100, func() {
		for s := range 8 {
			r.Read(s, int64(s)*512)
		}
		if err := r.Submit(8); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestForbidden looks at the messages: each names its cause and what to do.
func TestForbidden(t *testing.T) {
	for _, e := range []syscall.Errno{unix.ENOSYS, unix.EPERM, unix.ENOMEM, unix.EMFILE} {
		if err := unavailable(e); !errors.Is(err, ErrUnavailable) || !errors.Is(err, e) {
			t.Errorf("%v gives %v", e, err)
		}
	}
}
