//go:build unix

package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/http2"
	"tare/internal/unit"
)

// mux is the connections of a lane over HTTP/2. The lane's conns are then places for requests, of which each connection
// has several. A connection that the server wants to end finishes its requests while another one takes the next: so
// there are two pipes for each connection, of which one takes requests.
type mux struct {
	*lane
	streams int
	known   *http2.Memo
	at      []*pipe // which takes requests, by connection
	pipes   []pipe
	dirty   []*pipe // with something to send
	swept   int64
}

// pipe is one connection.
type pipe struct {
	m       *mux
	i       int // in the poller
	fd      int // -1 when there is none
	stage   stage
	served  bool // it has returned a response
	leaves  bool // it takes no more requests
	dirty   bool
	writes  bool // the poller tells when it can be written to
	session *http2.Session
	tls     *sealed
	waits   []int // places that wait for its end
	failed  error // of a method that the session has called
}

// newMux makes the connections of a lane.
func newMux(l *lane, connections int) *mux {
	m := &mux{lane: l, streams: l.streams, known: http2.NewMemo(), at: make([]*pipe, connections),
		pipes: make([]pipe, 2*connections)}
	for i := range m.pipes {
		m.pipes[i] = pipe{m: m, i: i, fd: -1}
	}
	for i := range m.at {
		m.at[i] = &m.pipes[i]
	}
	return m
}

// slot is the number of a pipe's place in the lane's conns. Those that follow each other belong to different
// connections.
func (p *pipe) slot(place int) int { return place*len(p.m.at) + p.i%len(p.m.at) }

// twin is the other pipe of a connection.
func (p *pipe) twin() *pipe { return &p.m.pipes[(p.i+len(p.m.at))%len(p.m.pipes)] }

// ask sends the request of a place, or queues it.
func (m *mux) ask(i int) error {
	c := &m.conns[i]
	p := m.at[i%len(m.at)]
	if p.leaves || p.fd >= 0 && p.session.Full() {
		p.leaves = true
		q := p.twin()
		if q.fd >= 0 { // it still finishes what it has
			c.stage = sending
			q.waits = append(q.waits, i)
			return nil
		}
		p, m.at[i%len(m.at)] = q, q
	}
	if p.fd < 0 {
		if err := m.open(p); err != nil {
			return err
		}
	}
	r := c.hop.two
	if r == nil { // of a redirect, which belongs to this lane only
		var err error
		if r, err = translate(m.scheme, c.hop.bytes); err != nil {
			return m.in(c, err)
		}
		c.hop.two = r
	}
	c.stage = p.stage
	p.session.Ask(i/len(m.at), r)
	p.mark()
	return nil
}

// mark has the pipe's bytes sent before the lane waits.
func (p *pipe) mark() {
	if !p.dirty {
		p.dirty = true
		p.m.dirty = append(p.m.dirty, p)
	}
}

