//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/histogram"
	"tare/internal/sys/http2"
	"tare/internal/sys/proc"
	"tare/internal/sys/thread"
	"tare/internal/unit"
)

var errTimeout = errors.New("it took longer than timeout=")

// receive is the size of the read buffer, one for each thread. A page that fits is one read.
const receive = 64 << 10

// tick is the time between two checks of a thread for expired connections and for a cancelled trial.
const tick = 250 * time.Millisecond

// load has the request of all connections of a trial, and the expected response.
type load struct {
	addr      netip.AddrPort
	maker     maker
	method    string
	keepalive bool
	status    int
	within    span // the length of each body
	timeout   time.Duration
	asks      []*ask
	order     []uint16 // of the asks, again and again; nil for one ask
	scheme    string   // http or https
	seal      Seal     // nil without TLS
	check     *check   // nil if no body is looked into
	follow    bool     // redirects
	body      []byte
	rate      float64 // requests per second of the open model; 0 for the closed one
	poisson   bool
	seed      uint64
	two       bool // over HTTP/2
	streams   int  // on each connection at a time, over HTTP/2
}

// ask is a request and what is expected of its response.
type ask struct {
	hop
	length int64  // of each body; -1 if it may differ
	digest string // of each body that is looked into; "" if it may differ
}

// hop is a request: an ask's, or what a redirect leads to.
type hop struct {
	method, path string
	bytes        []byte
	two          *http2.Request // the same over HTTP/2, once it is made
}

// repeatable tells whether a request may be sent again if the connection broke before the response began.
func (l *load) repeatable() bool { return l.method != "POST" && l.method != "PATCH" }

// lane is one thread of the client with its connections.
type lane struct {
	*load
	family   int
	to       unix.Sockaddr
	poll     *poller
	lull     lull
	mux      *mux // nil for HTTP/1.1
	conns    []conn
	free     []int32 // connections without a request, in the open model
	buf      []byte
	look     *check
	hops     map[string]*hop // redirects, by method and target
	base     time.Time
	now      int64 // the last reading of the clock
	from     int   // the first connection that a section begins with
	todo     int64 // requests to begin
	asked    int   // place in the order
	schedule *arrivals
	start    int64 // of the schedule
	due      int64 // when the next request is
	done     int64
	bytes    int64
	looked   int64 // bodies that were looked into
	followed int64 // redirects
	reopened int64 // connections that the server closed, or had closed before a request arrived
	times    histogram.Histogram
	since    *histogram.Histogram // latencies since requests were due, in the open model
	lags     *histogram.Histogram // how late requests were sent
	tls      string               // what the first handshake agreed on
	stop     *atomic.Bool
}

// newLane makes one of some lanes.
func newLane(l *load, connections, index, lanes int, stop *atomic.Bool) (*lane, error) {
	p, err := newPoller(l.sockets(connections))
	if err != nil {
		return nil, err
	}
	n := &lane{load: l, poll: p, conns: make([]conn, l.slots(connections)), buf: make([]byte, receive),
		base: time.Now(), asked: index * len(l.order) / lanes, stop: stop}
	n.family, n.to = sockaddr(l.addr)
	n.lull.most, _ = lullFor(lanes, l.rate > 0)
	if l.check.looks() {
		n.look = l.check.own()
	}
	if l.rate > 0 {
		n.schedule = newArrivals(l.rate, l.poisson, index, lanes, l.seed)
		n.since, n.lags = new(histogram.Histogram), new(histogram.Histogram)
		n.free = make([]int32, 0, len(n.conns))
	}
	for i := range n.conns {
		c := &n.conns[i]
		c.fd, c.res = -1, newResponse()
		c.res.bodiless = l.method == "HEAD"
		if n.look != nil {
			c.kept = new(keeper)
			c.res.sink = c.kept.take
		}
	}
	if l.two {
		n.mux = newMux(n, connections)
	}
	return n, nil
}

func (l *lane) clock() int64 { return int64(time.Since(l.base)) }

