package bzip2

import (
	"bytes"
	stdlib "compress/bzip2"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
)

// samples are texts that take different ways through the decoder.
func samples() map[string][]byte {
	// The long ones take more than one block; with -short they take one.
	part := 1
	if testing.Short() {
		part = 3
	}
	g := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 1_000_000/part)
	for i := range random {
		random[i] = byte(g.Uint32())
	}
	var prose bytes.Buffer
	for prose.Len() < 1_200_000/part {
		prose.WriteString([]string{"a ", "the ", "block ", "of ", "bits\n", "rotation ", "zz", "eeee",
			"----------"}[g.IntN(9)])
	}
	var runs bytes.Buffer
	for runs.Len() < 300_000 {
		runs.Write(bytes.Repeat([]byte{byte(g.IntN(3))}, 1+g.IntN(600)))
	}
	return map[string][]byte{
		"empty": nil, "byte": {7}, "three": []byte("aaa"), "four": []byte("aaaa"), "five": []byte("aaaaa"),
		"259 of one": bytes.Repeat([]byte{9}, 259), "260 of one": bytes.Repeat([]byte{9}, 260),
		"zeros": make([]byte, 20_000_000/part), "random": random, "prose": prose.Bytes(), "runs": runs.Bytes(),
		"periodic": bytes.Repeat([]byte("ab"), 200_000), "every byte": bytes.Repeat(random[:777], 50),
	}
}

func packed(t testing.TB, text []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := NewWriter(&out, level)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := z.Write(text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpacked(p []byte, workers int) ([]byte, error) {
	r := NewReader(bytes.NewReader(p), workers)
	defer r.Close()
	return io.ReadAll(r)
}

// real is the usual program. Where everything must be there its absence is a failure.
func real(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("bzip2")
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

func runReal(t testing.TB, in []byte, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command(real(t), args...)
	cmd.Stdin = bytes.NewReader(in)
	return cmd.Output()
}

// TestBothWays writes and reads with each of this package, the standard library and the real program.
func TestBothWays(t *testing.T) {
	for name, text := range samples() {
		t.Run(name, func(t *testing.T) {
			ours := packed(t, text, 9)
			if got, err := io.ReadAll(stdlib.NewReader(bytes.NewReader(ours))); err != nil || !bytes.Equal(got, text) {
				t.Errorf("the standard library reads %d bytes of what was written, %v", len(got), err)
			}
			if got, err := runReal(t, ours, "-dc"); err != nil || !bytes.Equal(got, text) {
				t.Errorf("bzip2 reads %d bytes of what was written, %v", len(got), err)
			}
			theirs, err := runReal(t, text, "-9")
			if err != nil {
				t.Fatal(err)
			}
			for which, p := range map[string][]byte{"own": ours, "bzip2's": theirs} {
				if got, err := unpacked(p, 2); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%s file: %d of %d bytes, %v", which, len(got), len(text), err)
				}
			}
			if len(ours) > len(theirs)+len(theirs)/20+64 {
				t.Errorf("written in %d bytes, and by bzip2 in %d", len(ours), len(theirs))
			}
		})
	}
}

func TestLevelsAndWorkers(t *testing.T) {
	text := samples()["prose"]
	for _, level := range []int{1, 5, 9} {
		p, err := runReal(t, text, "-"+string('0'+rune(level)))
		if err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 2, 5} {
			if got, err := unpacked(p, workers); err != nil || !bytes.Equal(got, text) {
				t.Errorf("level %d, %d workers: %d bytes, %v", level, workers, len(got), err)
			}
		}
	}
	for _, level := range []int{0, 10} {
		if _, err := NewWriter(io.Discard, level); err == nil {
			t.Errorf("level %d is accepted", level)
		}
	}
}

// TestStreams reads streams one behind the other, empty ones and other levels among them, in small pieces.
func TestStreams(t *testing.T) {
	s := samples()
	var p, want []byte
	for i, name := range []string{"prose", "empty", "byte", "runs", "empty", "random"} {
		p, want = append(p, packed(t, s[name], 1+i)...), append(want, s[name]...)
	}
	r := NewReader(iotest.HalfReader(bytes.NewReader(p)), 2)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
	}
	// Again, a byte at a time for a while, then elsewhere.
	r.Reset(bytes.NewReader(p))
	got := make([]byte, 100)
	if _, err := io.ReadFull(iotest.OneByteReader(r), got); err != nil || !bytes.Equal(got, want[:100]) {
		t.Fatal(err)
	}
	r.Reset(bytes.NewReader(packed(t, s["runs"], 3)))
	var out bytes.Buffer
	if n, err := r.WriteTo(&out); err != nil || n != int64(len(s["runs"])) || !bytes.Equal(out.Bytes(), s["runs"]) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if n, err := r.Read(got); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// TestFalseBeginnings reads a file in which blocks seem to begin where none does.
func TestFalseBeginnings(t *testing.T) {
	s := newPairSet()
	text := samples()["prose"]
	p := packed(t, text, 1)
	var genuine int
	for from := 0; ; genuine++ {
		bit, _ := s.find(p, from)
		if bit < 0 {
			break
		}
		from = bit + 1
	}
	if want := len(text)/levelStep/2 + 1; genuine < want {
		t.Fatalf("%d places were found in a file of at least %d blocks", genuine, want)
	}
	// The splitter is made to believe in more places than there are: every block is then read in pieces.
	for _, each := range []int64{16, 77, 1000, 12345} {
		r := &Reader{table: s, work: make(chan *segment, 5)}
		for range cap(r.work) {
			r.all = append(r.all, &segment{done: make(chan struct{}, 1), flat: make([]byte, maxBlock)})
		}
		r.workers.Go(func() { attend(newDecoder(), r.work) })
		r.splitter.pieces = each * 8
		r.start(bytes.NewReader(p))
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("pieces of %d bytes: %d of %d bytes, %v", each, len(got), len(text), err)
		}
	}
}

