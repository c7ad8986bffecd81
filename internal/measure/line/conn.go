package line

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	buffered = 64 << 10 // bytes that each end keeps of a stream, in each direction
	window   = 32 << 10 // bytes that may be on their way, as long as none is lost
)

// The time without an answer after which data is sent again: first, least and longest.
const (
	firstRetry = time.Second
	leastRetry = 300 * time.Millisecond
	mostRetry  = 8 * time.Second
)

// deadTime bounds the wait of a controller for any answer: an interpreted guest may be busy for long.
const deadTime = 90 * time.Second

// leaveTime bounds the wait of Close until the other end has all written bytes.
const leaveTime = 3 * time.Second

// Conn is a session: a reliable stream of bytes. It is safe for concurrent use.
type Conn struct {
	p       *port
	session uint32
	met     bool  // the other end has sent something in this session
	err     error // why it has ended before its time
	asked   []ask
	speed   Speed

	// The sending half. The end of the stream counts as a byte.
	out     queue  // from una on
	fin     bool   // the stream ends after out
	done    bool   // ... and the other end knows
	una     uint64 // the first byte that is not acknowledged
	nxt     uint64 // the next byte to send
	sent    uint64 // all bytes before this one were sent, once at least
	limit   uint64 // the other end has room for the bytes before this one
	flight  int    // bytes that may be on their way
	poll    bool   // ask for an acknowledgement
	mended  uint64 // una+1 when damage was last reported and sent again
	again   int64  // bytes sent again
	timer   *time.Timer
	due     time.Time     // when to send again; zero if nothing is awaited
	heard   time.Time     // when the other end last answered, or the wait for it began
	backoff int           // how often it was sent again without an answer
	trip    time.Duration // a round trip, smoothed; 0 if none was measured
	timed   uint64        // the byte whose acknowledgement ends the measurement of a round trip; 0: there is none
	timedAt time.Time

	// The receiving half.
	in       queue  // what was not read yet
	got      uint64 // all bytes before this one have arrived
	ended    bool   // ... and they are all
	promised uint64 // the limit that was sent last
	ack      bool   // send an acknowledgement
	damage   bool   // ... that reports damage
	started  bool   // a frame with data is being written
	reported uint64 // got+1 when damage was last reported
}

// queue has bytes that come at its end and leave at its beginning. It moves them seldom.
type queue struct {
	b     []byte // what is in it
	store []byte // what b is a part of
}

// push appends bytes; no more than buffered may be in a queue.
func (q *queue) push(b []byte) {
	if q.store == nil {
		q.store = make([]byte, 2*buffered)
		q.b = q.store[:0]
	}
	if cap(q.b)-len(q.b) < len(b) {
		q.b = q.store[:copy(q.store, q.b)]
	}
	q.b = append(q.b, b...)
}

func (q *queue) drop(n int) { q.b = q.b[n:] }

// errReplaced is the end of a guest's session.
var errReplaced = errors.New("another controller has opened a session")

// errForgotten is the end of a controller's session.
var errForgotten = errors.New("the guest no longer knows this session: it has restarted, or its agent " +
	"has ended")

func newConn(p *port, session uint32) *Conn {
	c := &Conn{p: p, session: session, limit: buffered, promised: buffered, flight: window}
	c.timer = time.AfterFunc(time.Hour, c.late)
	c.timer.Stop()
	return c
}

func (c *Conn) number() []byte { return binary.LittleEndian.AppendUint32(nil, c.session) }

// fail ends the session. mu is held.
func (c *Conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.timer.Stop()
	c.p.changed.Broadcast()
}

// Read reads what the other end wrote. After its CloseWrite the error is io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for {
		switch {
		case len(c.in.b) > 0:
			n := copy(b, c.in.b)
			c.in.drop(n)
			if c.room()-c.promised >= buffered/2 {
				c.ack = true
				c.p.changed.Broadcast()
			}
			return n, nil
		case c.ended:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		}
		c.p.changed.Wait()
	}
}

