package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"tare/internal/record"
)

func frames(t testing.TB, fs ...Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range fs {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestFramesSurvive(t *testing.T) {
	sent := []Frame{
		{Type: TypeHello, Payload: []byte(`{"protocol":1}`)},
		{Type: TypeBegin, Trial: 1},
		{Type: TypeSamples, Trial: math.MaxUint32, Payload: bytes.Repeat([]byte{0x89, 0}, firstPiece)},
		{Type: TypeFailure, Trial: 7, Payload: make([]byte, MaxPayload)},
	}
	raw := frames(t, sent...)
	for name, in := range map[string]io.Reader{"whole": bytes.NewReader(raw),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(raw))} {
		r := NewReader(in)
		for i, want := range sent {
			got, err := r.Read()
			if err != nil || got.Type != want.Type || got.Trial != want.Trial ||
				!bytes.Equal(got.Payload, want.Payload) {
				t.Fatalf("%s: frame %d: got %s trial %d with %d bytes, %v", name, i, got.Type, got.Trial,
					len(got.Payload), err)
			}
		}
		if _, err := r.Read(); err != io.EOF {
			t.Errorf("%s: at the end: %v, want io.EOF itself", name, err)
		}
	}
}

func TestHeaderIsTenBytesBigEndian(t *testing.T) {
	got := frames(t, Frame{Type: TypeRun, Trial: 0x01020304, Payload: []byte("ab")})
	want := []byte{0, 0, 0, 2, 8, 0, 1, 2, 3, 4, 'a', 'b'}
	if !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
}

func TestBadFramesAreRefused(t *testing.T) {
	good := frames(t, Frame{Type: TypeRun, Trial: 1, Payload: []byte("{}")})
	header := func(n uint32, typ, flags byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, n), typ, flags, 0, 0, 0, 1)
	}
	format := func(err error) bool { var f *FormatError; return errors.As(err, &f) }
	torn := func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }
	for name, c := range map[string]struct {
		in []byte
		ok func(error) bool
	}{
		"torn header":      {good[:4], torn},
		"torn payload":     {good[:len(good)-1], torn},
		"missing payload":  {good[:HeaderSize], torn},
		"too long":         {header(MaxPayload+1, 1, 0), format},
		"far too long":     {header(math.MaxUint32, 1, 0), format},
		"type 0":           {header(0, 0, 0), format},
		"type of tomorrow": {header(0, byte(typeLast)+1, 0), format},
		"flags":            {header(0, 1, 1), format},
		"text":             {[]byte("Last login: Sat Nov 21"), format},
	} {
		if f, err := NewReader(bytes.NewReader(c.in)).Read(); err == nil || !c.ok(err) {
			t.Errorf("%s: got %s, %v", name, f.Type, err)
		}
	}
}

// A header that promises 4 MiB and brings nothing must not cost 4 MiB.
func TestLengthDoesNotDriveAllocation(t *testing.T) {
	lie := append(binary.BigEndian.AppendUint32(nil, MaxPayload), byte(TypeRun), 0, 0, 0, 0, 1)
	lie = append(lie, make([]byte, 100)...)
	var before, after runtime.MemStats
	r := NewReader(bytes.NewReader(lie))
	runtime.ReadMemStats(&before)
	_, err := r.Read()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*firstPiece {
		t.Errorf("%d bytes were allocated for 100", n)
	}
}

func TestWriterRefusesWhatNoReaderTakes(t *testing.T) {
	var b bytes.Buffer
	if err := NewWriter(&b).Write(Frame{Type: TypeRun, Payload: make([]byte, MaxPayload+1)}); err == nil ||
		b.Len() != 0 {
		t.Errorf("%v, %d bytes written", err, b.Len())
	}
	if err := NewWriter(&b).JSON(TypeResult, 1, Result{
		Figures: record.Figures{Metrics: map[string]float64{"x": math.NaN()}}}); err == nil || b.Len() != 0 {
		t.Errorf("NaN: %v, %d bytes written", err, b.Len())
	}
}

