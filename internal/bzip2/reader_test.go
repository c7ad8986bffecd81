package bzip2

import (
	"bytes"
	"compress/bzip2"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

func TestX(t *testing.T) {
	b, _ := os.ReadFile(os.Getenv("TBF"))
	want, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(b)))
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(bytes.NewReader(b), 2)
	got, err := io.ReadAll(r)
	t.Log(len(got), len(want), err, bytes.Equal(got, want))
	_ = rand.N[int]
	_ = exec.Command
}
func BenchmarkX(b *testing.B) {
	p, _ := os.ReadFile(os.Getenv("TBF"))
	for _, n := range []int{1, 2} {
		b.Run(string('0'+rune(n)), func(b *testing.B) {
			r := NewReader(bytes.NewReader(p), n)
			defer r.Close()
			for b.Loop() {
				r.Reset(bytes.NewReader(p))
				n, err := io.Copy(io.Discard, r)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
		})
	}
}
func TestW(t *testing.T) {
	p, _ := os.ReadFile(os.Getenv("TBF")[:len(os.Getenv("TBF"))-4])
	p = p[:5000000]
	var z bytes.Buffer
	w, _ := NewWriter(&z, 9)
	w.Write(p)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(z.Len())
	got, err := io.ReadAll(bzip2.NewReader(bytes.NewReader(z.Bytes())))
	t.Log(err, bytes.Equal(got, p))
}
