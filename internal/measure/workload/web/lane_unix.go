//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
	"tare/internal/sys/histogram"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

var errTimeout = errors.New("it took longer than timeout=")

// receive is the size of the read buffer, one for each thread. A page that fits is one read.
const receive = 64 << 10

// tick is how often a thread checks for expired connections and for a cancelled trial.
const tick = 250 * time.Millisecond

// load is the request and the expected response of all connections of a trial.
type load struct {
	addr      netip.AddrPort
	request   []byte
	keepalive bool
	status    int
	length    int64 // of each body; -1 if it may differ
	timeout   time.Duration
}

// What a connection waits for.
type stage uint8

const (
	idle       stage = iota // nothing; it may be open
	connecting              // to be connected
	sending                 // to be able to send the rest of the request
	receiving               // for the response
	closing                 // for the server to close, which it has announced
)

// conn is one connection.
type conn struct {
	fd     int // -1 when there is none
	stage  stage
	served bool // it has returned a response before
	sent   int
	begun  int64 // when the request was sent, by the lane's clock
	res    response
}

// lane is one thread of the client with its connections.
type lane struct {
	*load
	family   int
	to       unix.Sockaddr
	poll     *poller
	conns    []conn
	buf      []byte
	base     time.Time
	now      int64 // the last reading of the clock
	todo     int64 // requests to begin
	done     int64
	bytes    int64
	reopened int64 // connections that the server closed, or had closed before a request arrived
	times    histogram.Histogram
	stop     *atomic.Bool
}

func newLane(l *load, connections int, stop *atomic.Bool) (*lane, error) {
	p, err := newPoller(connections)
	if err != nil {
		return nil, err
	}
	n := &lane{load: l, poll: p, conns: make([]conn, connections), buf: make([]byte, receive), base: time.Now(),
		stop: stop}
	n.family, n.to = sockaddr(l.addr)
	for i := range n.conns {
		n.conns[i].fd, n.conns[i].res = -1, newResponse()
	}
	return n, nil
}

func (l *lane) clock() int64 { return int64(time.Since(l.base)) }

// forget resets the lane's counters for a new section.
func (l *lane) forget() {
	l.done, l.bytes, l.reopened = 0, 0, 0
	l.times.Reset()
}

func (l *lane) close() {
	for i := range l.conns {
		l.shut(i)
	}
	_ = l.poll.close()
}