// TestGroupsFitAFrame: as many groups as a trial may have, with the longest texts, of characters that JSON makes long.
func TestGroupsFitAFrame(t *testing.T) {
	var res Result
	for range record.MaxGroups + 1 {
		res.Groups = append(res.Groups, record.Group{ID: "0123456789ABCDEF", Count: math.MaxInt64,
			Text: strings.Repeat("<", record.MaxGroupText), Seconds: 1.0 / 3, P50: 1.0 / 3, P99: 1.0 / 3,
			Check: strings.Repeat("x", 80)})
	}
	// What a replay pools of its groups (replay.mostPooled), and three histograms of all.
	res.Histograms = map[string][]byte{"": make([]byte, 768<<10+3*(32<<10))}
	for i := range record.MaxGroups {
		res.Histograms[record.GroupHistogram+"0123456789ABCDEF"+strconv.Itoa(i)] = nil
	}
	if err := NewWriter(io.Discard).JSON(TypeResult, 1, res); err != nil {
		t.Error(err)
	}
}

func TestEveryTypeHasItsOwnName(t *testing.T) {
	seen := map[string]Type{}
	for typ := TypeHello; typ <= typeLast; typ++ {
		name := typ.String()
		if other, twice := seen[name]; twice || name == "" || name == "unknown" {
			t.Errorf("type %d is called %q like type %d", typ, name, other)
		}
		seen[name] = typ
	}
	if got := (typeLast + 1).String(); got != "unknown" {
		t.Errorf("the type after the last is called %q", got)
	}
}

func TestNoiseIsSkippedAndKept(t *testing.T) {
	hello := frames(t, Frame{Type: TypeHello, Payload: []byte("{}")})
	long := strings.Repeat("x", MaxNoise-1)
	for _, noise := range []string{"", "Welcome to Debian\r\n", "\x89", "\x89TARE", "\x89\x89",
		"\x89TARE\r\n\x89TARE\r\n", "\x00\xff", long} {
		r := NewReader(iotest.OneByteReader(strings.NewReader(noise + Magic + string(hello))))
		got, err := r.SkipNoise()
		if err != nil || string(got) != noise {
			t.Errorf("noise of %d bytes: got %.40q (%d bytes), %v", len(noise), got, len(got), err)
			continue
		}
		if f, err := r.Read(); err != nil || f.Type != TypeHello {
			t.Errorf("after noise of %d bytes: %s, %v", len(noise), f.Type, err)
		}
	}
}

// endless is a stream of garbage that never stops.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "\x89TARE\r\nbash: no such file "[(e.read+i)%26]
	}
	e.read += len(p)
	return len(p), nil
}

func TestGarbageForEverEnds(t *testing.T) {
	in := &endless{}
	noise, err := NewReader(in).SkipNoise()
	if !errors.Is(err, ErrNoMagic) || len(noise) != MaxNoise {
		t.Errorf("got %v and %d bytes", err, len(noise))
	}
	if in.read > 3*MaxNoise {
		t.Errorf("%d bytes were read", in.read)
	}
}

func TestMangledMagicIsRecognised(t *testing.T) {
	// What a terminal makes of it: the line feed becomes carriage return and line feed.
	cooked := strings.ReplaceAll(Magic, "\n", "\r\n")
	noise, err := NewReader(strings.NewReader("login: " + cooked + "....")).SkipNoise()
	if !errors.Is(err, ErrMangled) || !errors.Is(err, io.ErrUnexpectedEOF) ||
		!bytes.HasPrefix(noise, []byte("login: ")) {
		t.Errorf("got %v with noise %q", err, noise)
	}
}

