package netpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// Dialer makes connections of one kind to a peer. The zero value is not usable.
type Dialer struct {
	to     sock.Address
	text   string
	token  Token
	hello  []byte
	op     Op
	size   int
	stall  time.Duration
	within time.Duration // for a connect
}

// NewDialer reads an address, such as 10.0.2.2:41234, and a token.
func NewDialer(address, token string, op Op, size int) (*Dialer, error) {
	to, err := sock.ParseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the peer: %w", err)
	}
	t, err := ParseToken(token)
	if err != nil {
		return nil, err
	}
	h := Hello{Token: t, Op: op, Size: size}
	if _, err := parseHello(h.pack()); err != nil {
		return nil, fmt.Errorf("a size of %d bytes: %w", size, err)
	}
	d := &Dialer{to: to, text: address, token: t, stall: stallTime, within: connectTime}
	return d.with(h), nil
}

// with is the dialer with another greeting.
func (d *Dialer) with(h Hello) *Dialer {
	c := *d
	c.hello, c.op, c.size = h.pack(), h.Op, h.Size
	return &c
}

// Reached returns the first of some addresses that leads from here to the peer that knows a token.
func Reached(addresses []string, token string) (string, error) {
	err := errors.New("the peer has no address")
	for _, address := range addresses {
		var d *Dialer
		if d, err = NewDialer(address, token, Touch, 0); err == nil {
			d.within, d.stall = nearTime, nearTime
			err = d.Touch()
		}
		if err == nil {
			return address, nil
		}
	}
	return "", err
}

// Conn is an accepted connection to a peer. It is used by one thread at a time, which waits in the kernel.
type Conn struct {
	fd    sock.FD
	stall time.Duration
	ask   [8]byte
}

