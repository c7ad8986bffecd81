//go:build unix

package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/sys/sql"
	"tare/internal/sys/sql/trace"
	"tare/internal/unit"
)

// replayTrial is a trial of http.replay.
type replayTrial struct {
	*replayOptions
	replay.Replay
	server
	more []byte          // headers of each request, besides those of the log
	own  map[string]bool // their names in lower case
}

func newReplay(o *replayOptions) (workload.Trial, error) {
	t := &replayTrial{replayOptions: o, own: map[string]bool{}}
	t.Replay = replay.Replay{Options: &o.Options, Explain: t.explain,
		Client: func() replay.Client { return newBrowser(t) }}
	return t, nil
}

// Setup opens the log, prepares the work and the lanes, and the server's caches.
func (t *replayTrial) Setup(ctx context.Context, b *workload.Bench) error {
	path := b.Files["log"]
	if err := t.Open(path); err != nil {
		return err
	}
	switch m := t.Trace.Meta(); {
	case m.Protocol != trace.HTTP:
		return t.Replay.Failed("the trace is not one of an access log")
	case m.Start == 0 && t.Replay.Paced():
		return t.Replay.Failed("the log has no times, so its pace cannot be kept: use pace=flat")
	}
	b.Check("trace", filepath.Base(path)) // its SHA-256
	if err := t.find(ctx, b); err != nil {
		return &record.Failure{Kind: "refused", Message: fmt.Sprintf("http.replay: %v", err)}
	}
	if err := t.Prepare(b); err != nil {
		return err
	}
	if b.Warmup && t.params.Bool("warm") {
		return t.Heat(ctx, b)
	}
	return nil
}

// find finds the server and reads the headers of the user.
func (t *replayTrial) find(ctx context.Context, b *workload.Bench) (err error) {
	if t.server, err = findServer(ctx, b, t.params); err != nil {
		return err
	}
	if _, err := t.to.render(true, t.cookie, t.headers); err != nil { // it checks them
		return err
	}
	for line := range strings.Lines(t.headers) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			t.own[strings.ToLower(name)] = true
			t.more = append(t.more, name+": "+strings.TrimSpace(value)+"\r\n"...)
		}
	}
	if cookie := strings.TrimSpace(t.cookie); cookie != "" {
		t.more = append(t.more, "Cookie: "+cookie+"\r\n"...)
	}
	return nil
}

// explain adds its meaning to an error that ended a replay.
func (t *replayTrial) explain(_ context.Context, err error) error {
	if err == nil {
		return nil
	}
	return t.Replay.Failed("%v", err)
}

// Report turns what the lanes have counted into figures.
func (t *replayTrial) Report(b *workload.Bench) error {
	b.SketchMark = record.MarkStatus
	if err := t.Replay.Report(b, "site"); err != nil {
		return err
	}
	reopened := int64(0)
	for _, c := range t.Clients() {
		reopened += c.(*browser).reopened
	}
	if t.seal != nil {
		b.Note("tls", t.Clients()[0].(*browser).tls)
	}
	b.Note("connections_reopened", strconv.FormatInt(reopened, 10))
	return nil
}

// Cleanup closes the connections and the log.
func (t *replayTrial) Cleanup(*workload.Bench) error { return t.Close() }

// browser sends the requests of a lane.
type browser struct {
	t      *replayTrial
	family int
	to     unix.Sockaddr
	mu     sync.Mutex // guards fd against Interrupt
	fd     int        // -1: there is no connection
	socket blocking   // its bytes
	stream io.ReadWriter
	tls    string // what the handshake agreed on
	quit   atomic.Bool

	served   bool // the connection has returned a response
	reopened int64
	request  []byte
	buf      []byte
	res      response
	body     []byte // of the last response, where it is compared
	left     []byte // of the body without what differs
	long     bool   // the body is longer than what is kept of it
	wanted   int64  // status by the log; -1 if it is not known
}

// maxCompared bounds how much of a body is compared.
const maxCompared = 16 << 20

func newBrowser(t *replayTrial) *browser {
	c := &browser{t: t, fd: -1, buf: make([]byte, receive), res: newResponse()}
	c.family, c.to = sockaddr(t.to.addr)
	if t.body {
		c.res.sink = c.take
	}
	return c
}

// take keeps the part of a body.
func (c *browser) take(p []byte) {
	if n := maxCompared - len(c.body); len(p) > n {
		p, c.long = p[:n], true
	}
	c.body = append(c.body, p...)
}

