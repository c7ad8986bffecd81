package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/record"
)

// canned is a connection to an agent that sends fixed answers, whatever the request is.
type canned struct{ io.Reader }

func (canned) Write(p []byte) (int, error) { return len(p), nil }
func (canned) CloseWrite() error           { return nil }
func (canned) Close() error                { return nil }

type line struct {
	typ     wire.Type
	trial   uint32
	payload string
}

// speech is the output of an agent after a valid hello. Run sends three pings, the run, and three pings.
func speech(t testing.TB, lines ...line) []byte {
	t.Helper()
	var b bytes.Buffer
	w := wire.NewWriter(&b)
	if err := errors.Join(w.Announce(), w.JSON(wire.TypeHello, 0, wire.NewHello())); err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := w.Write(wire.Frame{Type: l.typ, Trial: l.trial, Payload: []byte(l.payload)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func pongs(from uint32) []line {
	return []line{{wire.TypePong, from, "{}"}, {wire.TypePong, from + 1, "{}"}, {wire.TypePong, from + 2, "{}"}}
}

func listen(t testing.TB, said []byte) (deploy.Outcome, *deploy.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := deploy.Connect(ctx, canned{bytes.NewReader(said)}, "test")
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Run(ctx, wire.Run{Job: job("t"), Work: 1})
	return o, s, err
}

func TestAgentsThatDoNotKeepToTheProtocolAreDropped(t *testing.T) {
	samples, err := wire.PackSamples("x", []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	begin, end, result := line{wire.TypeBegin, 4, ""}, line{wire.TypeEnd, 4, ""}, line{wire.TypeResult, 4, "{}"}
	for name, c := range map[string]struct {
		says    []line
		message string
	}{
		"no marks":     {[]line{result}, "without Begin and End"},
		"no end":       {[]line{begin, result}, "without Begin and End"},
		"end first":    {[]line{end}, "answered with a end frame"},
		"begins twice": {[]line{begin, begin}, "answered with a begin frame"},
		"samples twice": {[]line{begin, end, {wire.TypeSamples, 4, string(samples)},
			{wire.TypeSamples, 4, string(samples)}}, "twice"},
		"broken samples":  {[]line{begin, end, {wire.TypeSamples, 4, "x"}}, "unpack samples"},
		"broken result":   {[]line{begin, end, {wire.TypeResult, 4, "{"}}, "decode result frame"},
		"speaks of later": {[]line{{wire.TypeResult, 9, "{}"}}, "before it was made"},
		"ends":            {[]line{begin}, "the agent has ended"},
		"broken refusal":  {[]line{{wire.TypeFailure, 4, "["}}, "decode failure frame"},
		"refuses a welcome": {[]line{{wire.TypeFailure, 0, `{"kind":"refused","message":"of another build"}`}},
			"of another build"},
	} {
		_, s, err := listen(t, speech(t, append(pongs(1), c.says...)...))
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != deploy.Died || !strings.Contains(f.Message, c.message) || s.Alive() {
			t.Errorf("%s: got %v, alive %v; want %q", name, err, s.Alive(), c.message)
		}
	}
}

func TestLateAnswersAreSkipped(t *testing.T) {
	said := append(pongs(1), line{wire.TypeResult, 2, "{}"}, line{wire.TypeBegin, 4, ""}, line{wire.TypeEnd, 4, ""},
		line{wire.TypeResult, 4, `{"elapsed_ns":7}`})
	o, s, err := listen(t, speech(t, append(said, pongs(5)...)...))
	if err != nil || o.Result.ElapsedNS != 7 || !s.Alive() {
		t.Errorf("got %+v, %v", o, err)
	}
}

// Whatever an agent sends after its hello, a trial ends, with an outcome or with a failure.
func FuzzConn(f *testing.F) {
	hello := len(speech(f))
	whole := append(pongs(1), line{wire.TypeBegin, 4, ""}, line{wire.TypeEnd, 4, ""},
		line{wire.TypeResult, 4, `{"elapsed_ns":7,"metrics":{"x":1}}`})
	f.Add(speech(f, append(whole, pongs(5)...)...)[hello:])
	f.Add(speech(f, append(pongs(1), line{wire.TypeFailure, 4, `{"kind":"x"}`})...)[hello:])
	f.Add(speech(f, pongs(1)...)[hello:])
	f.Add([]byte("Connection closed by remote host"))
	f.Fuzz(func(t *testing.T, after []byte) {
		_, _, err := listen(t, append(speech(t), after...))
		if err == nil {
			return
		}
		if _, ok := errors.AsType[*record.Failure](err); !ok {
			t.Fatalf("%v is no failure", err)
		}
	})
}