// TestFind looks for magic numbers at every bit, against a search that looks at every bit.
func TestFind(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	s := newPairSet()
	for n := range 4000 {
		p := make([]byte, 6+g.IntN(40))
		for i := range p {
			p[i] = byte(g.Uint32())
		}
		magic := []uint64{blockMagic, streamMagic}[n%2]
		for range 1 + g.IntN(2) {
			at := g.IntN(len(p)*8 - magicBits + 1)
			for i := range magicBits {
				bit := byte(magic >> (magicBits - 1 - i) & 1)
				p[(at+i)/8] = p[(at+i)/8]&^(0x80>>((at+i)%8)) | bit<<7>>((at+i)%8)
			}
		}
		from := g.IntN(len(p) * 8)
		wantBit, wantBlock := match(p, from, len(p)*8)
		bit, block := s.find(p, from)
		if bit != wantBit || block != wantBlock {
			t.Fatalf("%x from %d: %d %v, want %d %v", p, from, bit, block, wantBit, wantBlock)
		}
	}
}

// TestDamaged flips single bits of a file, cuts it, and adds to it: nothing of that may pass, and the real program
// agrees.
func TestDamaged(t *testing.T) {
	text := samples()["prose"][:250_000]
	p := packed(t, text, 1)
	g := rand.New(rand.NewPCG(5, 6))
	for n := range 25 {
		bad := bytes.Clone(p)
		at := g.IntN(len(bad) * 8)
		bad[at/8] ^= 0x80 >> (at % 8)
		got, err := unpacked(bad, 2)
		_, theirs := runReal(t, bad, "-dc")
		if x, ok := errors.AsType[*Error](err); theirs != nil && (!ok || x.Bit < 0 || x.Bit > int64(len(bad))*8) {
			t.Errorf("%d: bit %d turned: %d bytes and %v; bzip2 says %v", n, at, len(got), err, theirs)
		}
		if err == nil && !bytes.Equal(got, text) {
			t.Errorf("%d: bit %d turned gives other data and no error", n, at)
		}
		if !bytes.HasPrefix(text, got) {
			t.Errorf("%d: bit %d turned: data that was never written came out", n, at)
		}
	}
	for _, length := range []int{0, 1, 3, 4, 10, 14, 100, len(p) / 2, len(p) - 11, len(p) - 10, len(p) - 4,
		len(p) - 1} {
		if got, err := unpacked(p[:length], 2); err == nil {
			t.Errorf("%d of %d bytes give %d bytes and no error", length, len(p), len(got))
		}
	}
	for _, more := range []string{"x", "BZ", "BZh0", "BZh9", "garbage that goes on for a while"} {
		if _, err := unpacked(append(bytes.Clone(p), more...), 2); err == nil {
			t.Errorf("%q behind the end is no error", more)
		}
	}
	if _, err := unpacked([]byte("no bzip2 file at all"), 2); err == nil ||
		!strings.Contains(err.Error(), "not a bzip2 file") {
		t.Errorf("another file gives %v", err)
	}
}

func TestSourceErrors(t *testing.T) {
	p := packed(t, samples()["prose"][:350_000], 1)
	broken := errors.New("the disk is gone")
	for _, at := range []int{0, 2, 20, len(p) / 2, len(p) - 2, len(p)} {
		r := NewReader(io.MultiReader(bytes.NewReader(p[:at]), iotest.ErrReader(broken)), 2)
		if _, err := io.ReadAll(r); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", at, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.Read(make([]byte, 1)); err == nil {
			t.Error("a closed reader reads")
		}
	}
	z, err := NewWriter(writeError{broken}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		_, err = z.Write(p)
	}
	if err := errors.Join(err, z.Close()); !errors.Is(err, broken) {
		t.Errorf("a writer that cannot write says %v", err)
	}
	if _, err := z.Write(p); err == nil {
		t.Error("a closed writer writes")
	}
}

type writeError struct{ err error }

func (w writeError) Write([]byte) (int, error) { return 0, w.err }

// FuzzReader: no input may crash, hang or give data that the standard library does not find in it.
func FuzzReader(f *testing.F) {
	s := samples()
	for _, name := range []string{"empty", "byte", "four", "260 of one", "every byte"} {
		f.Add(packed(f, s[name], 1))
	}
	f.Add(packed(f, s["prose"][:3000], 9))
	r := NewReader(bytes.NewReader(nil), 2)
	const most = 4 << 20
	f.Fuzz(func(t *testing.T, p []byte) {
		if len(p) > 1<<16 {
			return
		}
		r.Reset(bytes.NewReader(p))
		got, err := io.ReadAll(io.LimitReader(r, most))
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		want, wantErr := io.ReadAll(io.LimitReader(stdlib.NewReader(bytes.NewReader(p)), most))
		if wantErr != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes; the standard library reads %d, %v", len(got), len(want), wantErr)
		}
	})
}

// FuzzRoundTrip: whatever is written is read.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("aaaaab"), uint16(1))
	f.Add([]byte("abcabcabc"), uint16(500))
	f.Fuzz(func(t *testing.T, text []byte, times uint16) {
		if len(text) > 1<<12 {
			return
		}
		text = bytes.Repeat(text, min(int(times), 200))
		got, err := io.ReadAll(stdlib.NewReader(bytes.NewReader(packed(t, text, 1))))
		if err != nil || !bytes.Equal(got, text) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(text), err)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	text := samples()["prose"]
	p := packed(b, text, 9)
	r := NewReader(bytes.NewReader(nil), 0)
	defer r.Close()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.Reset(bytes.NewReader(p))
		if _, err := r.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
