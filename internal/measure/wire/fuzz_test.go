package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// Whatever a stream holds, reading it ends, holds no more than came, and gives only frames that can be written again to
// the same bytes.
func FuzzReader(f *testing.F) {
	f.Add(frames(f, Frame{Type: TypeHello, Payload: []byte(`{"protocol":1,"build":"dev"}`)},
		Frame{Type: TypeEnd, Trial: 3}))
	f.Add([]byte{0, 0x40, 0, 0, 8, 0, 0, 0, 0, 1, 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 8, 0, 0, 0, 0, 1})
	f.Add([]byte("Last login: Sat Nov 21 01:23:45 2026"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(bytes.NewReader(in))
		var again bytes.Buffer
		w := NewWriter(&again)
		for {
			fr, err := r.Read()
			if err != nil {
				var format *FormatError
				if err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &format) {
					t.Fatalf("unexpected error %v", err)
				}
				break
			}
			var v Result
			fr.Decode(&v) // must not panic
			if err := w.Write(fr); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(in, again.Bytes()) {
			t.Fatalf("% x was read from % x", again.Bytes(), in)
		}
	})
}

// Noise and what follows the magic are the whole stream, in order, whatever it holds.
func FuzzSkipNoise(f *testing.F) {
	f.Add([]byte("motd\n" + Magic + "\x00\x00"))
	f.Add([]byte("\x89TARE\r\x89TARE\r\n\x1a"))
	f.Add([]byte("\x89TARE\r\r\n\x1a"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(bytes.NewReader(in))
		noise, err := r.SkipNoise()
		at := bytes.Index(in, []byte(Magic))
		if err != nil {
			if at >= 0 && at < MaxNoise {
				t.Fatalf("the magic at %d was missed: %v", at, err)
			}
			if !bytes.HasPrefix(in, noise) {
				t.Fatal("the noise is not what came")
			}
			return
		}
		rest, _ := io.ReadAll(r.r)
		if at < 0 || !bytes.Equal(noise, in[:at]) || !bytes.Equal(rest, in[at+len(Magic):]) {
			t.Fatalf("magic at %d; noise %q, rest %q", at, noise, rest)
		}
	})
}

// What is unpacked packs to the same bytes.
func FuzzSamples(f *testing.F) {
	p, err := PackSamples("latency", []float64{1, 2.5, 1e300})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add([]byte{1, 0, 'a', 0, 0, 0, 0, 0, 0, 0xf0, 0x7f})
	f.Add([]byte{0xff, 0xff})
	f.Fuzz(func(t *testing.T, in []byte) {
		name, values, err := UnpackSamples(in)
		if err != nil {
			return
		}
		again, err := PackSamples(name, values)
		if err != nil || !bytes.Equal(again, in) {
			t.Fatalf("% x became % x, %v", in, again, err)
		}
	})
}

// What is unpacked packs to the same bytes, and lies inside its file.
func FuzzFilePiece(f *testing.F) {
	p, err := (&FilePiece{Size: 9, Offset: 4, Data: []byte("piece")}).Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add(p[:len(p)-5])
	f.Add(bytes.Repeat([]byte{0xff}, 60))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := UnpackFilePiece(in)
		if err != nil {
			return
		}
		if p.Offset < 0 || p.Offset+int64(len(p.Data)) > p.Size {
			t.Fatalf("%d bytes at %d of %d", len(p.Data), p.Offset, p.Size)
		}
		again, err := p.Pack()
		if err != nil || !bytes.Equal(again, in) {
			t.Fatalf("% x became % x, %v", in, again, err)
		}
	})
}
