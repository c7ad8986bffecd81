package container

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

// stream is the connection to an agent through the engine's client.
type stream struct {
	*proc.Stream
	r       *bufio.Reader
	engine  engine
	name    string // the container's
	started time.Time
}

// startAgent runs the engine's client with args and returns after the agent's first output. So if a container does not
// start, the error here has the engine's reason.
func startAgent(ctx context.Context, e engine, envName, container string, args ...string) (*stream, error) {
	// The stream outlives ctx, which bounds only the start.
	p, err := proc.Start(proc.Command(context.WithoutCancel(ctx), e.argv(args...)...))
	if err != nil {
		return nil, openError(e, envName, "start agent", err)
	}
	s := &stream{Stream: p, r: bufio.NewReaderSize(p, 64<<10), engine: e, name: container, started: time.Now()}
	spoke := make(chan error, 1)
	go func() {
		_, err := s.r.Peek(1)
		spoke <- err
	}()
	select {
	case err = <-spoke:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return s, nil
	}
	s.Close()
	exit := &proc.ExitError{Argv: e.argv(args...), Code: -1, Stderr: proc.Printable(s.Stderr()), Err: err}
	if ctx.Err() == nil {
		exit.Err = s.ending()
	}
	oe := &env.OpenError{Env: envName, Op: "start agent", Err: exit, Remedy: e.remedy(exit), Evidence: s.Diagnose()}
	return nil, oe
}

// errBusy rejects a second agent, because two would disturb each other's measurements.
var errBusy = errors.New("another agent is still running; close its stream first")

// busy tells whether the stream's agent may still run. A nil stream is not busy.
func (s *stream) busy() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.Done():
		return false
	default:
		return true
	}
}

// Read reads the agent's output.
func (s *stream) Read(p []byte) (int, error) { return s.r.Read(p) }

// ending says how the client ended. Call it only when the client has ended or is about to.
func (s *stream) ending() error {
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		return errors.New("the agent's output ended")
	}
	if err := s.Err(); err != nil {
		return err
	}
	return errors.New("the agent has ended")
}

// diagnoseTime bounds the collection of evidence. Docker alone takes a second; see --until below.
const diagnoseTime = 10 * time.Second

// Diagnose returns the client's output, how it ended, and what the engine recorded about the container since the start:
// that it ran out of memory, was killed, or that the daemon is gone. It also works after the container was removed,
// because the engine removes it when it ends.
func (s *stream) Diagnose() []byte {
	out := s.Stderr()
	select {
	case <-s.Done():
		if err := s.Err(); err != nil {
			out = fmt.Appendf(out, "\n%s ended: %v\n", s.engine.name, err)
		}
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), diagnoseTime)
	defer cancel()
	args := []string{"events", "--filter", "container=" + s.name,
		"--since", strconv.FormatInt(s.started.Add(-time.Second).Unix(), 10)}
	if s.engine.name == "podman" {
		args = append(args, "--stream=false")
	} else {
		args = append(args, "--until", strconv.FormatInt(time.Now().Add(time.Second).Unix(), 10))
	}
	events, err := s.engine.run(ctx, nil, args...)
	out = append(out, events...)
	if err != nil {
		out = fmt.Appendf(out, "\n%s did not report on the container: %v\n", s.engine.name, err)
	}
	// The engine learns of the end and of a lack of memory in different ways, and may remove the container before it
	// learns of the latter.
	if bytes.Contains(events, []byte("exitCode=137")) && !bytes.Contains(events, []byte("container oom")) {
		out = append(out,
			"exit code 137 means killed; if nobody killed it, the container reached its memory limit\n"...)
	}
	return out
}
