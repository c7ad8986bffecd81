// Package serve is a server for stock iperf3 clients, one test at a time, as iperf3 -s is.
//
// It is opinionated about strangers: a connection that does not belong to the test is refused at once, datagrams count
// only if they come from the client's address, and all that a client may say or keep silent about is bounded.
package serve

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/sys/iperf3"
	"tare/internal/sys/sock"
)

// Deadlines. That of data bounds the time without any progress.
const (
	greetTime  = 10 * time.Second
	paramsTime = 30 * time.Second
	stallTime  = 2 * time.Minute
	grace      = 30 * time.Second // beyond the time that a client asks for
	quiet      = 50 * time.Millisecond
	lastTime   = 2 * time.Second // for what is on the way when a test is over
)

// Bounds of a test: those of iperf3.
const (
	maxStreams = 128
	maxBlock   = 1 << 20
	// maxWaiting bounds the connections that have not shown a cookie yet.
	maxWaiting = 2*maxStreams + 16
)

// Server serves tests until it is closed.
type Server struct {
	// Told is called after each test, from one goroutine at a time.
	Told func(Report)
	// CPU is the CPU time that this process has used; below 0: not known.
	CPU func() time.Duration

	tcp     *net.TCPListener
	mu      sync.Mutex
	running *test // nil: none
	waiting atomic.Int32
	tests   sync.WaitGroup
}

// Report is what became of a test.
type Report struct {
	Client         netip.AddrPort
	UDP            bool
	Sending        int   // streams to the client
	Receiving      int   // streams from it
	Sent, Received int64 // bytes
	Lost, Packets  int64 // of what came over UDP
	Elapsed        time.Duration
	Err            error // nil: it came to its end
}

// Listen returns a server at a numeric address with a port. It serves nobody yet.
func Listen(at netip.AddrPort) (*Server, error) {
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	return &Server{tcp: l, Told: func(Report) {}, CPU: func() time.Duration { return -1 }}, nil
}

// Address is where the server listens.
func (s *Server) Address() netip.AddrPort { return s.tcp.Addr().(*net.TCPAddr).AddrPort() }

// Serve serves until ctx is done. The client of a test that runs then is told.
func (s *Server) Serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.tcp.Close() })
	defer stop()
	defer s.tests.Wait()
	for number := 0; ; number++ {
		c, err := s.tcp.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as too many open files, which pass
			time.Sleep(10 * time.Millisecond)
			continue
		case s.waiting.Load() >= maxWaiting:
			c.Close()
			continue
		}
		s.waiting.Add(1)
		s.tests.Go(func() { s.attend(ctx, stream{c, number}) })
	}
}

// stream is a connection with its place among all that were accepted.
type stream struct {
	*net.TCPConn
	number int
}

// attend finds out what a connection is: the control connection of a new test, or a stream of the one that runs.
func (s *Server) attend(ctx context.Context, c stream) {
	waiting := true
	waited := func() {
		if waiting {
			waiting = false
			s.waiting.Add(-1)
		}
	}
	defer waited()
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now()) })
	var cookie [iperf3.CookieSize]byte
	c.SetReadDeadline(time.Now().Add(greetTime))
	_, err := io.ReadFull(c, cookie[:])
	if !stop() || err != nil {
		c.Close()
		return
	}
	s.mu.Lock()
	t := s.running
	if t == nil {
		t = &test{server: s, control: c.TCPConn, cookie: cookie, streams: make(chan stream)}
		s.running = t
		s.mu.Unlock()
		waited()
		s.run(ctx, t)
		return
	}
	s.mu.Unlock()
	if subtle.ConstantTimeCompare(cookie[:], t.cookie[:]) == 1 {
		select {
		case t.streams <- c:
			return
		case <-time.After(greetTime):
		case <-ctx.Done():
		}
	}
	c.SetWriteDeadline(time.Now().Add(time.Second))
	c.Write([]byte{iperf3.AccessDenied})
	c.Close()
}