func TestSamplesSurvive(t *testing.T) {
	for _, values := range [][]float64{nil, {0},
		{math.Copysign(0, -1), 1.5, math.MaxFloat64, math.SmallestNonzeroFloat64}, make([]float64, MaxSamples)} {
		p, err := PackSamples("latency_µs", values)
		if err != nil {
			t.Fatal(err)
		}
		name, got, err := UnpackSamples(p)
		if err != nil || name != "latency_µs" || len(got) != len(values) {
			t.Fatalf("got %q, %d values, %v", name, len(got), err)
		}
		for i := range got {
			if math.Float64bits(got[i]) != math.Float64bits(values[i]) {
				t.Errorf("value %d: %v became %v", i, values[i], got[i])
			}
		}
	}
}

func TestBadSamplesAreRefused(t *testing.T) {
	for name, call := range map[string]func() error{
		"no name":   func() error { _, err := PackSamples("", nil); return err },
		"long name": func() error { _, err := PackSamples(strings.Repeat("n", MaxSampleName+1), nil); return err },
		"not UTF-8": func() error { _, err := PackSamples("\xff", nil); return err },
		"too many":  func() error { _, err := PackSamples("n", make([]float64, MaxSamples+1)); return err },
		"NaN":       func() error { _, err := PackSamples("n", []float64{math.NaN()}); return err },
		"infinite":  func() error { _, err := PackSamples("n", []float64{math.Inf(-1)}); return err },
		"empty":     func() error { _, _, err := UnpackSamples(nil); return err },
		"torn name": func() error { _, _, err := UnpackSamples([]byte{5, 0, 'a'}); return err },
		"odd bytes": func() error { _, _, err := UnpackSamples([]byte{1, 0, 'a', 1, 2, 3}); return err },
		"NaN there": func() error {
			_, _, err := UnpackSamples([]byte{1, 0, 'a', 0, 0, 0, 0, 0, 0, 0xf8,
				0x7f})
			return err
		},
	} {
		if call() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestThinKeepsTheCourse(t *testing.T) {
	many := make([]float64, 10*MaxSamples+3)
	for i := range many {
		many[i] = float64(i)
	}
	got := Thin(many)
	if len(got) != MaxSamples || got[0] != 0 || got[MaxSamples-1] < float64(len(many))*0.999 {
		t.Errorf("%d values from %v to %v", len(got), got[0], got[len(got)-1])
	}
	for i := 1; i < len(got); i++ {
		if step := got[i] - got[i-1]; step < 10 || step > 11 {
			t.Fatalf("a step of %v at %d", step, i)
		}
	}
	if few := []float64{1, 2}; len(Thin(few)) != 2 {
		t.Error("few values were thinned")
	}
}

func TestVersionLine(t *testing.T) {
	build, goos, goarch, ok := ParseVersionLine("Last login: today\n" + VersionLine() + "\nbye\n")
	if !ok || build != "dev" || goos != runtime.GOOS || goarch != runtime.GOARCH {
		t.Errorf("got %q %q %q %v", build, goos, goarch, ok)
	}
	for _, s := range []string{"", "tare-agent 0.1.0 build dev", "tare-agent 0.1.0 build dev linux",
		strings.Repeat("a ", 5)} {
		if _, _, _, ok := ParseVersionLine(s); ok {
			t.Errorf("%q was taken for a version line", s)
		}
	}
}

func TestClockOnlyGoesOn(t *testing.T) {
	last := Now()
	for range 100000 {
		now := Now()
		if now < last {
			t.Fatalf("the clock went from %d back to %d", last, now)
		}
		last = now
	}
}

func TestPeersOfAnotherBuildAreRefused(t *testing.T) {
	h := NewHello()
	if err := CheckPeer("agent", h.Protocol, h.Build); err != nil {
		t.Errorf("the own build: %v", err)
	}
	for _, err := range []error{CheckPeer("agent", Protocol, "feedbeef"), CheckPeer("agent", Protocol+1, h.Build)} {
		if err == nil || !strings.Contains(err.Error(), `"`+h.Build+`"`) {
			t.Errorf("the refusal %v does not name both builds", err)
		}
	}
}