// room is the limit for the other end.
func (c *Conn) room() uint64 { return c.got - uint64(len(c.in.b)) + buffered }

// Write returns when all of b is in a buffer of limited size. What is in there is sent again until it has arrived.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for len(b) > 0 {
		switch {
		case c.err != nil:
			return n, c.err
		case c.fin:
			return n, fmt.Errorf("write to the serial line: %w", io.ErrClosedPipe)
		case len(c.out.b) >= buffered:
			c.p.changed.Wait()
			continue
		}
		m := min(len(b), buffered-len(c.out.b))
		c.out.push(b[:m])
		b, n = b[m:], n+m
		c.p.changed.Broadcast()
	}
	return n, nil
}

// Flush returns when the other end has all that was written.
func (c *Conn) Flush() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	for c.una < c.last() {
		if c.err != nil {
			return c.err
		}
		c.p.changed.Wait()
	}
	return nil
}

// CloseWrite ends what is written; the other end reads io.EOF after it.
func (c *Conn) CloseWrite() error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.fin = true
	c.p.changed.Broadcast()
	return nil
}

// Close ends the session, after a while for what is on its way. At the controller it closes the line, too.
func (c *Conn) Close() error {
	_ = c.CloseWrite() // it cannot fail
	gone := false
	limit := time.AfterFunc(leaveTime, func() {
		c.p.mu.Lock()
		gone = true
		c.p.changed.Broadcast()
		c.p.mu.Unlock()
	})
	defer limit.Stop()
	c.p.mu.Lock()
	for c.err == nil && !gone && !(c.done && c.over()) {
		c.p.changed.Wait()
	}
	c.fail(errClosed)
	if c.p.cur == c && !c.p.host {
		c.p.cur = nil
		c.p.calling.Reset(0)
	}
	c.p.mu.Unlock()
	if c.p.host {
		return c.p.close()
	}
	return nil
}

// over tells whether the guest need not wait for a controller that leaves: it has ended the session, too, and been told
// that this is known. Otherwise it would call the next one some seconds later. mu is held.
func (c *Conn) over() bool { return !c.p.host || c.ended && !c.ack && !c.p.writing }

// last is the number of the end of what is written so far.
func (c *Conn) last() uint64 { return c.una + uint64(len(c.out.b)) }

// awaits tells whether the other end has to answer: something is on its way, or it has no room.
func (c *Conn) awaits() bool { return c.sent > c.una || len(c.out.b) > 0 }

// next appends the next frame to send. mu is held.
func (c *Conn) next(b []byte) []byte {
	if c.err != nil || !c.met {
		return b
	}
	host := kind(0)
	if c.p.host {
		host = fromHost
	}
	if len(c.asked) > 0 {
		a := c.asked[0]
		c.asked = c.asked[1:]
		return appendFrame(b, kindAsk|host, c.session, a.head(), filler[:a.filler])
	}
	s := segment{damage: c.damage, poll: c.poll}
	if from, end := c.nxt, c.last(); from <= end && !c.done {
		to := max(from, min(end, from+maxData, c.limit, c.una+uint64(c.flight)))
		s.end = c.fin && to == end
		s.data = to > from || s.end
		s.offset, s.payload = from, c.out.b[from-c.una:to-c.una]
		if s.data {
			c.advance(to, s.end)
		}
	}
	if !s.data && !c.ack && !c.poll {
		return b
	}
	c.started = s.data || c.poll
	s.ack, s.limit = c.got, c.room()
	if c.ended {
		s.ack++
	}
	c.promised, c.ack, c.damage, c.poll = s.limit, false, false, false
	return appendFrame(b, kindStream|host, c.session, s.head(nil), s.payload)
}