// forget resets the lane's counters for a new section.
func (l *lane) forget() {
	l.done, l.bytes, l.reopened, l.looked, l.followed = 0, 0, 0, 0, 0
	l.times.Reset()
}

func (l *lane) close() {
	for i := range l.conns {
		l.shut(i)
	}
	if l.mux != nil {
		l.mux.end()
	}
	_ = l.poll.close()
}

// connect makes all connections with a request on each, so that they are not made in the timed section. No more than a
// wave of them are made at a time: a server has a queue for those that it has not accepted, and resets what comes
// after.
func (l *lane) connect() error {
	schedule := l.schedule
	l.schedule = nil
	defer func() { l.schedule = schedule }()
	for from := 0; from < len(l.conns); from += wave {
		l.from = from
		if err := l.run(int64(min(wave, len(l.conns)-from))); err != nil {
			return err
		}
	}
	l.from = 0
	return nil
}

// wave is the number of connections that a thread makes at a time: a server's queue often has room for 511.
const wave = 128

// run makes n requests, one at a time on each connection: the next when the last is complete, or when it is due.
func (l *lane) run(n int64) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer thread.Quiet()()
	l.todo = n
	begun, end := l.done, l.done+n
	l.now = l.clock()
	since := l.now
	for i := range l.conns {
		if l.conns[i].stage == closing { // since the last section
			l.shut(i)
		}
	}
	defer sharp()()
	if l.schedule != nil {
		l.free = l.free[:0]
		for i := range l.conns {
			l.free = append(l.free, int32(i))
		}
		l.start = l.now
		l.due = l.start + l.schedule.next()
	} else {
		for i := l.from; i < len(l.conns) && l.todo > 0; i++ {
			if err := l.begin(i); err != nil {
				return err
			}
		}
	}
	look := l.now + int64(tick)
	for l.done < end {
		wait := tick
		if l.schedule != nil {
			if err := l.release(); err != nil {
				return err
			}
			if l.done >= end {
				break
			}
			if len(l.free) > 0 && l.todo > 0 {
				wait = min(tick, time.Duration(max(0, l.due-l.clock())))
			}
		}
		if l.mux != nil {
			if err := l.mux.send(); err != nil {
				return err
			}
		}
		hits, err := l.lull.wait(l.poll, wait, naps(l.now-since, l.done-begun, int64(len(l.conns))))
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

// release begins the requests that are due, on connections that have none.
func (l *lane) release() error {
	for l.todo > 0 && len(l.free) > 0 {
		l.now = l.clock()
		if l.due > l.now {
			return nil
		}
		i := int(l.free[len(l.free)-1])
		l.free = l.free[:len(l.free)-1]
		l.conns[i].due = l.due
		l.lags.Record(l.now - l.due)
		l.due = l.start + l.schedule.next()
		if err := l.begin(i); err != nil {
			return err
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
			switch {
			case c.stage == connecting:
				what = "could not be requested: the connection was not accepted"
			case c.stage == sealing:
				what = "could not be requested: the handshake of TLS did not end"
			case l.mux != nil && l.mux.holds(i):
				what = "could not be requested: the server makes no room for the rest of the request's body"
			case c.stage == closing:
				what = "was complete, but the server did not close the connection as announced"
			}
			return l.bad(fmt.Errorf("a response %s within %v; %s of its body arrived", what, l.timeout,
				unit.Plural(c.res.body, "byte")))
		}
	}
	if late := l.now - l.due; l.schedule != nil && l.todo > 0 && late > int64(l.timeout) {
		return l.bad(fmt.Errorf("requests wait longer than timeout=%v for a connection: the server does not serve "+
			"rate=%v requests per second with so many connections; use a lower rate, or more connections if it has "+
			"time left", l.timeout, l.rate))
	}
	return nil
}

// bad adds which request failed.
func (l *lane) bad(err error) error {
	return fmt.Errorf("request %d to %s: %w", l.done+1, l.addr, err)
}

// in adds which page it was, if there are several.
func (l *lane) in(c *conn, err error) error {
	if len(l.asks) > 1 || c.hops > 0 {
		err = fmt.Errorf("%s: %w", proc.Printable([]byte(c.hop.path)), err)
	}
	return l.bad(err)
}

// begin begins a request on a connection, which is made if there is none.
func (l *lane) begin(i int) error {
	c := &l.conns[i]
	l.todo--
	c.begun = l.now
	c.ask = l.asks[0]
	if l.order != nil {
		c.ask = l.asks[l.order[l.asked]]
		if l.asked++; l.asked == len(l.order) {
			l.asked = 0
		}
	}
	c.hop, c.hops = &c.ask.hop, 0
	return l.ask(i)
}

// ask sends a connection's request.
func (l *lane) ask(i int) error {
	c := &l.conns[i]
	c.res.reset()
	if c.kept != nil {
		c.kept.reset(l.todo%l.look.every == 0)
	}
	if l.mux != nil {
		return l.mux.ask(i)
	}
	if c.fd < 0 {
		return l.open(i)
	}
	return l.send(i)
}

// complete counts a response.
func (l *lane) complete(i int) error {
	c := &l.conns[i]
	l.now = l.clock()
	if l.follow && redirects(c.res.status) && c.res.status != l.status {
		return l.redirect(i)
	}
	if err := l.judge(c); err != nil {
		return l.in(c, err)
	}
	l.times.Record(l.now - c.begun)
	if l.schedule != nil {
		l.since.Record(l.now - c.due)
	}
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

// judge compares a response with what is expected.
func (l *lane) judge(c *conn) error {
	switch {
	case c.res.status != l.status || c.ask.length >= 0 && c.res.body != c.ask.length:
		return wrong(c.res.status, l.status, c.res.body, c.ask.length, string(c.res.location))
	case c.res.body < l.within.least || c.res.body > l.within.most:
		return l.within.wrong(c.res.body)
	case c.kept == nil || !c.kept.on:
		return nil
	case c.kept.over:
		return errKept
	}
	l.looked++
	return l.look.body(c.kept.body, c.ask.digest)
}

// redirect asks for what a response refers to. The time of the request goes on.
func (l *lane) redirect(i int) error {
	c := &l.conns[i]
	key := c.hop.method + strconv.Itoa(c.res.status) + c.hop.path + " " + string(c.res.location)
	to := l.hops[key]
	if to == nil {
		var err error
		if to, err = l.toward(c.hop, c.res.status, string(c.res.location)); err != nil {
			return l.in(c, err)
		}
		if l.hops == nil || len(l.hops) == maxURLs {
			l.hops = map[string]*hop{}
		}
		l.hops[key] = to
	}
	if c.hops++; c.hops > maxHops {
		return l.in(c, errHops)
	}
	l.followed++
	c.hop, c.served = to, true
	if c.res.close || !l.keepalive {
		l.shut(i)
	}
	return l.ask(i)
}

// next begins another request, if there is one left and it is due.
func (l *lane) next(i int) error {
	switch {
	case l.schedule != nil:
		l.conns[i].stage = idle
		l.free = append(l.free, int32(i))
		return nil // release begins it
	case l.todo == 0:
		l.conns[i].stage = idle
		return nil
	}
	return l.begin(i)
}

// wrong returns how a response differs from the expected one.
func wrong(status, wanted int, body, length int64, location string) error {
	switch {
	case status != wanted && status >= 300 && status < 400 && location != "":
		return fmt.Errorf("the server answers %d, a redirect to %s, instead of %d: a page behind a login needs "+
			"cookie= or login=; for the redirect's target, change url=, or use redirects=follow of http.load", status,
			proc.Printable([]byte(location)), wanted)
	case status != wanted:
		return fmt.Errorf("the server answers %d instead of %d; read its log, or use expect_status=%d if this is the "+
			"page", status, wanted, status)
	}
	return fmt.Errorf("the body has %s, but the first had %s: use verify=status for a page that differs each time",
		unit.Plural(body, "byte"), unit.Plural(length, "byte"))
}
