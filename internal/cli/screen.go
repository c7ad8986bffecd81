package cli

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// screen is standard error while something else may draw on it: what is written goes above the live display while there
// is one, which would otherwise wipe it at its next frame.
type screen struct {
	w      io.Writer
	broken func() // called when nobody reads what is written; may be nil
	mu     sync.Mutex
	live   *live // nil when nothing draws
}

// Write is safe for concurrent use. It does not wait for the terminal while there is a live display.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	l := s.live
	s.mu.Unlock()
	if l != nil && l.above(string(p)) {
		return len(p), nil
	}
	n, err := s.w.Write(p)
	if errors.Is(err, syscall.EPIPE) && s.broken != nil {
		s.broken()
	}
	return n, err
}

// show hands the terminal over to a display, or back with nil.
func (s *screen) show(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = l
}
