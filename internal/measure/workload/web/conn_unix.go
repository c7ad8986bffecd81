//go:build unix

package web

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"tare/internal/unit"
)

// stage is the thing that a connection waits for.
type stage uint8

const (
	idle       stage = iota // nothing; it may be open
	connecting              // to be connected
	sealing                 // for the handshake of TLS
	sending                 // to be able to send the rest of the request
	receiving               // for the response
	closing                 // for the server to close, which it has announced
)

// conn is one connection.
type conn struct {
	fd     int // -1 when there is none
	stage  stage
	served bool // it has returned a response before
	hops   uint8
	sent   int
	begun  int64 // when the request was sent, by the lane's clock
	due    int64 // when it was due, in the open model
	ask    *ask
	hop    *hop // which is being asked for: the ask's, or a redirect's
	res    response
	kept   *keeper // of its body; nil if none is looked into
	tls    *sealed // nil without TLS
}

func (l *lane) open(i int) error {
	c := &l.conns[i]
	fd, err := socket(l.family)
	if err != nil {
		return l.bad(err)
	}
	c.fd, c.served, c.sent = fd, false, 0
	early := sendsEarly && l.seal == nil
	if early {
		answerLate(fd)
	}
	err = unix.Connect(fd, l.to)
	switch {
	case err == unix.EINPROGRESS || err == unix.EINTR:
		c.stage = connecting
		if early {
			return l.sendEarly(i)
		}
		return l.poll.add(fd, i, true)
	case err == unix.EADDRNOTAVAIL:
		return l.bad(fmt.Errorf("connect: %w: all local ports are in TIME_WAIT; use keepalive=yes or shorter trials",
			err))
	case err != nil:
		return l.bad(fmt.Errorf("connect: %w", err))
	}
	if l.seal != nil {
		return l.handshake(i)
	}
	if err := l.poll.add(fd, i, false); err != nil {
		return err
	}
	return l.send(i)
}

// sendEarly sends the request without waiting for the connection: over a loopback and to a server nearby it is often
// made by now, which spares three system calls.
func (l *lane) sendEarly(i int) error {
	c := &l.conns[i]
	n, e := write(c.fd, c.hop.bytes)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
		return l.poll.add(c.fd, i, true)
	case e != 0:
		return l.bad(fmt.Errorf("connect: %w", e))
	}
	c.stage, c.sent = receiving, n
	if n < len(c.hop.bytes) {
		c.stage = sending
	}
	return l.poll.add(c.fd, i, c.stage == sending)
}

// send sends the request, which nearly always is one write.
func (l *lane) send(i int) error {
	c := &l.conns[i]
	if c.stage != sending {
		c.sent = 0
	}
	for {
		var n int
		var e syscall.Errno
		if c.tls == nil {
			n, e = write(c.fd, c.hop.bytes[c.sent:])
		} else {
			n, e = c.tls.write(c.hop.bytes)
		}
		switch {
		case e == 0 && c.sent+n == len(c.hop.bytes):
			was := c.stage
			c.stage = receiving
			if was == sending || was == connecting || was == sealing {
				return l.poll.change(c.fd, i, false)
			}
			return nil
		case e == 0:
			c.sent += n
		case e == unix.EINTR:
		case e == unix.EAGAIN:
			was := c.stage
			c.stage = sending
			if was == sending || was == connecting {
				return nil // is watched for that already
			}
			return l.poll.change(c.fd, i, true)
		default:
			return l.lost(i, e)
		}
	}
}

// serve continues with a connection that is ready.
func (l *lane) serve(i int) error {
	if l.mux != nil {
		return l.mux.serve(i)
	}
	c := &l.conns[i]
	switch c.stage {
	case connecting:
		if err := socketError(c.fd); err != nil {
			return l.bad(fmt.Errorf("connect: %w", err))
		}
		if l.seal != nil {
			return l.handshake(i)
		}
		return l.send(i)
	case sealing:
		if err := c.tls.err(); err != nil {
			return l.bad(fmt.Errorf("TLS: %w", err))
		}
		if p, ok := c.tls.over.(protocol); ok && l.tls == "" {
			l.tls = p.Protocol()
		}
		return l.send(i)
	case sending:
		return l.send(i)
	case idle:
		// Data without a request means that the server is about to close.
		l.shut(i)
		return nil
	}
	for {
		var n int
		var e syscall.Errno
		if c.tls == nil {
			n, e = read(c.fd, l.buf)
		} else {
			n, e = c.tls.read(l.buf)
		}
		switch {
		case e == unix.EINTR:
			continue
		case e == unix.EAGAIN:
			return nil
		case e != 0:
			return l.lost(i, e)
		case n == 0:
			return l.ended(i)
		case c.stage == closing:
			return l.bad(fmt.Errorf("the server sent %s after the end of the response", unit.Plural(int64(n), "byte")))
		}
		done, err := c.res.feed(l.buf[:n])
		switch {
		case err != nil:
			return l.in(c, err)
		case done:
			// The end of the connection usually follows the last response at once.
			if err := l.complete(i); err != nil || c.stage != closing {
				return err
			}
			continue
		case c.ask.length >= 0 && c.res.body > c.ask.length && c.res.status == l.status:
			return l.in(c, fmt.Errorf("the body is longer than the first one's %s", unit.Plural(c.ask.length, "byte")))
		case c.res.body > l.within.most && c.res.status == l.status:
			return l.in(c, l.within.wrong(c.res.body))
		case c.kept != nil && c.kept.over && c.res.status == l.status:
			return l.in(c, errKept)
		case n < len(l.buf) && c.tls == nil:
			l.now = l.clock() // for the sweep, if the rest arrives slowly
			return nil
		}
	}
}

// lost is a connection that an error ended.
func (l *lane) lost(i int, e syscall.Errno) error {
	c := &l.conns[i]
	if c.served && c.stage != closing && c.res.untouched() && l.repeatable() {
		return l.again(i)
	}
	err := error(e)
	if c.tls != nil && c.tls.broken != nil {
		err = c.tls.broken
	}
	return l.in(c, fmt.Errorf("after %s of the body: %w", unit.Plural(c.res.body, "byte"), err))
}

// ended is a connection that the server closed.
func (l *lane) ended(i int) error {
	c := &l.conns[i]
	if c.stage == closing {
		l.shut(i)
		return l.next(i)
	}
	if c.served && c.res.untouched() && l.repeatable() {
		return l.again(i)
	}
	if err := c.res.ends(); err != nil {
		return l.in(c, err)
	}
	if err := l.complete(i); err != nil {
		return err
	}
	return l.ended(i)
}

// again sends a request on a new connection, because the server had closed the old one before the request arrived: any
// client repeats a GET, and its time goes on. It is done only once, since a new connection has not served anything yet.
func (l *lane) again(i int) error {
	l.reopened++
	l.shut(i)
	l.conns[i].res.reset()
	return l.open(i)
}

// shut closes a connection.
func (l *lane) shut(i int) {
	if l.mux != nil {
		l.mux.shut(i)
		return
	}
	c := &l.conns[i]
	if c.tls != nil {
		c.tls.end()
		c.tls = nil
	}
	if c.fd >= 0 {
		l.poll.remove(c.fd, i)
		_ = unix.Close(c.fd)
	}
	c.fd, c.stage = -1, idle
}