// run is one test.
func (s *Server) run(ctx context.Context, t *test) {
	r := Report{Client: t.control.RemoteAddr().(*net.TCPAddr).AddrPort()}
	stop := context.AfterFunc(ctx, func() { t.interrupt() })
	err := t.serve(&r)
	if !stop() {
		err = errors.New("this server was ended")
		t.say(iperf3.ServerTerminate)
	}
	t.close()
	r.Err = err
	s.mu.Lock()
	s.running = nil
	s.Told(r)
	s.mu.Unlock()
}

// test is the test that runs.
type test struct {
	server  *Server
	control *net.TCPConn
	cookie  [iperf3.CookieSize]byte
	params  iperf3.Params
	streams chan stream
	udp     *net.UDPConn
	lanes   []*lane
	moving  sync.WaitGroup
	over    atomic.Bool
	last    atomic.Int64 // when, in Unix ns, the streams are given up after it is over
	began   time.Time
	cut     atomic.Bool // by the end of the server
}

// lane is one stream.
type lane struct {
	sends   bool
	tcp     *net.TCPConn
	to      netip.AddrPort // over UDP
	mu      sync.Mutex     // guards got
	got     sock.Arrivals
	bytes   atomic.Int64
	omitted int64 // of them, before the time that counts
	sent    atomic.Int64
	err     error
}

func (t *test) say(state byte) error {
	t.control.SetWriteDeadline(time.Now().Add(greetTime))
	_, err := t.control.Write([]byte{state})
	return err
}

// interrupt has every wait of a test return.
func (t *test) interrupt() {
	t.cut.Store(true)
	t.over.Store(true)
	t.control.SetReadDeadline(time.Now())
}

func (t *test) close() {
	t.last.Store(1)
	t.over.Store(true)
	for _, l := range t.lanes {
		if l.tcp != nil {
			l.tcp.SetDeadline(time.Now())
		}
	}
	if t.udp != nil {
		t.udp.Close()
	}
	t.moving.Wait()
	for _, l := range t.lanes {
		if l.tcp != nil {
			l.tcp.Close()
		}
	}
	t.control.Close()
}

// within bounds the next reads of the control connection.
func (t *test) within(d time.Duration) {
	t.control.SetReadDeadline(time.Now().Add(d))
	if t.cut.Load() {
		t.control.SetReadDeadline(time.Now())
	}
}

func (t *test) serve(r *Report) error {
	t.control.SetNoDelay(true)
	if err := t.say(iperf3.ParamExchange); err != nil {
		return fmt.Errorf("ask for the parameters: %w", err)
	}
	t.within(paramsTime)
	if err := iperf3.Unpack(t.control, &t.params); err != nil {
		return fmt.Errorf("read the parameters: %w", err)
	}
	if code, err := t.check(); err != nil {
		t.refuse(code)
		return err
	}
	r.UDP = t.params.UDP
	if err := t.open(r); err != nil {
		return err
	}
	for _, state := range []byte{iperf3.TestStart, iperf3.TestRunning} {
		if err := t.say(state); err != nil {
			return fmt.Errorf("start: %w", err)
		}
	}
	cpu := t.server.CPU()
	t.began = time.Now()
	t.move()
	err := t.awaitEnd()
	r.Elapsed = time.Since(t.began)
	used := t.server.CPU() - cpu
	if err == nil {
		err = t.exchange(r.Elapsed, used, cpu >= 0)
	}
	for _, l := range t.lanes {
		if n := l.bytes.Load(); l.sends {
			r.Sent += n
		} else {
			r.Received += n
			l.mu.Lock()
			r.Lost, r.Packets = r.Lost+l.got.Lost(l.got.Next), r.Packets+l.got.Next
			l.mu.Unlock()
		}
	}
	return err
}

// refuse tells the client why its parameters are not served.
func (t *test) refuse(code uint32) {
	t.control.SetWriteDeadline(time.Now().Add(greetTime))
	said := binary.BigEndian.AppendUint32([]byte{iperf3.ServerError}, code)
	t.control.Write(append(said, 0, 0, 0, 0)) // no errno
}