// run makes n requests, one at a time on each connection.
func (l *lane) run(n int64) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer fileio.Quiet()()
	l.todo = n
	end := l.done + n
	l.now = l.clock()
	for i := range l.conns {
		if l.todo == 0 {
			break
		}
		if err := l.begin(i); err != nil {
			return err
		}
	}
	look := l.now + int64(tick)
	for l.done < end {
		hits, err := l.poll.wait(int(tick / time.Millisecond))
		if err != nil {
			return err
		}
		for k := range hits {
			if err := l.serve(l.poll.ready(k)); err != nil {
				return err
			}
		}
		if hits == 0 {
			l.now = l.clock()
		}
		if l.now >= look {
			look = l.now + int64(tick)
			if err := l.sweep(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep looks for requests that take too long: requests do not have timers.
func (l *lane) sweep() error {
	if l.stop.Load() {
		return context.Canceled
	}
	for i := range l.conns {
		c := &l.conns[i]
		if c.stage != idle && l.now-c.begun > int64(l.timeout) {
			what := "was not complete"
			switch c.stage {
			case connecting:
				what = "could not be requested: the connection was not accepted"
			case closing:
				what = "was complete, but the server did not close the connection as announced"
			}
			return l.bad(fmt.Errorf("a response %s within %v; %s of its body arrived", what, l.timeout,
				unit.Plural(c.res.body, "byte")))
		}
	}
	return nil
}

// bad adds which request failed.
func (l *lane) bad(err error) error {
	return fmt.Errorf("request %d to %s: %w", l.done+1, l.addr, err)
}

// begin begins a request on a connection, which is made if there is none.
func (l *lane) begin(i int) error {
	c := &l.conns[i]
	l.todo--
	c.begun = l.now
	if c.stage == closing { // since the last section
		l.shut(i)
	}
	c.res.reset()
	if c.fd < 0 {
		return l.open(i)
	}
	return l.send(i)
}

func (l *lane) open(i int) error {
	c := &l.conns[i]
	fd, err := socket(l.family)
	if err != nil {
		return l.bad(err)
	}
	c.fd, c.served, c.sent = fd, false, 0
	err = unix.Connect(fd, l.to)
	switch {
	case err == unix.EINPROGRESS || err == unix.EINTR:
		c.stage = connecting
		return l.poll.add(fd, i, true)
	case err == unix.EADDRNOTAVAIL:
		return l.bad(fmt.Errorf("connect: %w: all local ports are in TIME_WAIT; use keepalive=yes or shorter trials",
			err))
	case err != nil:
		return l.bad(fmt.Errorf("connect: %w", err))
	}
	if err := l.poll.add(fd, i, false); err != nil {
		return err
	}
	return l.send(i)
}

// send sends the request, which nearly always is one write.
func (l *lane) send(i int) error {
	c := &l.conns[i]
	if c.stage != sending {
		c.sent = 0
	}
	for {
		n, e := write(c.fd, l.request[c.sent:])
		switch {
		case e == 0 && c.sent+n == len(l.request):
			was := c.stage
			c.stage = receiving
			if was == sending || was == connecting {
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
	c := &l.conns[i]
	switch c.stage {
	case connecting:
		if err := socketError(c.fd); err != nil {
			return l.bad(fmt.Errorf("connect: %w", err))
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
		n, e := read(c.fd, l.buf)
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
			return l.bad(err)
		case done:
			// The end of the connection usually follows the last response at once.
			if err := l.complete(i); err != nil || c.stage != closing {
				return err
			}
			continue
		case l.length >= 0 && c.res.body > l.length && c.res.status == l.status:
			return l.bad(fmt.Errorf("the body is longer than the first one's %s", unit.Plural(l.length, "byte")))
		case n < len(l.buf):
			l.now = l.clock() // for the sweep, if the rest arrives slowly
			return nil
		}
	}
}

// lost is a connection that an error ended.
func (l *lane) lost(i int, e syscall.Errno) error {
	c := &l.conns[i]
	if c.served && c.stage != closing && c.res.untouched() {
		return l.again(i)
	}
	return l.bad(fmt.Errorf("after %s of the body: %w", unit.Plural(c.res.body, "byte"), e))
}

// ended is a connection that the server closed.
func (l *lane) ended(i int) error {
	c := &l.conns[i]
	if c.stage == closing {
		l.shut(i)
		return l.next(i)
	}
	if c.served && c.res.untouched() {
		return l.again(i)
	}
	if err := c.res.ends(); err != nil {
		return l.bad(err)
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

// complete counts a response.
func (l *lane) complete(i int) error {
	c := &l.conns[i]
	l.now = l.clock()
	if c.res.status != l.status || l.length >= 0 && c.res.body != l.length {
		return l.bad(wrong(c.res.status, l.status, c.res.body, l.length, string(c.res.location)))
	}
	l.times.Record(l.now - c.begun)
	l.done++
	l.bytes += c.res.body
	c.served = true
	switch {
	case c.res.close:
		// The server closes first, so that its end of the connection is in TIME_WAIT, and not ours.
		if l.keepalive {
			l.reopened++
		}
		c.stage = closing
		return nil
	case !l.keepalive:
		l.shut(i)
	}
	return l.next(i)
}

// next begins another request, if there is one left.
func (l *lane) next(i int) error {
	if l.todo == 0 {
		l.conns[i].stage = idle
		return nil
	}
	return l.begin(i)
}

// shut closes a connection.
func (l *lane) shut(i int) {
	c := &l.conns[i]
	if c.fd >= 0 {
		l.poll.remove(c.fd, i)
		_ = unix.Close(c.fd)
	}
	c.fd, c.stage = -1, idle
}

// wrong returns how a response differs from the expected one.
func wrong(status, wanted int, body, length int64, location string) error {
	switch {
	case status != wanted && status >= 300 && status < 400 && location != "":
		return fmt.Errorf("the server answers %d, a redirect to %s, instead of %d: a page behind a login needs "+
			"cookie=; for the redirect's target, change url=", status, proc.Printable([]byte(location)), wanted)
	case status != wanted:
		return fmt.Errorf("the server answers %d instead of %d; read its log, or use expect_status=%d if this is the "+
			"page", status, wanted, status)
	}
	return fmt.Errorf("the body has %s, but the first had %s: use verify=status for a page that differs each time",
		unit.Plural(body, "byte"), unit.Plural(length, "byte"))
}
