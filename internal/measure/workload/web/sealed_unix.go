//go:build unix

package web

import (
	"errors"
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sealed is the TLS of a connection. Its handshake needs several answers of the server: where the poller can be told so
// it is done by a goroutine of its own, so that other connections of the lane go on.
type sealed struct {
	wire   wire
	over   io.ReadWriter
	failed error
	broken error         // what is wrong with the connection, if it is no error of the system
	done   chan struct{} // closed at the end of the handshake
}

// handshake begins the handshake on a connection that has just been made.
func (l *lane) handshake(i int) error {
	c := &l.conns[i]
	watched := c.stage == connecting
	c.stage = sealing
	var err error
	c.tls, err = l.shake(c.fd, i, watched)
	return err
}

// shake does the handshake on a socket, which the poller may watch already. The poller is told when it is over.
func (l *lane) shake(fd, i int, watched bool) (*sealed, error) {
	s := &sealed{wire: wire{fd: fd, until: time.Now().Add(l.timeout), waits: true}, done: make(chan struct{})}
	if watched {
		if err := l.poll.forget(fd, i); err != nil {
			close(s.done)
			return s, err
		}
	}
	if !pollAside {
		s.shake(l.seal)
		return s, l.poll.add(fd, i, true)
	}
	poll := l.poll
	go func() {
		defer close(s.done)
		s.shake(l.seal)
		if err := poll.add(fd, i, true); err != nil && s.failed == nil {
			s.failed = err
		}
	}()
	return s, nil
}

func (s *sealed) shake(seal Seal) {
	s.over, s.failed = seal(&s.wire)
	s.wire.waits = false
}

// err waits for the end of the handshake, which the poller has told of, and returns how it went.
func (s *sealed) err() error {
	if pollAside {
		<-s.done
	}
	return s.failed
}

// end has a handshake that goes on fail, and waits for that.
func (s *sealed) end() {
	if !pollAside {
		return
	}
	select {
	case <-s.done:
	default:
		_ = unix.Shutdown(s.wire.fd, unix.SHUT_RDWR)
		<-s.done
	}
}

// read is as of a socket: 0 bytes at the end, EAGAIN if nothing has come.
func (s *sealed) read(p []byte) (int, syscall.Errno) {
	n, err := s.over.Read(p)
	if n > 0 || err == nil {
		return n, 0
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, 0
	}
	return 0, s.number(err)
}

// write sends all of p.
func (s *sealed) write(p []byte) (int, syscall.Errno) {
	s.wire.until = time.Now().Add(sealedWrite)
	n, err := s.over.Write(p)
	if err != nil {
		return n, s.number(err)
	}
	return n, 0
}

// sealedWrite bounds how long a request may take to be sent: TLS cannot go on with a part of it.
const sealedWrite = 10 * time.Second

// number is the system's number of an error.
func (s *sealed) number(err error) syscall.Errno {
	if errors.Is(err, again{}) {
		return unix.EAGAIN
	}
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	s.broken = err
	return unix.EPROTO
}