// advance counts what is sent up to a byte, and the end after it.
func (c *Conn) advance(to uint64, end bool) {
	if c.nxt < c.sent {
		c.again += int64(min(to, c.sent) - c.nxt)
		c.timed = 0 // an acknowledgement could be that of the first sending
	} else if c.timed == 0 {
		c.timed, c.timedAt = to, time.Now()
	}
	if end {
		to++
	}
	c.nxt, c.sent = to, max(c.sent, to)
}

// written, after a frame was written, starts the wait for an answer. mu is held.
func (c *Conn) written() {
	if c.started && c.err == nil {
		c.started = false
		c.arm()
	}
}

// arm sets the time at which to send again, from now on.
func (c *Conn) arm() {
	if !c.awaits() {
		c.due = time.Time{}
		c.timer.Stop()
		return
	}
	if c.due.IsZero() {
		c.heard = time.Now()
	}
	wait := firstRetry
	if c.trip > 0 {
		wait = max(leastRetry, 3*c.trip)
	}
	wait = min(wait<<min(c.backoff, 10), mostRetry)
	c.due = time.Now().Add(wait)
	c.timer.Reset(wait)
}

// late sends again.
func (c *Conn) late() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	switch now := time.Now(); {
	case c.err != nil || c.due.IsZero():
		return
	case now.Before(c.due):
		c.timer.Reset(c.due.Sub(now))
		return
	case c.p.host && now.Sub(c.heard) > deadTime:
		c.p.fail(fmt.Errorf("the guest has not answered on the serial line for %v", deadTime))
		return
	}
	c.backoff++
	if c.sent > c.una {
		c.resend(maxData)
	} else {
		c.poll = true
	}
	c.arm()
	c.p.changed.Broadcast()
}

// resend sends again what is not acknowledged, and less at a time, as TCP does: all that is on its way behind a lost
// byte is sent again, too, and on a line with an echo more of it collides.
func (c *Conn) resend(flight int) {
	c.nxt = c.una
	c.flight = max(flight, maxData)
}

// take takes a segment. mu is held.
func (c *Conn) take(s *segment) {
	c.met = true
	c.limit = max(c.limit, s.limit)
	c.backoff = 0
	c.heard = time.Now()
	progress := s.ack > c.una && s.ack <= c.sent
	if progress {
		c.done = c.fin && s.ack > c.last()
		c.out.drop(int(min(s.ack-c.una, uint64(len(c.out.b)))))
		c.una = s.ack
		c.nxt = max(c.nxt, c.una)
		c.flight = min(c.flight+maxData, window)
		if c.timed > 0 && s.ack >= c.timed {
			trip := max(time.Since(c.timedAt), 1)
			if c.trip > 0 {
				trip = (7*c.trip + trip) / 8
			}
			c.trip, c.timed = trip, 0
		}
	}
	if s.damage && s.ack == c.una && c.sent > c.una && c.mended != c.una+1 {
		c.mended = c.una + 1
		c.resend(c.flight / 2)
	}
	if s.poll {
		c.ack = true
	}
	if s.data {
		c.store(s)
	}
	// The other end may send data for long and yet wait for something that was lost.
	if progress || !s.data {
		c.arm()
	}
}

// store keeps the data of a segment that is next in order; anything else only makes an acknowledgement.
func (c *Conn) store(s *segment) {
	c.ack = true
	if s.offset > c.got {
		c.damaged()
		return
	}
	if old := c.got - s.offset; !c.ended && old <= uint64(len(s.payload)) {
		fresh := s.payload[old:]
		if len(c.in.b)+len(fresh) > buffered {
			return // the other end sends more than it may
		}
		c.in.push(fresh)
		c.got += uint64(len(fresh))
		c.ended = s.end
	}
}

// damaged reports that something did not arrive, once for each place in the stream.
func (c *Conn) damaged() {
	if c.reported != c.got+1 {
		c.reported = c.got + 1
		c.ack, c.damage = true, true
	}
}
