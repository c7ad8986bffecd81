package command

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of the output that is kept of a child, in bytes.
const (
	maxOutput = 8 << 20  // of the standard output that figures are taken from
	maxTail   = 16 << 10 // of the standard error that is evidence of a failure
)

// drainGrace bounds the wait for output after a run has ended. The wait takes that long only if the run left a process
// behind that keeps the pipe open.
const drainGrace = time.Second

// sink drains a pipe whose writing end is a child's output. It costs nothing as long as nothing is written.
type sink struct {
	r, w *os.File
	done chan struct{}
	now  bool // finish does not wait: nobody needs what is still to come

	mu   sync.Mutex
	keep func(*sink, []byte)
	data []byte
	lost int64 // bytes not kept
}

// newSink makes a pipe and drains it. keep adds what was read to s.data, within bounds.
func newSink(keep func(*sink, []byte)) (*sink, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the command's output: %w", err)
	}
	s := &sink{r: r, w: w, keep: keep, done: make(chan struct{})}
	go s.drain()
	return s, nil
}

func (s *sink) drain() {
	defer close(s.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := s.r.Read(buf)
		s.mu.Lock()
		s.keep(s, buf[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// keepFirst keeps the beginning: figures are only read from complete output.
func keepFirst(s *sink, p []byte) {
	n := min(len(p), maxOutput-len(s.data))
	s.data = append(s.data, p[:n]...)
	s.lost += int64(len(p) - n)
}

// keepLast keeps the end, where programs say why they fail.
func keepLast(s *sink, p []byte) {
	s.data = append(s.data, p...)
	if n := len(s.data) - maxTail; n > 0 {
		s.lost += int64(n)
		s.data = append(s.data[:0], s.data[n:]...)
	}
}

// finish closes the pipe and returns the kept output and the number of bytes dropped.
func (s *sink) finish() ([]byte, int64) {
	s.w.Close()
	select {
	case <-s.done:
	default:
		// Pipes have no deadlines on some platforms; there the reading end is closed instead.
		grace := drainGrace
		if s.now {
			grace = 0
		}
		if s.r.SetReadDeadline(time.Now().Add(grace)) != nil {
			time.AfterFunc(grace, func() { s.r.Close() })
		}
		<-s.done
	}
	s.r.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.lost
}

// printable makes foreign output safe for a report: control characters and invalid UTF-8 are shown as escapes.
func printable(p []byte) string {
	var b strings.Builder
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, "\\x%02x", p[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r == '\r':
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
		p = p[n:]
	}
	return strings.TrimSpace(b.String())
}
