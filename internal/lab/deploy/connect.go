package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// HandshakeError is the error of a connection on which no usable agent answered.
type HandshakeError struct {
	Err      error
	Noise    []byte // output before the magic number, at most wire.MaxNoise bytes
	Diagnose []byte // evidence of the stream and the environment
}

func (e *HandshakeError) Error() string {
	s := "handshake with the agent: " + e.Err.Error()
	if last := lastLine(e.Evidence()); last != "" {
		s += "; its last output: " + last
	}
	return s
}

func (e *HandshakeError) Unwrap() error { return e.Err }

// Evidence returns the noise and then the diagnosis, as they were received.
func (e *HandshakeError) Evidence() []byte {
	all := append([]byte(nil), e.Noise...)
	if len(all) > 0 && len(e.Diagnose) > 0 && all[len(all)-1] != '\n' {
		all = append(all, '\n')
	}
	return append(all, e.Diagnose...)
}

// lastLine returns the last line that is not empty, made printable and short, with the note after it on how the program
// ended. A kernel panic is preferred, because the console prints much more after it.
func lastLine(b []byte) string {
	if l := proc.Telling(b); strings.Contains(l, "Kernel panic") {
		return shorten(l)
	}
	lines := strings.FieldsFunc(proc.Printable(b[max(0, len(b)-2048):]), func(c rune) bool { return c == '\n' })
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.TrimSpace(s) == "" })
	if len(lines) == 0 {
		return ""
	}
	s := strings.TrimSpace(lines[len(lines)-1])
	if len(lines) > 1 && s[0] == '[' {
		s = strings.TrimSpace(lines[len(lines)-2]) + " " + s
	}
	return shorten(s)
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 200 {
		s = "..." + string(r[len(r)-200:])
	}
	return s
}

// quietTime is how long a handshake may take when ctx sets no deadline.
const quietTime = 60 * time.Second

// Connect waits for the hello of the agent at the other end of stream, checks that it is of this build, and welcomes
// it. ctx bounds the handshake, not the connection. On failure the stream is closed and the error is a *HandshakeError.
// When the agent no longer answers, now or later, the witnesses, such as the environment, are asked for evidence; a
// stream that is an env.Diagnoser is always asked.
func Connect(ctx context.Context, stream env.Stream, runID string, witnesses ...env.Diagnoser) (*Conn, error) {
	if d, ok := stream.(env.Diagnoser); ok {
		witnesses = append([]env.Diagnoser{d}, witnesses...)
	}
	ctx, cancel := proc.WithTimeout(ctx, quietTime)
	defer cancel()
	s := &Conn{
		stream: stream, witnesses: witnesses,
		in: wire.NewReader(stream), out: wire.NewWriter(stream),
		arrivals: make(chan arrival, 16), closed: make(chan struct{}),
	}
	type greeting struct {
		hello wire.Hello
		noise []byte
		err   error
	}
	got := make(chan greeting, 1)
	go func() {
		var g greeting
		if g.noise, g.err = s.in.SkipNoise(); g.err == nil {
			g.hello, g.err = readHello(s.in)
		}
		got <- g
	}()
	fail := func(noise []byte, err error) (*Conn, error) {
		evidence := s.testimony()
		stream.Close()
		return nil, &HandshakeError{Err: err, Noise: noise, Diagnose: evidence}
	}
	var g greeting
	select {
	case g = <-got:
	case <-ctx.Done():
		err := silence(ctx)
		// Closing the stream ends the reader. Then what it has read so far is known.
		evidence := s.testimony()
		stream.Close()
		select {
		case g = <-got:
		case <-time.After(time.Second):
		}
		return nil, &HandshakeError{Err: err, Noise: g.noise, Diagnose: evidence}
	}
	if g.err != nil {
		return fail(g.noise, g.err)
	}
	if err := wire.CheckPeer("agent", g.hello.Protocol, g.hello.Build); err != nil {
		return fail(g.noise, err)
	}
	s.hello = g.hello
	if err := s.send(ctx, func() error { return s.out.JSON(wire.TypeWelcome, 0, wire.NewWelcome(runID)) }); err != nil {
		return fail(g.noise, err)
	}
	go s.read()
	return s, nil
}

// Attach starts an agent in e and connects to it. If e is an env.Diagnoser, it is a witness. ctx bounds the start and
// the handshake, not the connection. The error is an *env.OpenError if the environment itself explains the failure, a
// *HandshakeError, or any other error of the start.
func Attach(ctx context.Context, e env.Env, runID string) (*Conn, error) {
	stream, err := e.Agent(ctx)
	if _, said := errors.AsType[*env.OpenError](err); said {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	if d, ok := e.(env.Diagnoser); ok {
		return Connect(ctx, stream, runID, d)
	}
	return Connect(ctx, stream, runID)
}

func readHello(in *wire.Reader) (h wire.Hello, err error) {
	f, err := in.Read()
	if err != nil {
		return h, fmt.Errorf("the agent's first message: %w", err)
	}
	if f.Type != wire.TypeHello {
		return h, fmt.Errorf("the agent's first message is a %s frame", f.Type)
	}
	return h, f.Decode(&h)
}

func silence(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no agent answered before the deadline: %w", ctx.Err())
	}
	return fmt.Errorf("stopped waiting for the agent: %w", ctx.Err())
}

// testimony collects evidence about an agent that no longer answers.
func (s *Conn) testimony() []byte {
	var all []byte
	for _, w := range s.witnesses {
		// A stream often includes the environment's evidence. Do not repeat it.
		if said := w.Diagnose(); !bytes.Contains(all, bytes.TrimSpace(said)) {
			all = append(all, said...)
		}
	}
	return all
}

// Died is the kind of failure of an environment whose connection to the agent broke.
const Died = "environment-died"

// lost marks the connection as unusable and says why, with evidence.
func (s *Conn) lost(cause error) *record.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead == nil {
		evidence := s.testimony()
		msg := fmt.Sprintf("the connection to the agent broke: %v", cause)
		if last := lastLine(evidence); last != "" {
			msg += "; its last output: " + last
		}
		s.dead = &record.Failure{Kind: Died, Message: msg, Evidence: proc.Printable(evidence)}
	}
	return s.dead
}
