package iperf3

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/sys/sock"
)

// Deadlines of a client. That of data bounds the time without any progress.
const (
	connectTime = 10 * time.Second
	answerTime  = 30 * time.Second
	stallTime   = time.Minute
	between     = 2 * time.Second // between two tests of a server
	lastTime    = time.Second     // bounds the wait for a server's last message when a test has failed
	glance      = 2 * time.Second // without a datagram, until the server is looked after
)

// Bounds of a test.
const (
	MaxStreams  = 64 // of each direction; iperf3 permits 128
	MaxBlock    = 1 << 20
	MaxDatagram = 65507
)

// Test has the parameters of a test.
type Test struct {
	Server   string // a numeric address, with a port unless it is Port
	UDP      bool
	Up, Down bool // from the client, to the client; both at once
	Streams  int  // of each direction
	Threads  int  // that move the streams over TCP; 0, and over UDP: one for each
	Block    int  // bytes of a read or write, or of a datagram's payload
	// Amount is in bytes or, over UDP, in datagrams, of both directions together.
	Amount int64
	// Endless has data move until Stop, whatever the amount. It is for TCP.
	Endless bool
	Gap     time.Duration // between the datagrams of a stream; 0: none
	// Patience is how long the server may take to answer; 0 is answerTime. Stall is how long data may not move; 0 is
	// stallTime.
	Patience, Stall time.Duration
}

// Client is one test with a server. It is made for one goroutine, but the goroutines that move data, one for each index
// below Threads, run at the same time.
type Client struct {
	test    Test
	at      sock.Address
	text    string
	cookie  [CookieSize]byte
	control sock.FD
	asks    sync.Mutex // of lanes that look at control
	last    sync.Once  // the last stream is opened when the first lane moves
	opened  error
	began   time.Time
	drains  sync.WaitGroup
	stopped atomic.Bool
	ended   bool

	Lanes []Lane
	sets  []laneSet // of each thread, over TCP
}

// Threads is how many threads are to call Move.
func (c *Client) Threads() int {
	if c.sets != nil {
		return len(c.sets)
	}
	return len(c.Lanes)
}

// Outcome has the results of both ends.
type Outcome struct {
	Received    int64   // bytes or datagrams that the receivers had
	Sent        int64   // datagrams that the receivers should have had
	Late        int64   // datagrams that came after a later one; below 0: not known
	Jitter      float64 // ns; mean of the streams
	Retransmits int64   // of both ends; below 0: not known
	ServerCPU   time.Duration
}

// Address is a server's address with its port.
func Address(server string) string {
	if !strings.Contains(server, ":") || strings.HasSuffix(server, "]") {
		return fmt.Sprintf("%s:%d", server, Port)
	}
	return server
}

// Open connects to a server, sends it the test's parameters and opens the streams, all but the last: the server starts
// to send with that one. The client must be closed, also after an error of its methods.
func Open(t Test) (*Client, error) {
	text := Address(t.Server)
	at, err := sock.ParseAddress(text)
	if err != nil {
		return nil, err
	}
	if t.Patience == 0 {
		t.Patience = answerTime
	}
	if t.Stall == 0 {
		t.Stall = stallTime
	}
	// iperf3 -s closes its port between two tests, and may not be done with the last one.
	for end := time.Now().Add(min(between, t.Patience)); ; time.Sleep(between / 40) {
		c, err := open(t, at, text)
		if c != nil || time.Now().After(end) || !errors.Is(err, errNobody) && !errors.Is(err, errDenied) &&
			!errors.Is(err, errClosed) {
			return c, err
		}
	}
}

