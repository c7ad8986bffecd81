package dispatch

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// readLogged reads a log into memory.
func readLogged(log []byte) ([]byte, error) {
	var got bytes.Buffer
	err := ReadLogged(bytes.NewReader(log), &got, func() error { got.Reset(); return nil })
	return got.Bytes(), err
}

// TestLogged takes results through logs with other lines between theirs, and finds every log that lacks something.
func TestLogged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, logPiece, 10*logPiece + 7} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rng.Uint32())
		}
		var text bytes.Buffer
		if err := WriteLogged(&text, bytes.NewReader(want)); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(text.String(), "\n"), "\n")
		lines[len(lines)-1] += "\n"
		noise := "a line of another program\n" + strings.Repeat("x", 200_000) + "\n"
		log := "tare: begun\n" + strings.Join(lines, noise) + "and after it\n"
		got, err := readLogged([]byte(log))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: %v, %d came", size, err, len(got))
		}
		// A container that was started again printed a part of it before.
		got, err = readLogged([]byte(text.String()[:text.Len()/2] + "\n" + text.String()))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes after half of it: %v, %d came", size, err, len(got))
		}
		for i := range lines {
			cut := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
			if _, err := readLogged([]byte(cut)); !errors.Is(err, ErrNotLogged) {
				t.Errorf("%d bytes without line %d: %v", size, i, err)
			}
		}
	}
	for _, log := range []string{"", "tare: it failed\n", logMark + "begin 99999999999999 0\n", logMark + "begin x\n",
		logMark + "end\n"} {
		if _, err := readLogged([]byte(log)); !errors.Is(err, ErrNotLogged) {
			t.Errorf("%q: %v", log, err)
		}
	}
}

func FuzzReadLogged(f *testing.F) {
	var text bytes.Buffer
	if err := WriteLogged(&text, strings.NewReader("a result")); err != nil {
		f.Fatal(err)
	}
	f.Add(text.Bytes())
	f.Add([]byte(logMark + "begin 3 0\n" + logMark + "0 YWJj\n" + logMark + "end\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		got, err := readLogged(log)
		if len(got) > len(log) {
			t.Errorf("%d bytes of %d", len(got), len(log))
		}
		if err == nil {
			var again bytes.Buffer
			if err := WriteLogged(&again, bytes.NewReader(got)); err != nil {
				t.Fatal(err)
			}
			if back, err := readLogged(again.Bytes()); err != nil || !bytes.Equal(back, got) {
				t.Errorf("%q comes back as %q: %v", got, back, err)
			}
		}
	})
}