// check holds that the parameters can be served. The number is iperf3's for the error.
func (t *test) check() (code uint32, err error) {
	p := &t.params
	const streams, block, unknown = 6, 7, 131
	switch {
	case p.SCTP || p.TCP == p.UDP:
		return unknown, errors.New("the client asks for another protocol than TCP or UDP")
	case !(p.Streams >= 1 && p.Streams <= maxStreams):
		return streams, fmt.Errorf("the client asks for %v streams; there are at most %d", p.Streams, maxStreams)
	case !(p.Block >= 1 && p.Block <= maxBlock) || p.UDP && !(p.Block >= 16 && p.Block <= iperf3.MaxDatagram):
		return block, fmt.Errorf("the client asks for blocks of %v bytes", p.Block)
	case !(p.Time >= 0 && p.Time <= 1e9 && p.Omit >= 0 && p.Omit <= 600 && p.Rate >= 0 && p.Rate <= 1e15):
		const cannot = 13
		return cannot, errors.New("the client asks for a time or a rate that is out of bounds")
	}
	return 0, nil
}

// open accepts the streams: first those that the client sends on.
func (t *test) open(r *Report) error {
	p := &t.params
	if !p.Reverse || p.Bidirectional {
		r.Receiving = int(p.Streams)
	}
	if p.Reverse || p.Bidirectional {
		r.Sending = int(p.Streams)
	}
	if p.UDP {
		here := t.control.LocalAddr().(*net.TCPAddr)
		var err error
		if t.udp, err = net.ListenUDP("udp", &net.UDPAddr{IP: here.IP, Port: here.Port, Zone: here.Zone}); err != nil {
			const stream = 202
			t.refuse(stream)
			return fmt.Errorf("listen for datagrams: %w", err)
		}
	}
	if err := t.say(iperf3.CreateStreams); err != nil {
		return fmt.Errorf("ask for the streams: %w", err)
	}
	end := time.Now().Add(paramsTime)
	n := r.Receiving + r.Sending
	var accepted []stream
	for i := range n {
		l := &lane{sends: i >= r.Receiving}
		var err error
		if p.UDP {
			err = t.greet(l, end)
		} else {
			var c stream
			if c, err = t.accept(end); err == nil {
				l.tcp, accepted = c.TCPConn, append(accepted, c)
			}
		}
		if err != nil {
			return fmt.Errorf("wait for stream %d of %d: %w", i+1, n, err)
		}
		t.lanes = append(t.lanes, l)
	}
	// They showed their cookies side by side. Which one sends is a matter of the order in which the client opened them.
	slices.SortFunc(accepted, func(a, b stream) int { return a.number - b.number })
	for i, c := range accepted {
		t.lanes[i].tcp = c.TCPConn
	}
	return nil
}

var errNoStream = errors.New("the client does not open it")

func (t *test) accept(end time.Time) (stream, error) {
	for time.Now().Before(end) && !t.cut.Load() {
		select {
		case c := <-t.streams:
			c.SetDeadline(time.Time{})
			c.SetNoDelay(t.params.NoDelay)
			return c, nil
		case <-time.After(quiet):
			if t.left() {
				return stream{}, errLeft
			}
		}
	}
	return stream{}, errNoStream
}

var errLeft = errors.New("the client has left")