// Begin begins a session.
func (c *browser) Begin(context.Context, *trace.Event) (connected bool, err error) {
	if c.fd >= 0 && c.t.Replay.Kept {
		return false, nil
	}
	return true, c.connect()
}

// connect makes a connection, instead of the one that is there.
func (c *browser) connect() error {
	c.Close()
	until := time.Now().Add(c.t.params.Duration("timeout"))
	syscall.ForkLock.RLock()
	fd, err := socket(c.family)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.fd, c.served = fd, false
	c.mu.Unlock()
	err = unix.Connect(fd, c.to)
	if err == unix.EINPROGRESS || err == unix.EINTR {
		if err = await(fd, unix.POLLOUT, until); err == nil {
			err = socketError(fd)
		}
	}
	if err == nil {
		// From here on a call waits in the kernel, with a bound: it costs less than asking whether there is something.
		left := unix.NsecToTimeval(int64(c.t.params.Duration("timeout")))
		err = errors.Join(unix.SetNonblock(fd, false),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &left),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &left),
			unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.t.to.addr, err)
	}
	c.socket = blocking{fd, until}
	c.stream = &c.socket
	if c.t.seal != nil {
		if c.stream, err = c.t.seal(&c.socket); err != nil {
			if errors.Is(err, unix.EAGAIN) {
				err = errTimeout
			}
			return fmt.Errorf("TLS with %s: %w", c.t.to.addr, err)
		}
		c.tls = protocolOf(c.stream)
	}
	c.socket.until = time.Time{}
	return nil
}

// blocking is the bytes of a socket on which calls wait in the kernel.
type blocking struct {
	fd    int
	until time.Time // bounds several calls together; zero for no bound
}

func (s *blocking) Read(p []byte) (int, error) {
	for s.until.IsZero() || time.Now().Before(s.until) {
		n, err := unix.Read(s.fd, p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, unix.EAGAIN
}

func (s *blocking) Write(p []byte) (sent int, err error) {
	for sent < len(p) {
		n, err := unix.Write(s.fd, p[sent:])
		if err != nil && err != unix.EINTR {
			return sent, err
		}
		sent += max(n, 0)
	}
	return sent, nil
}

// Before makes the bytes of a request.
func (c *browser) Before(e *trace.Event) (took bool, err error) {
	line, rest, _ := bytes.Cut(e.Text, []byte("\n"))
	b := append(append(c.request[:0], line...), " HTTP/1.1\r\n"...)
	host, agent, accept := c.t.own["host"], c.t.own["user-agent"], c.t.own["accept"]
	for len(rest) > 0 && rest[0] != '\n' {
		var header []byte
		header, rest, _ = bytes.Cut(rest, []byte("\n"))
		name, _, _ := bytes.Cut(header, []byte(":"))
		if c.overridden(name) {
			continue
		}
		host, agent, accept = host || is(name, "host"), agent || is(name, "user-agent"), accept || is(name, "accept")
		b = append(append(b, header...), "\r\n"...)
	}
	if !host {
		b = append(append(append(b, "Host: "...), c.t.to.host...), "\r\n"...)
	}
	if !agent {
		b = append(b, "User-Agent: tare\r\n"...)
	}
	if !accept {
		b = append(b, "Accept: */*\r\n"...)
	}
	b = append(b, c.t.more...)
	body := bytes.TrimPrefix(rest, []byte("\n"))
	if c.res.bodiless = bytes.HasPrefix(line, []byte("HEAD ")); len(body) > 0 || line[0] == 'P' {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10), "\r\n"...)
	}
	c.request = append(append(b, "\r\n"...), body...)
	c.wanted = e.Rows
	return true, nil
}

// overridden tells whether the user gives another header of this name.
func (c *browser) overridden(name []byte) bool {
	for own := range c.t.own {
		if is(name, own) {
			return true
		}
	}
	return false
}

// Do sends the request and receives the response.
func (c *browser) Do(e *trace.Event, r *replay.Result) error {
	err := c.exchange()
	if errors.Is(err, errAgain) {
		c.reopened++
		if err = c.connect(); err == nil {
			err = c.exchange()
		}
	}
	if err != nil {
		if errors.Is(err, unix.EAGAIN) {
			err = fmt.Errorf("%w; %s of its body arrived", errTimeout, unit.Plural(c.res.body, "byte"))
		}
		line, _, _ := bytes.Cut(e.Text, []byte("\n"))
		return fmt.Errorf("request %d of the log (%s) to %s: %w", e.Number, proc.Line(string(line)), c.t.to.addr, err)
	}
	if c.res.close {
		c.Close()
	}
	*r = replay.Result{Mark: uint32(c.res.status)}
	return nil
}