// Dial makes a connection.
func (d *Dialer) Dial() (*Conn, error) {
	fd, err := d.dial()
	if err != nil {
		return nil, err
	}
	c := &Conn{fd: fd, stall: d.stall}
	if err := sock.Limit(fd, d.stall); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Touch makes a connection, exchanges greetings and closes it. It allocates nothing.
func (d *Dialer) Touch() error {
	fd, err := d.dial()
	if err != nil {
		return err
	}
	return sock.Close(fd)
}

// dial returns the socket of an accepted connection.
func (d *Dialer) dial() (sock.FD, error) {
	fd, err := d.to.TCP()
	if err != nil {
		return sock.None, fmt.Errorf("make a socket: %w", err)
	}
	if err := d.greet(fd); err != nil {
		sock.Close(fd)
		return sock.None, err
	}
	return fd, nil
}

func (d *Dialer) greet(fd sock.FD) error {
	if err := sock.Connect(fd, &d.to, d.within); err != nil {
		return d.unconnected(err)
	}
	if d.op != Up && d.op != Down {
		if err := sock.NoDelay(fd, true); err != nil {
			return err
		}
	}
	if err := sock.WriteFull(fd, d.hello); err != nil {
		return broken("greet the peer at "+d.text, err)
	}
	var answer [1]byte
	if err := sock.ReadFull(fd, answer[:]); err != nil {
		return broken("wait for the peer at "+d.text+" to answer", err)
	}
	switch why := refusals[answer[0]]; {
	case answer[0] == admitted:
		return nil
	case why != "":
		return errors.New(why)
	}
	return fmt.Errorf("the program that listens at %s is not a peer of tare: it answered %#x", d.text, answer[0])
}

// unconnected explains an error of connect.
func (d *Dialer) unconnected(err error) error {
	switch {
	case sock.Refused(err):
		return fmt.Errorf("connect to the peer at %s: %w: the peer has ended, or that address is not the "+
			"controller's loopback", d.text, err)
	case sock.Unreachable(err):
		return fmt.Errorf("connect to the peer at %s: %w: the controller's loopback cannot be reached from here",
			d.text, err)
	case sock.Portless(err):
		return fmt.Errorf("connect to the peer at %s: %w: this system has no free port left", d.text, err)
	}
	return fmt.Errorf("connect to the peer at %s: %w", d.text, err)
}

// Close closes the connection. The peer then forgets it.
func (c *Conn) Close() error {
	if c.fd == sock.None {
		return nil
	}
	fd := c.fd
	c.fd = sock.None
	return sock.Close(fd)
}

// Ask sends the amount of a request; an Echo's messages follow by Write and Read.
func (c *Conn) Ask(amount int64) error {
	binary.LittleEndian.PutUint64(c.ask[:], uint64(amount))
	if err := sock.WriteFull(c.fd, c.ask[:]); err != nil {
		return broken("ask the peer", err)
	}
	return nil
}

// Write sends all of b.
func (c *Conn) Write(b []byte) error {
	if err := sock.WriteFull(c.fd, b); err != nil {
		return broken("send to the peer", err)
	}
	return nil
}

// Read fills b.
func (c *Conn) Read(b []byte) error {
	if err := sock.ReadFull(c.fd, b); err != nil {
		return broken("receive from the peer", err)
	}
	return nil
}

// Up sends so many bytes, a block at a time, and returns when the peer has confirmed all of them.
func (c *Conn) Up(block []byte, amount int64) (Receipt, error) {
	if err := c.Ask(amount); err != nil {
		return Receipt{}, err
	}
	defer thread.Quiet()()
	if err := sock.Send(c.fd, block, amount); err != nil {
		return Receipt{}, broken("send to the peer", err)
	}
	return c.receipt(amount)
}

// Down receives so many bytes, at most a block at a time.
func (c *Conn) Down(block []byte, amount int64) (Receipt, error) {
	if err := c.Ask(amount); err != nil {
		return Receipt{}, err
	}
	defer thread.Quiet()()
	if err := sock.Receive(c.fd, block, amount, c.stall); err != nil {
		return Receipt{}, broken("receive from the peer", err)
	}
	return c.receipt(amount)
}

func (c *Conn) receipt(amount int64) (Receipt, error) {
	var b [receiptSize]byte
	if err := sock.ReadFull(c.fd, b[:]); err != nil {
		return Receipt{}, broken("wait for the peer's receipt", err)
	}
	r := parseReceipt(b[:])
	if r.Bytes != amount {
		return r, fmt.Errorf("the peer counted %d bytes, but %d were sent", r.Bytes, amount)
	}
	return r, nil
}

// Usage asks for the CPU time that the peer's process has used so far.
func (c *Conn) Usage() (Used, error) {
	if err := c.Ask(1); err != nil {
		return Used{}, err
	}
	var b [usedSize]byte
	if err := sock.ReadFull(c.fd, b[:]); err != nil {
		return Used{}, broken("ask for the peer's CPU time", err)
	}
	return parseUsed(b[:]), nil
}

// Page asks for a page of so many bytes from a seed, and returns with each call the CPU time that the server has used
// so far.
func (c *Conn) Page(size int64, seed uint64) (Served, error) {
	if err := c.Ask(size); err != nil {
		return Served{}, err
	}
	b := make([]byte, servedSize)
	err := c.Write(binary.LittleEndian.AppendUint64(nil, seed))
	if err == nil {
		err = c.Read(b)
	}
	if err != nil {
		return Served{}, err
	}
	s, n, err := parseServed(b)
	if err != nil {
		return s, err
	}
	text := make([]byte, n)
	if err := c.Read(text); err != nil {
		return s, err
	}
	if s.Name = string(text); s.Port == 0 {
		return s, fmt.Errorf("on the controller's machine: %s", text)
	}
	return s, nil
}

// Info has the statistics of the connection by this end's kernel, if it has any.
func (c *Conn) Info() (sock.Info, bool) { return sock.Stat(c.fd) }

// broken explains a connection that failed during an operation.
func broken(what string, err error) error {
	switch {
	case errors.Is(err, sock.ErrStalled):
		return fmt.Errorf("%s: %w (%v)", what, sock.ErrStalled, stallTime)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the peer closed the connection: it has ended, or the network in between failed",
			what)
	case sock.Broken(err):
		return fmt.Errorf("%s: the connection to the peer broke (%w): it has ended, or the network in between failed",
			what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