// left tells whether the client has closed the control connection, or said that it leaves.
func (t *test) left() bool {
	t.within(time.Millisecond)
	_, err := t.control.Read(make([]byte, 1))
	return err == nil || !isTimeout(err)
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// greet waits for the first datagram of a stream and answers it.
func (t *test) greet(l *lane, end time.Time) error {
	client := t.control.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	b := make([]byte, 2048)
	for time.Now().Before(end) && !t.cut.Load() {
		t.udp.SetReadDeadline(time.Now().Add(quiet))
		n, from, err := t.udp.ReadFromUDPAddrPort(b)
		switch {
		case isTimeout(err):
			if t.left() {
				return errLeft
			}
			continue
		case err != nil:
			return err
		case n != 4 || from.Addr().Unmap() != client || t.lane(from) != nil:
			continue
		}
		l.to = from
		_, err = t.udp.WriteToUDPAddrPort(binary.LittleEndian.AppendUint32(nil, iperf3.Answer), from)
		return err
	}
	return errNoStream
}

// lane is the stream with an address.
func (t *test) lane(from netip.AddrPort) *lane {
	for _, l := range t.lanes {
		if l.to == from {
			return l
		}
	}
	return nil
}

// awaitEnd waits until the client says that the test is over.
func (t *test) awaitEnd() error {
	var end time.Time
	if t.params.Time > 0 {
		end = t.began.Add(time.Duration((t.params.Time+t.params.Omit)*float64(time.Second)) + grace)
	}
	var state [1]byte
	for before := int64(-1); ; {
		wait := stallTime
		if !end.IsZero() {
			wait = min(wait, time.Until(end))
		}
		t.within(wait)
		_, err := t.control.Read(state[:])
		switch moved := t.moved(); {
		case isTimeout(err) && !t.cut.Load() && (end.IsZero() || time.Now().Before(end)) && moved != before:
			before = moved
			continue
		case isTimeout(err):
			t.say(iperf3.ServerTerminate)
			return fmt.Errorf("the client did not end the test in time")
		case err != nil:
			return fmt.Errorf("%w in the middle of the test", errLeft)
		}
		switch state[0] {
		case iperf3.TestEnd:
			return nil
		case iperf3.ClientTerminate:
			return errors.New("the client gave the test up")
		}
		return fmt.Errorf("the client said %d in the middle of the test", state[0])
	}
}

// exchange ends the streams and tells the client what was counted.
func (t *test) exchange(elapsed, used time.Duration, known bool) error {
	t.last.Store(time.Now().Add(lastTime).UnixNano())
	t.over.Store(true)
	for _, l := range t.lanes {
		if l.tcp != nil {
			l.tcp.SetWriteDeadline(time.Now())
			l.tcp.SetReadDeadline(t.soon())
		}
	}
	t.moving.Wait()
	for _, l := range t.lanes {
		if l.tcp != nil && l.sends {
			// A stock client reads whole blocks, and would wait half a minute for the rest of the last one.
			l.tcp.CloseWrite()
		}
	}
	if err := t.say(iperf3.ExchangeResults); err != nil {
		return fmt.Errorf("ask for the results: %w", err)
	}
	t.within(paramsTime)
	var theirs iperf3.Results
	if err := iperf3.Unpack(t.control, &theirs); err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	b, err := iperf3.Pack(t.results(elapsed, used, known))
	if err != nil {
		return err
	}
	t.control.SetWriteDeadline(time.Now().Add(greetTime))
	if _, err := t.control.Write(append(b, iperf3.DisplayResults)); err != nil {
		return fmt.Errorf("send the results: %w", err)
	}
	t.within(paramsTime)
	var state [1]byte
	t.control.Read(state[:]) // done, or the end of the connection: all is said
	return nil
}

func (t *test) results(elapsed, used time.Duration, known bool) iperf3.Results {
	r := iperf3.Results{Retransmits: -1}
	if known {
		r.CPU = 100 * used.Seconds() / max(elapsed.Seconds(), 1e-9)
		r.System = r.CPU // how much of it is the kernel's is not asked for
	}
	seconds := max(elapsed.Seconds()-t.params.Omit, 0)
	for i, l := range t.lanes {
		l.mu.Lock()
		s := iperf3.Stream{ID: iperf3.StreamID(i), Bytes: float64(l.bytes.Load() - l.omitted), Retransmits: -1,
			End: seconds}
		switch {
		case t.params.UDP && l.sends:
			s.Packets = float64(l.sent.Load())
		case t.params.UDP:
			s.Packets, s.Errors = iperf3.Account(&l.got)
			s.Jitter = l.got.Jitter / 1e9
		case l.sends:
			if raw, err := l.tcp.SyscallConn(); err == nil {
				raw.Control(func(fd uintptr) {
					if info, ok := sock.Stat(sock.FD(fd)); ok {
						s.Retransmits, r.Retransmits = float64(info.Resent), 1
					}
				})
			}
		}
		if l.sends && r.Retransmits < 0 {
			r.Retransmits = 0
		}
		l.mu.Unlock()
		r.Streams = append(r.Streams, s)
	}
	return r
}