// errAgain is that the server had closed a connection that had been used, before the request arrived.
var errAgain = errors.New("the server had closed the connection")

// exchange makes one request on the connection, which is made if there is none.
func (c *browser) exchange() error {
	if c.fd < 0 {
		if err := c.connect(); err != nil {
			return err
		}
	}
	c.res.reset()
	c.body, c.long = c.body[:0], false
	if _, err := c.stream.Write(c.request); err != nil {
		return c.broken(err)
	}
	until := time.Time{}
	for {
		n, err := c.stream.Read(c.buf)
		switch {
		case c.quit.Load():
			return errStopped
		case n > 0: // an error comes again
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return c.broken(err)
		case c.res.untouched():
			return c.broken(unix.ECONNRESET)
		default:
			return c.res.ends()
		}
		if done, err := c.res.feed(c.buf[:n]); done || err != nil {
			c.served = c.served || err == nil
			return err
		}
		// A response of many reads is bounded as a whole.
		if now := time.Now(); until.IsZero() {
			until = now.Add(c.t.params.Duration("timeout"))
		} else if now.After(until) {
			return unix.EAGAIN
		}
	}
}

var errStopped = errors.New("the replay was stopped")

// broken is an error of a connection: one that was used before may have been closed meanwhile.
func (c *browser) broken(err error) error {
	if c.quit.Load() {
		return errStopped
	}
	if (errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)) && c.res.untouched() {
		if c.served {
			return errAgain
		}
		return errors.New("the server closed the connection before the response's header was complete")
	}
	return err
}

// Sum adds up what the response is compared by, and holds its status against the log's.
func (c *browser) Sum(r *replay.Result) {
	var s sql.Sum
	var status [4]byte
	s.Value(strconv.AppendInt(status[:0], int64(c.res.status), 10))
	if c.t.body {
		body := c.compared()
		r.Rows = uint64(len(body))
		s.Value(body)
		s.Value(c.compareLocation())
	}
	s.EndRow()
	r.Ordered, r.Unordered = s.Unordered(), s.Unordered()
	if c.wanted > 0 && int64(c.res.status) != c.wanted {
		r.Mistake = strconv.Itoa(c.res.status) + " instead of " + strconv.FormatInt(c.wanted, 10)
	}
}

// compared is the body without what differs each time. What is no text stays as it is.
func (c *browser) compared() []byte {
	body := c.body
	if bytes.IndexByte(body[:min(len(body), 512)], 0) >= 0 {
		return body
	}
	if c.t.mask != nil {
		body = c.t.mask.ReplaceAllLiteral(body, []byte{maskToken})
	}
	if c.t.masks {
		c.left = leaveOut(c.left[:0], body)
		body = c.left
	}
	return body
}

// Shown is the part of the response by which it is compared, without the user's secrets.
func (c *browser) Shown() string {
	body := c.compared()
	if c.t.body && bytes.IndexByte(body[:min(len(body), 512)], 0) >= 0 {
		body = []byte("(no text)")
	}
	text := string(body)
	if at := c.compareLocation(); len(at) > 0 {
		text = "(to " + string(at) + ") " + text
	}
	for _, s := range c.t.secrets() {
		text = strings.ReplaceAll(text, s, "…")
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, string(maskTime), "…"), string(maskToken), "…")
}

// leastSecret is the length in bytes from which on a value is a secret: shorter ones are in each page.
const leastSecret = 6

// secrets are the values of the user's cookies and headers.
func (t *replayTrial) secrets() (all []string) {
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= leastSecret {
			all = append(all, s)
		}
	}
	for line := range strings.Lines(t.headers) {
		_, value, _ := strings.Cut(line, ":")
		add(value)
	}
	for pair := range strings.SplitSeq(t.cookie, ";") {
		_, value, _ := strings.Cut(pair, "=")
		add(value)
	}
	return all
}

// compareLocation is a redirect's target without its server, whose name may be another one in each target.
func (c *browser) compareLocation() []byte {
	at := c.res.location
	if _, rest, ok := bytes.Cut(at, []byte("://")); ok {
		if i := bytes.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
	}
	return at
}

// Other does nothing: an access log has requests only.
func (c *browser) Other(*trace.Event) error { return nil }

// End ends a session.
func (c *browser) End() error {
	if !c.t.Replay.Kept {
		c.Close()
	}
	return nil
}

// Close closes the connection.
func (c *browser) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		_ = unix.Close(c.fd)
	}
	c.fd = -1
}

// Interrupt ends a call that waits for the server.
func (c *browser) Interrupt() {
	c.quit.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
}