func open(t Test, at sock.Address, text string) (*Client, error) {
	c := &Client{test: t, at: at, text: text, control: sock.None}
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	rand.Read(c.cookie[:])
	for i := range c.cookie {
		c.cookie[i] = letters[c.cookie[i]%32]
	}
	c.cookie[CookieSize-1] = 0
	if err := c.open(); err != nil {
		err = c.explain(err)
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) open() (err error) {
	t := &c.test
	c.lanes()
	if c.control, err = c.connect(); err != nil {
		return err
	}
	if err := sock.NoDelay(c.control, true); err != nil {
		return err
	}
	if err = sock.WriteFull(c.control, c.cookie[:]); err == nil {
		err = c.await(ParamExchange)
	}
	if errors.Is(err, io.EOF) || sock.Broken(err) {
		return errClosed // as a server does with whom waits at its port when a test ends
	}
	if err != nil {
		return err
	}
	p := Params{TCP: !t.UDP, UDP: t.UDP, Streams: float64(t.Streams), Block: float64(t.Block), PacingTimer: 1000,
		Bytes: float64(t.Amount), Reverse: t.Down && !t.Up, Bidirectional: t.Down && t.Up, Version: "3.12"}
	if t.UDP {
		p.Bytes *= float64(t.Block)
		p.Counters64 = 1
		if t.Gap > 0 {
			p.Rate = float64(t.Block) * 8 / t.Gap.Seconds()
		}
	}
	if t.Down || t.Endless {
		// Or the server would stop when all its streams together have sent so much, and each is to have a share.
		p.Bytes = 0
	}
	if err := c.send(p); err != nil {
		return err
	}
	if err := c.await(CreateStreams); err != nil {
		return err
	}
	for i := range len(c.Lanes) - 1 {
		if err := c.stream(&c.Lanes[i]); err != nil {
			return fmt.Errorf("open stream %d of %d: %w", i+1, len(c.Lanes), err)
		}
	}
	if t.UDP {
		return nil
	}
	// The server waits for the cookie of the last one, and so does not start.
	if c.Lanes[len(c.Lanes)-1].fd, err = c.connect(); err == nil {
		c.share()
	}
	return err
}

// lanes shares the work out: the streams that send come first, on both sides.
func (c *Client) lanes() {
	t := &c.test
	for _, down := range []bool{false, true} {
		if down && t.Down || !down && t.Up {
			for range t.Streams {
				c.Lanes = append(c.Lanes, Lane{Down: down, fd: sock.None, block: make([]byte, t.Block)})
			}
		}
	}
	n := int64(len(c.Lanes))
	for i := range c.Lanes {
		l := &c.Lanes[i]
		if !t.Endless {
			l.Amount = t.Amount / n
			if int64(i) < t.Amount%n {
				l.Amount++
			}
		}
		for i := range l.block {
			l.block[i] = byte(i*7 + i>>8) // written to, so that its pages are resident
		}
	}
}

// connect makes a TCP connection.
func (c *Client) connect() (sock.FD, error) {
	fd, err := c.at.TCP()
	if err != nil {
		return sock.None, fmt.Errorf("make a socket: %w", err)
	}
	if err := sock.Connect(fd, &c.at, connectTime); err != nil {
		sock.Close(fd)
		switch {
		case sock.Refused(err):
			err = errNobody
		case sock.Unreachable(err):
			err = fmt.Errorf("%w: that address cannot be reached from here", err)
		}
		return sock.None, err
	}
	if err := sock.Limit(fd, c.test.Stall); err != nil {
		sock.Close(fd)
		return sock.None, err
	}
	return fd, nil
}

// stream opens a stream, or completes the last one.
func (c *Client) stream(l *Lane) (err error) {
	if c.test.UDP {
		return c.datagrams(l)
	}
	if l.fd == sock.None {
		if l.fd, err = c.connect(); err != nil {
			return err
		}
	}
	return sock.WriteFull(l.fd, c.cookie[:])
}

// datagrams opens a stream over UDP: the server answers the first datagram. Either may be lost.
func (c *Client) datagrams(l *Lane) (err error) {
	if l.fd, err = c.at.UDP(); err != nil {
		return err
	}
	if err := sock.Limit(l.fd, c.test.Patience); err != nil {
		return err
	}
	hello := binary.LittleEndian.AppendUint32(nil, Greeting)
	if err := sock.Put(l.fd, hello); err != nil {
		return err
	}
	// A second greeting would be the server's next stream, so a lost one cannot be repeated.
	var b [4]byte
	n, _, err := sock.Get(l.fd, b[:])
	switch {
	case errors.Is(err, sock.ErrStalled):
		return fmt.Errorf("no answer over UDP in %v: a firewall may be in between, or a datagram was lost: try again",
			c.test.Patience)
	case err != nil:
		return err
	}
	if v := binary.LittleEndian.Uint32(b[:]); n != 4 || v != Answer && v != OldAnswer {
		return fmt.Errorf("%w: it answered a greeting over UDP with %x", errGarbage, b[:n])
	}
	if l.Down { // a server that has ended sends nothing, which is looked for in between
		return sock.Limit(l.fd, min(glance, c.test.Stall))
	}
	return sock.Limit(l.fd, c.test.Stall)
}

// start opens the last stream and waits until the server is at work.
func (c *Client) start() error {
	c.last.Do(func() {
		if c.opened = c.stream(&c.Lanes[len(c.Lanes)-1]); c.opened == nil {
			if c.opened = c.await(TestStart); c.opened == nil {
				c.opened = c.await(TestRunning)
			}
		}
		c.began = time.Now()
	})
	return c.opened
}

// Finish ends the test after all lanes have moved, and returns the results of both ends. used is the CPU time of this
// end.
func (c *Client) Finish(used time.Duration) (o Outcome, err error) {
	if err := c.start(); err != nil {
		return o, c.explain(err)
	}
	elapsed := time.Since(c.began)
	if c.test.UDP && c.test.Up {
		time.Sleep(200 * time.Millisecond) // data on the way arrive before the end does
	}
	if err := sock.WriteFull(c.control, []byte{TestEnd}); err != nil {
		return o, c.explain(err)
	}
	if err := c.await(ExchangeResults); err != nil {
		return o, c.explain(err)
	}
	mine := c.results(elapsed, used)
	if err := c.send(mine); err != nil {
		return o, c.explain(err)
	}
	var theirs Results
	if err := Unpack(reader{c.control}, &theirs); err != nil {
		return o, c.explain(err)
	}
	if err := c.await(DisplayResults); err != nil {
		return o, c.explain(err)
	}
	c.ended = true
	if err := sock.WriteFull(c.control, []byte{Done}); err != nil {
		return o, c.explain(err)
	}
	return c.outcome(&mine, &theirs)
}

// results are this end's.
func (c *Client) results(elapsed, used time.Duration) Results {
	r := Results{Retransmits: -1, CPU: 100 * used.Seconds() / max(elapsed.Seconds(), 1e-9)}
	r.System = r.CPU // how much of it is the kernel's is not asked for
	for i := range c.Lanes {
		l := &c.Lanes[i]
		s := Stream{ID: StreamID(i), Bytes: float64(l.Amount), Retransmits: -1, End: elapsed.Seconds()}
		switch {
		case c.test.UDP && l.Down:
			s.Packets, s.Errors = Account(&l.Got)
			s.Bytes, s.Jitter = float64(l.Got.Received)*float64(c.test.Block), l.Got.Jitter/1e9
		case c.test.UDP:
			s.Packets, s.Bytes = float64(l.Amount), float64(l.Amount)*float64(c.test.Block)
		}
		if info, ok := sock.Stat(l.fd); ok && !c.test.UDP && !l.Down {
			s.Retransmits, r.Retransmits = float64(info.Resent), 1
		}
		r.Streams = append(r.Streams, s)
	}
	return r
}

// outcome joins the results of both ends. Those of a receiver count.
func (c *Client) outcome(mine, theirs *Results) (o Outcome, err error) {
	if len(theirs.Streams) != len(c.Lanes) {
		return o, fmt.Errorf("the iperf3 server at %s: %w: it tells of %d streams, not of %d", c.text, errGarbage,
			len(theirs.Streams), len(c.Lanes))
	}
	byID := map[int]*Stream{}
	for i := range theirs.Streams {
		byID[theirs.Streams[i].ID] = &theirs.Streams[i]
	}
	for i := range c.Lanes {
		l, their := &c.Lanes[i], byID[StreamID(i)]
		if their == nil {
			return o, fmt.Errorf("the iperf3 server at %s: %w: it tells of no stream %d", c.text, errGarbage,
				StreamID(i))
		}
		switch {
		case c.test.UDP && l.Down:
			o.Received, o.Sent = o.Received+l.Got.Received, o.Sent+l.Got.Next
			o.Late = joined(o.Late, l.Got.Late, true)
			o.Jitter += l.Got.Jitter / float64(len(c.Lanes))
		case c.test.UDP:
			o.Received += int64(max(their.Packets-their.Errors, 0))
			o.Sent, o.Late = o.Sent+l.Amount, -1
			o.Jitter += their.Jitter * 1e9 / float64(len(c.Lanes))
		case l.Down:
			o.Received += l.Amount
			o.Retransmits = joined(o.Retransmits, int64(their.Retransmits), theirs.Retransmits == 1)
		default:
			o.Received += l.Amount // the server's kernel has them; it reads the last of them after the end
			o.Retransmits = joined(o.Retransmits, int64(mine.Streams[i].Retransmits), mine.Retransmits == 1)
			if their.Bytes > float64(l.Amount) || their.Bytes < float64(l.Amount)-unread {
				return o, fmt.Errorf("the iperf3 server at %s counted %.0f bytes on stream %d, and %d were sent",
					c.text, their.Bytes, StreamID(i), l.Amount)
			}
		}
	}
	if cpu := theirs.CPU; cpu >= 0 && cpu < 1e6 {
		o.ServerCPU = time.Duration(cpu / 100 * mine.Streams[0].End * 1e9)
	}
	return o, nil
}

// unread bounds the bytes of a stream that a server may leave in its kernel when it hears of the end.
const unread = 64 << 20

func joined(sum, more int64, known bool) int64 {
	if sum < 0 || more < 0 || !known {
		return -1
	}
	return sum + more
}

// Info has the kernel's statistics of this end's sending streams: the sum of the retransmissions, the mean of the rest.
func (c *Client) Info() (sum sock.Info, ok bool) {
	n := 0
	for i := range c.Lanes {
		if l := &c.Lanes[i]; !l.Down && !c.test.UDP {
			info, known := sock.Stat(l.fd)
			if !known {
				return sum, false
			}
			sum.Resent, sum.RTT, sum.Window = sum.Resent+info.Resent, sum.RTT+info.RTT, sum.Window+info.Window
			n++
		}
	}
	if n == 0 {
		return sum, false
	}
	sum.RTT, sum.Window = sum.RTT/time.Duration(n), sum.Window/int64(n)
	return sum, true
}

// Close closes the connections. Before the end of a test it tells the server.
func (c *Client) Close() error {
	if c.control == sock.None {
		return nil
	}
	if !c.ended {
		sock.WriteFull(c.control, []byte{ClientTerminate})
	}
	for i := range c.Lanes {
		if fd := c.Lanes[i].fd; fd != sock.None {
			sock.Shut(fd)
		}
	}
	c.drains.Wait()
	for i := range c.Lanes {
		if fd := c.Lanes[i].fd; fd != sock.None {
			sock.Close(fd)
		}
	}
	err := sock.Close(c.control)
	c.control = sock.None
	return err
}

// serverError is an error of the server's side in words: its message in the place of the next state, or that it does
// not listen or has closed the connection.
type serverError struct{ what string }

func (e serverError) Error() string { return e.what }

// Errors that may be gone a moment later.
var (
	errNobody = serverError{"no iperf3 server listens there: start one with iperf3 -s, or tare net serve"}
	errClosed = serverError{
		"it closed the connection before the test: it has ended, refuses this client, or the network " +
			"in between failed"}
	errDenied = serverError{"it refuses: it is busy with another test, or does not serve this client"}
)

// await reads the next state, which must be the one that is due.
func (c *Client) await(want byte) error {
	if err := sock.Limit(c.control, c.test.Patience); err != nil {
		return err
	}
	var b [1]byte
	if err := sock.ReadFull(c.control, b[:]); err != nil {
		return err
	}
	if b[0] == want {
		return sock.Limit(c.control, c.test.Stall)
	}
	return c.said(b[0])
}

// said is the error of a state that is not due.
func (c *Client) said(state byte) error {
	switch state {
	case AccessDenied:
		return errDenied
	case ServerTerminate:
		return serverError{"it was ended, and the test with it"}
	case ServerError:
		var b [4]byte // its errno may follow
		if err := sock.ReadFull(c.control, b[:]); err != nil {
			return serverError{"it reports an error and no reason"}
		}
		code := binary.BigEndian.Uint32(b[:])
		why := serverErrors[code]
		if why == "" {
			why = "see iperf3's own output there"
		}
		return serverError{fmt.Sprintf("it reports the error %d: %s", code, why)}
	}
	return fmt.Errorf("%w: state %d came out of turn", errGarbage, int8(state))
}

// Explain adds to an error of Move the server's message about it, if it sent one.
func (c *Client) Explain(err error) error { return c.explain(err) }

func (c *Client) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[serverError](err); !ok && !errors.Is(err, errGarbage) && c.control != sock.None &&
		!c.ended && !errors.Is(err, sock.ErrStalled) && !errors.Is(err, io.EOF) {
		// A server that gives up says why on the control connection.
		var b [1]byte
		if sock.Limit(c.control, lastTime) == nil && sock.ReadFull(c.control, b[:]) == nil {
			if said, ok := errors.AsType[serverError](c.said(b[0])); ok {
				err = said
			}
		}
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), sock.Broken(err), sock.Refused(err):
		err = errors.New("it closed the connection in the middle of a test: it has ended, refuses this client, or " +
			"the network in between failed")
	case errors.Is(err, sock.ErrStalled):
		err = fmt.Errorf("it says nothing: %w", err)
	}
	return fmt.Errorf("the iperf3 server at %s: %w", c.text, err)
}

func (c *Client) send(v any) error {
	b, err := Pack(v)
	if err != nil {
		return err
	}
	return sock.WriteFull(c.control, b)
}

// reader reads from a socket.
type reader struct{ fd sock.FD }

func (r reader) Read(b []byte) (int, error) { return sock.Read(r.fd, b) }
