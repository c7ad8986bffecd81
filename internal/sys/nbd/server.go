package nbd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Options say how a device is served.
type Options struct {
	Disk   string // an existing raw file; its size is the device's
	Socket string // path of the unix socket to make, at most some 100 bytes long
	// Volatile gives the device a volatile cache, so that CutAt works.
	Volatile bool
	// Cache is the size of that cache in bytes; 0 means CacheSize.
	Cache int64
}

// Server serves a device to one client at a time.
type Server struct {
	file     *os.File
	size     int64
	medium   medium
	cache    *volatileCache // nil when writes pass
	listener net.Listener
	accepted sync.WaitGroup

	mu     sync.Mutex
	conn   net.Conn // the client's
	closed bool
	failed error
}

// handshakeTime is how long a client may take until it sends commands: a silent client would block others.
const handshakeTime = 30 * time.Second

// Start serves until Close or CutAt.
func Start(ctx context.Context, o Options) (*Server, error) {
	file, size, err := openDisk(o.Disk)
	if err != nil {
		return nil, err
	}
	s := &Server{file: file, size: size, medium: &directFile{file: file}}
	if o.Volatile {
		s.cache = &volatileCache{file: file, limit: o.Cache}
		if o.Cache == 0 {
			s.cache.limit = CacheSize
		}
		s.medium = s.cache
	}
	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "unix", o.Socket); err != nil {
		file.Close()
		return nil, fmt.Errorf("listen on %s: %w", o.Socket, err)
	}
	// Whoever can open the socket can write to the disk.
	if err := os.Chmod(o.Socket, 0o600); err != nil {
		s.Close()
		return nil, fmt.Errorf("listen on %s: %w", o.Socket, err)
	}
	s.accepted.Go(s.accept)
	return s, nil
}

// accept serves one client after the other: the device does not allow two connections, and a second client waits until
// the first has left.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.take(c) {
			c.Close()
			return
		}
		err = s.serve(c)
		c.Close()
		s.mu.Lock()
		s.conn = nil
		if err != nil && !s.closed && s.failed == nil {
			s.failed = err
		}
		s.mu.Unlock()
	}
}

// take makes c the client's connection, unless the server is being closed.
func (s *Server) take(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conn = c
	return true
}

func (s *Server) serve(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	if err := handshake(c, s.size); err != nil {
		if errors.Is(err, errDone) {
			return nil
		}
		return fmt.Errorf("handshake with the client: %w", err)
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return newTransmission(c, s.medium, s.size).serve()
}

// Err is the error of the first connection that the client did not end properly; nil if there was none.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// CutAt pulls the plug when so many writes are pending, or after wait: between the flushes of a quiet machine there is
// often nothing to lose. From then on all requests fail, the connection breaks, and the file has the flushed writes
// and, of the others, those that fault and seed leave. The server must still be closed.
func (s *Server) CutAt(pending int, wait time.Duration, fault Fault, seed uint64) (Cut, error) {
	if s.cache == nil {
		return Cut{}, errors.New("pull the plug: the device has no volatile cache")
	}
	c, err := s.cache.arm(pending, fault, seed, wait)
	s.hangUp()
	if err != nil {
		return c, fmt.Errorf("pull the plug: %w", err)
	}
	return c, nil
}

// IgnoreFlushes has a volatile cache ignore flushes from now on, before a cut: those of whatever closes the disk after
// the machine that used it was killed are not the machine's.
func (s *Server) IgnoreFlushes() {
	if s.cache == nil {
		return
	}
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.deaf = true
}

func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.conn != nil {
		s.conn.Close()
	}
}

// Close ends the connection and removes the socket. All writes are in the file, unless the plug was pulled.
func (s *Server) Close() error {
	s.hangUp()
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	s.accepted.Wait()
	return errors.Join(err, s.file.Close())
}
