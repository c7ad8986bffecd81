package fileio

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
)

// TestBurst has rows of calls leave what the same calls one by one leave, and tell where they ended.
func TestBurst(t *testing.T) {
	h, err := Open(filepath.Join(t.TempDir(), "f"), Mode{Write: true, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	do := func(b Burst, n, want, moved int) {
		t.Helper()
		if done, got, err := b.Do(h, n); done != want || got != moved || err != nil {
			t.Fatalf("%d calls done, the last moved %d, %v; want %d and %d", done, got, err, want, moved)
		}
	}
	seek := func(to int64, whence int) {
		t.Helper()
		if _, err := h.Seek(to, whence); err != nil {
			t.Fatal(err)
		}
	}
	do(Burst{Write: true, Buf: []byte("abc")}, 0, 0, 0)
	do(Burst{Write: true, Buf: []byte("abc")}, 4, 4, 0)
	do(Burst{Write: true, Buf: []byte("X"), Offsets: []int64{9, 0, 5}}, 3, 3, 0)
	do(Burst{Write: true, Buf: []byte("Y"), Offsets: []int64{1}}, 5, 5, 0)
	seek(0, io.SeekStart)
	all := make([]byte, 12)
	do(Burst{Buf: all}, 1, 1, 0)
	if want := "XYcabXabcXbc"; string(all) != want {
		t.Errorf("the file holds %q, want %q", all, want)
	}
	// Backwards, as far as it goes: the move before the beginning fails, and is told as such.
	seek(-3, io.SeekEnd)
	p := make([]byte, 3)
	do(Burst{Buf: p}, 1, 1, 0)
	back := Burst{Buf: p, Offsets: []int64{-6}, Whence: io.SeekCurrent}
	do(back, 3, 3, 0)
	if !bytes.Equal(p, []byte("XYc")) {
		t.Errorf("the last of them read %q", p)
	}
	if done, _, err := back.Do(h, 2); done != 0 || err == nil {
		t.Errorf("%d calls before the beginning of the file, %v", done, err)
	}
	// The end of the file is too little of a record, and then nothing.
	seek(5, io.SeekStart)
	do(Burst{Buf: make([]byte, 5)}, 3, 1, 2)
	do(Burst{Buf: make([]byte, 5)}, 1, 0, 0)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if done, _, err := (&Burst{Write: true, Buf: p}).Do(h, 1); done != 0 || err == nil {
		t.Errorf("%d calls on a closed file, %v", done, err)
	}
}