// open begins a connection.
func (m *mux) open(p *pipe) error {
	fd, err := socket(m.family)
	if err != nil {
		return m.bad(err)
	}
	p.fd, p.served, p.leaves, p.writes = fd, false, false, false
	if p.session == nil {
		p.session = http2.NewSession(p, m.streams, m.known)
	} else {
		p.session.Reset()
	}
	if !m.keepalive {
		// The connection is ended here, after its response: a port in TIME_WAIT for each request would be too many.
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	err = unix.Connect(fd, m.to)
	switch {
	case err == unix.EINPROGRESS || err == unix.EINTR:
		p.stage = connecting
		return m.poll.add(fd, p.i, true)
	case err == unix.EADDRNOTAVAIL:
		return m.bad(fmt.Errorf("connect: %w: all local ports are in TIME_WAIT; use keepalive=yes or shorter trials",
			err))
	case err != nil:
		return m.bad(fmt.Errorf("connect: %w", err))
	case m.seal != nil:
		return m.secure(p, false)
	}
	p.stage = receiving
	return m.poll.add(fd, p.i, false)
}

// secure begins the handshake of TLS.
func (m *mux) secure(p *pipe, watched bool) (err error) {
	p.tls, err = m.shake(p.fd, p.i, watched)
	m.steps(p, sealing)
	return err
}

// steps is the next stage of a connection, and of the requests that wait for it.
func (m *mux) steps(p *pipe, to stage) {
	p.stage = to
	for k := range m.streams {
		if p.session.Asked(k) {
			m.conns[p.slot(k)].stage = to
		}
	}
}

// serve continues with a connection that is ready.
func (m *mux) serve(i int) error {
	p := &m.pipes[i]
	switch p.stage {
	case connecting:
		if err := socketError(p.fd); err != nil {
			return m.bad(fmt.Errorf("connect: %w", err))
		}
		if m.seal != nil {
			return m.secure(p, true)
		}
	case sealing:
		if err := p.tls.err(); err != nil {
			return m.bad(fmt.Errorf("TLS: %w", err))
		}
		if at := protocolOf(p.tls.over); m.tls == "" {
			m.tls = at
		}
	case receiving:
		return m.receive(p)
	default:
		return nil // it was closed since it was ready
	}
	m.steps(p, receiving)
	p.writes = false
	if err := m.poll.change(p.fd, p.i, false); err != nil {
		return err
	}
	return m.flush(p)
}

// receive takes what has come.
func (m *mux) receive(p *pipe) error {
	done := m.done
	for reads := 1; ; reads++ {
		var n int
		var e syscall.Errno
		if p.tls == nil {
			n, e = read(p.fd, m.buf)
		} else {
			n, e = p.tls.read(m.buf)
		}
		switch {
		case e == unix.EINTR:
			continue
		case e == unix.EAGAIN:
			return m.rest(p, done)
		case e != 0 || n == 0:
			return m.broke(p, e)
		}
		if err := p.session.Feed(m.buf[:n]); err != nil {
			if p.failed != nil {
				return p.failed
			}
			return m.bad(fmt.Errorf("HTTP/2: %w", err))
		}
		if n < len(m.buf) && p.tls == nil {
			return m.rest(p, done)
		}
		if reads%16 != 0 {
			continue
		}
		// A server that always has more to say does not keep the others waiting longer than they may.
		if m.now = m.clock(); m.now-m.swept > int64(tick) {
			m.swept = m.now
			if err := m.sweep(); err != nil {
				return err
			}
		}
	}
}

// rest is done when nothing more has come: what was asked for meanwhile is sent.
func (m *mux) rest(p *pipe, done int64) error {
	if m.done == done {
		m.now = m.clock() // for the sweep, if a response arrives slowly
	}
	if p.leaves && p.session.Active() == 0 {
		return m.close(p)
	}
	return m.flush(p)
}

// flush sends what a pipe has to send, as far as there is room.
func (m *mux) flush(p *pipe) error {
	if p.stage != receiving {
		return nil
	}
	for {
		out := p.session.Pending()
		if len(out) == 0 {
			if p.writes {
				p.writes = false
				return m.poll.change(p.fd, p.i, false)
			}
			return nil
		}
		var n int
		var e syscall.Errno
		if p.tls == nil {
			n, e = write(p.fd, out)
		} else {
			n, e = p.tls.write(out)
		}
		switch e {
		case 0:
			p.session.Sent(n)
		case unix.EINTR:
		case unix.EAGAIN:
			if p.writes {
				return nil
			}
			p.writes = true
			return m.poll.both(p.fd, p.i)
		default:
			return m.broke(p, e)
		}
	}
}

// send sends what all connections have to send.
func (m *mux) send() error {
	for i := 0; i < len(m.dirty); i++ { // it may become longer
		p := m.dirty[i]
		if p.dirty = false; p.fd < 0 {
			continue
		}
		if err := m.flush(p); err != nil {
			return err
		}
	}
	m.dirty = m.dirty[:0]
	return nil
}

// broke is a connection that the server closed, or that an error ended. Requests of which nothing has come back are
// sent again, as over HTTP/1.1, unless it was their first connection.
func (m *mux) broke(p *pipe, e syscall.Errno) error {
	var lost []int
	for k := range m.streams {
		if !p.session.Asked(k) {
			continue
		}
		c := &m.conns[p.slot(k)]
		switch {
		case p.served && c.res.status == 0 && m.repeatable():
			lost = append(lost, p.slot(k))
		case e == 0:
			return m.in(c, fmt.Errorf("the server closed the connection before the response was complete; %s of its "+
				"body arrived", unit.Plural(c.res.body, "byte")))
		case p.tls != nil && p.tls.broken != nil:
			return m.in(c, fmt.Errorf("after %s of the body: %w", unit.Plural(c.res.body, "byte"), p.tls.broken))
		default:
			return m.in(c, fmt.Errorf("after %s of the body: %w", unit.Plural(c.res.body, "byte"), e))
		}
	}
	if len(lost) > 0 {
		m.reopened++
	}
	if err := m.close(p); err != nil {
		return err
	}
	for _, i := range lost {
		if err := m.ask(i); err != nil {
			return err
		}
	}
	return nil
}

// close closes a connection, and goes on with what has waited for that.
func (m *mux) close(p *pipe) error {
	if p.fd < 0 {
		return nil
	}
	if p.tls != nil {
		p.tls.end()
		p.tls = nil
	}
	m.poll.remove(p.fd, p.i)
	_ = unix.Close(p.fd)
	p.fd, p.stage, p.leaves = -1, idle, false
	waits := p.waits
	p.waits = nil
	for _, i := range waits {
		if err := m.ask(i); err != nil {
			return err
		}
	}
	return nil
}

// end closes all connections.
func (m *mux) end() {
	for i := range m.pipes {
		p := &m.pipes[i]
		p.waits = nil
		_ = m.close(p)
	}
}

// shut ends a lane's connection after a response without keepalive: it ends as soon as the response has been read to
// its end, and the next request has another one.
func (m *mux) shut(i int) {
	if p := m.at[i%len(m.at)]; p.fd >= 0 {
		p.leaves = true
	}
}

// holds tells whether a request is held up because the server makes no room for the rest of it.
func (m *mux) holds(i int) bool {
	for _, p := range []*pipe{m.at[i%len(m.at)], m.at[i%len(m.at)].twin()} {
		if p.fd >= 0 && p.session.Uploads(i/len(m.at)) {
			return true
		}
	}
	return false
}

// fail keeps an error that goes through the session.
func (p *pipe) fail(err error) error {
	if err != nil && p.failed == nil {
		p.failed = err
	}
	return err
}

// Allows is of http2.Client, as are the others.
func (p *pipe) Allows(streams uint32) error {
	if int64(streams) < int64(p.m.streams) {
		return errAllowed(streams, p.m.streams)
	}
	return nil
}

// Field is not called: there is a memo.
func (p *pipe) Field(int, string, string) {}

// Head takes the header of a response.
func (p *pipe) Head(place int, h *http2.Head) error {
	r := &p.m.conns[p.slot(place)].res
	r.status, r.location = h.Status, append(r.location[:0], h.Location...)
	return nil
}

// Data takes a part of a body.
func (p *pipe) Data(place int, b []byte) error {
	m := p.m
	c := &m.conns[p.slot(place)]
	c.res.body += int64(len(b))
	if c.res.sink != nil {
		c.res.sink(b)
	}
	switch {
	case c.res.status != m.status:
	case c.ask.length >= 0 && c.res.body > c.ask.length:
		return p.fail(m.in(c, fmt.Errorf("the body is longer than the first one's %s",
			unit.Plural(c.ask.length, "byte"))))
	case c.res.body > m.within.most:
		return p.fail(m.in(c, m.within.wrong(c.res.body)))
	case c.kept != nil && c.kept.over:
		return p.fail(m.in(c, errKept))
	}
	return nil
}

// Done is the end of a response.
func (p *pipe) Done(place int) error {
	p.served = true
	return p.fail(p.m.complete(p.slot(place)))
}

// Leaves has the next requests go elsewhere.
func (p *pipe) Leaves() {
	p.leaves = true
	p.m.reopened++
}

// Unasked sends a request elsewhere.
func (p *pipe) Unasked(place int) error {
	if i := p.slot(place); p.served && p.m.conns[i].res.status == 0 {
		return p.fail(p.m.ask(i))
	}
	return errUnasked
}

// fetchMuxed is a request outside the timed section.
func fetchMuxed(l *load, at *hop, buf []byte, r *response, sink func([]byte)) (x exchange, err error) {
	request, err := translate(l.scheme, at.bytes)
	if err != nil {
		return x, err
	}
	r.reset()
	r.sink = sink
	defer func() { r.sink = nil }()
	until := time.Now().Add(l.timeout)
	over, fd, err := x.dial(l.seal, l.addr, until)
	if err != nil {
		return x, err
	}
	defer unix.Close(fd)
	f := &fetcher{response: r, over: over, until: until, streams: l.streams}
	if err := f.talk(http2.NewSession(f, 1, nil), request, buf); err != nil {
		return x, fmt.Errorf("%s: HTTP/2: %w", l.addr, err)
	}
	x.status, x.body, x.location = r.status, r.body, string(r.location)
	return x, nil
}

// fetcher is the client of one request.
type fetcher struct {
	*response
	over    io.ReadWriter
	until   time.Time
	streams int
	done    bool
}

// talk sends the request and waits for the end of the response.
func (f *fetcher) talk(s *http2.Session, request *http2.Request, buf []byte) error {
	s.Ask(0, request)
	for !f.done {
		for len(s.Pending()) > 0 {
			n, err := f.over.Write(s.Pending())
			if err != nil {
				return fmt.Errorf("send the request: %w", err)
			}
			s.Sent(n)
		}
		n, err := f.over.Read(buf)
		if n > 0 {
			err = s.Feed(buf[:n])
		}
		switch {
		case ends(err):
			return fmt.Errorf("the server closed the connection before the response was complete; %s of its body "+
				"arrived", unit.Plural(f.body, "byte"))
		case err != nil && n > 0:
			return err
		case err != nil:
			return fmt.Errorf("read the response after %s of its body: %w", unit.Plural(f.body, "byte"), err)
		case !f.done && time.Now().After(f.until):
			return fmt.Errorf("read the response after %s of its body: %w", unit.Plural(f.body, "byte"), errTimeout)
		}
	}
	return nil
}

// Allows is of http2.Client, as are the others.
func (f *fetcher) Allows(streams uint32) error {
	if int64(streams) < int64(f.streams) {
		return errAllowed(streams, f.streams)
	}
	return nil
}

// Field takes a field of a header.
func (f *fetcher) Field(_ int, name, value string) {
	if f.header != nil {
		f.header([]byte(name), []byte(value))
	}
}

// Head takes the header of a response.
func (f *fetcher) Head(_ int, h *http2.Head) error {
	f.status, f.location = h.Status, append(f.location[:0], h.Location...)
	return nil
}

// Data takes a part of a body.
func (f *fetcher) Data(_ int, b []byte) error {
	f.body += int64(len(b))
	if f.sink != nil {
		f.sink(b)
	}
	return nil
}

// Done is the end of a response.
func (f *fetcher) Done(int) error {
	f.done = true
	return nil
}

// Leaves changes nothing: there is one request only.
func (f *fetcher) Leaves() {}

// Unasked is a request that was not taken.
func (f *fetcher) Unasked(int) error {
	return errUnasked
}

// errUnasked is a server that leaves at once, or in the middle of a response.
var errUnasked = errors.New("the server ends the connection before it has answered a request on it")

// translate makes a request of HTTP/2 out of one of HTTP/1.1.
func translate(scheme string, request []byte) (*http2.Request, error) {
	head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	method, rest, _ := strings.Cut(lines[0], " ")
	path, _, _ := strings.Cut(rest, " ")
	authority := ""
	var header []http2.Field
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		switch name {
		case "host":
			authority = value
		case "connection": // ours
		case "keep-alive", "proxy-connection":
			return nil, fmt.Errorf("header: %s is not allowed in HTTP/2; leave it out", name)
		default:
			header = append(header, http2.Field{Name: name, Value: value})
		}
	}
	return http2.NewRequest(method, scheme, authority, path, header, body), nil
}

// errAllowed is a server that allows fewer streams than are asked for.
func errAllowed(allowed uint32, streams int) error {
	return fmt.Errorf("the server allows %s at a time on a connection (SETTINGS_MAX_CONCURRENT_STREAMS), and "+
		"streams=%d: use fewer streams, or more connections", unit.Plural(int64(allowed), "stream"), streams)
}
