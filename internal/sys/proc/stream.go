package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Stream is a child's standard input and output as one connection. Closing it ends the child and its process group;
// when the child ends by itself, the rest of its group is killed.
type Stream struct {
	cmd    *Cmd
	in     io.WriteCloser
	out    *os.File
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
	// An own pipe instead of StdoutPipe: Wait must be callable while a reader still reads the child's last output.
	r, w, err := os.Pipe()
	if err != nil {
		s.in.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	s.out, cmd.Stdout, cmd.Stderr = r, w, s.stderr
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	go func() {
		s.err = wait(cmd, func() bool { return true })
		// The child's last output is still read; another process that inherited the pipe must not block the reader for
		// ever.
		s.out.SetReadDeadline(time.Now().Add(Grace))
		close(s.done)
	}()
	return s, nil
}

// Read reads from the child's standard output. It ends at most one Grace after the child has ended, even if a process
// that the child left behind keeps its output open.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("read from %s: it has ended, but a process that it left behind keeps its output open: %w",
			s.cmd.Args[0], io.ErrUnexpectedEOF)
	}
	return n, err
}

// Write writes to the child's standard input.
func (s *Stream) Write(p []byte) (int, error) { return s.in.Write(p) }

// CloseWrite closes the child's standard input, which tells an agent to leave.
func (s *Stream) CloseWrite() error { return s.in.Close() }

// Stderr returns the end of the child's standard error.
func (s *Stream) Stderr() []byte { return s.stderr.Bytes() }

// Diagnose returns the end of the child's standard error and, if the child has ended or ends now, how it ended. It
// takes at most a second.
func (s *Stream) Diagnose() []byte {
	b := s.stderr.Bytes()
	// The reader sees the end of the output a moment before the child is reaped.
	if !s.ended(time.Second) {
		return b
	}
	b = s.stderr.Bytes()
	if n := len(b); n > 0 && b[n-1] != '\n' {
		b = append(b, '\n')
	}
	how := "exit status 0"
	if s.err != nil {
		how = s.err.Error()
	}
	return fmt.Appendf(b, "[%s: %s]\n", filepath.Base(s.cmd.Args[0]), how)
}

// Done is closed when the child has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err returns how the child ended; call it only after Done is closed.
func (s *Stream) Err() error { return s.err }

// How says how the child ended, even if it succeeded; call it only after Done is closed.
func (s *Stream) How() error {
	if s.err != nil {
		return s.err
	}
	return errors.New("exit status 0")
}

// Pid returns the child's process id.
func (s *Stream) Pid() int { return s.cmd.Process.Pid }

// Close ends the child: close its input and wait, then SIGTERM to its group and wait, then SIGKILL. It is idempotent
// and does not report how the child ended, because a child that had to be killed is not an error of the caller.
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

// Kill ends the child and its process group at once, without a chance to clean up. The stream must still be closed. If
// the child has ended, it returns os.ErrProcessDone: another group may have its number now.
func (s *Stream) Kill() error {
	select {
	case <-s.done:
		return os.ErrProcessDone
	default:
		return kill(s.cmd)
	}
}

// Signal sends the child a signal. If the child has ended, it returns os.ErrProcessDone.
func (s *Stream) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

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
