package proc

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Stream is a child's standard input and output as one connection. Closing it ends the child.
type Stream struct {
	cmd    *Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr *Tail
	done   chan struct{}
	err    error
	once   sync.Once
}

// Start starts cmd, made with Command, and connects to its standard streams. Standard error is kept for Stderr.
func Start(cmd *Cmd) (*Stream, error) {
	s := &Stream{cmd: cmd, stderr: NewTail(32 << 10), done: make(chan struct{})}
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// An own pipe instead of StdoutPipe: Wait must be callable while a reader still drains what the child wrote last.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.out, cmd.Stdout, cmd.Stderr = r, w, s.stderr
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// Read reads from the child's standard output.
func (s *Stream) Read(p []byte) (int, error) { return s.out.Read(p) }

// Write writes to the child's standard input.
func (s *Stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite closes the child's standard input, which is how an agent is told to leave.
func (s *Stream) CloseWrite() error { return s.in.Close() }

// Stderr returns the end of what the child wrote to its standard error.
func (s *Stream) Stderr() []byte { return s.stderr.Bytes() }

// Done is closed when the child has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err returns how the child ended; call it only after Done is closed.
func (s *Stream) Err() error { return s.err }

// Pid returns the child's process id.
func (s *Stream) Pid() int { return s.cmd.Process.Pid }

// Close ends the child: close its input and wait, then SIGTERM to its group and wait, then SIGKILL. It is idempotent
// and does not report how the child ended, because a child that had to be killed is no error of the caller's.
func (s *Stream) Close() error {
	s.once.Do(func() {
		s.in.Close()
		if !s.ended(2 * time.Second) {
			terminate(s.cmd)
			if !s.ended(2 * time.Second) {
				kill(s.cmd)
				s.ended(2 * time.Second)
			}
		}
		s.out.Close()
	})
	return nil
}

func (s *Stream) ended(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-s.done:
		return true
	case <-t.C:
		return false
	}
}
