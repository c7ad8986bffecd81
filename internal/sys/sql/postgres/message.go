package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"tare/internal/sys/sql"
)

// maxLength bounds the length that a message may say it has: no server makes one of more than 1 GiB.
const maxLength = 1<<30 + 4

// fill sees to it that there are n bytes in the buffer, n at most its length.
func (c *Conn) fill(n int) error {
	if c.w-c.r >= n {
		return nil
	}
	if c.r == c.w {
		c.r, c.w = 0, 0
	} else if c.r+n > len(c.in) {
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	for c.w-c.r < n {
		k, err := c.s.Read(c.in[c.w:])
		c.w += k
		if k == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if err != nil && c.w-c.r < n {
			return c.gone("read from the server", err)
		}
	}
	return nil
}

// head begins the next message and returns its type; left is the length of its body.
func (c *Conn) head() (kind byte, err error) {
	if err := c.fill(5); err != nil {
		return 0, err
	}
	h := c.in[c.r : c.r+5]
	n := binary.BigEndian.Uint32(h[1:])
	if n < 4 || n > maxLength {
		return 0, c.wrong("a message %q of %d bytes", h[0], n)
	}
	c.left = int(n) - 4
	c.r += 5
	return h[0], nil
}

// body returns the message that has begun as a whole, which must fit into the buffer. It is valid until the next is
// read.
func (c *Conn) body() ([]byte, error) {
	n := c.left
	if err := c.fill(n); err != nil {
		return nil, err
	}
	p := c.in[c.r : c.r+n]
	c.r += n
	c.left = 0
	return p, nil
}

// part returns some bytes of the message that has begun, nothing at its end. They are valid until the next call.
func (c *Conn) part() ([]byte, error) { return c.upTo(c.left) }

// upTo is part for at most n bytes.
func (c *Conn) upTo(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	if err := c.fill(1); err != nil {
		return nil, err
	}
	n = min(n, c.w-c.r)
	p := c.in[c.r : c.r+n]
	c.r += n
	c.left -= n
	return p, nil
}

// whole returns the message that has begun, of at most limit bytes; memory is taken as the bytes come.
func (c *Conn) whole(limit int) ([]byte, error) {
	if c.left <= len(c.in) {
		return c.body()
	}
	if c.left > limit {
		return nil, c.wrong("%d bytes where at most %d are taken", c.left, limit)
	}
	c.big = c.big[:0]
	for {
		p, err := c.part()
		if err != nil {
			return nil, err
		}
		if len(p) == 0 {
			return c.big, nil
		}
		c.big = append(c.big, p...)
	}
}

// most returns as much of the message that has begun as the buffer holds, and passes over the rest.
func (c *Conn) most() ([]byte, error) {
	if c.left <= len(c.in) {
		return c.body()
	}
	if err := c.fill(len(c.in)); err != nil {
		return nil, err
	}
	c.big = append(c.big[:0], c.in[c.r:c.w]...)
	c.left -= c.w - c.r
	c.r = c.w
	return c.big, c.skip()
}

// skip passes over the rest of the message that has begun.
func (c *Conn) skip() error {
	for {
		if p, err := c.part(); err != nil || len(p) == 0 {
			return err
		}
	}
}

// message reads a message of at most limit bytes.
func (c *Conn) message(limit int) (kind byte, body []byte, err error) {
	if kind, err = c.head(); err == nil {
		body, err = c.whole(limit)
	}
	return kind, body, err
}

// gone ends the connection: it cannot be used any more.
func (c *Conn) gone(doing string, err error) error {
	if c.dead == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // a server does not go first
		}
		c.dead = fmt.Errorf("%s: %w: %w", doing, sql.ErrGone, err)
		c.s.Interrupt() // somebody may be sending; Close closes it
	}
	return c.dead
}

// wrong ends the connection: what came is not what the protocol has here.
func (c *Conn) wrong(format string, args ...any) error {
	return c.gone("read from the server", wrong(format, args...))
}

// flush sends the unit at hand.
func (c *Conn) flush() error {
	out, err := c.out, c.unit
	c.out, c.unit, c.after = c.out[:0], nil, 0
	if cap(c.out) > maxKept {
		c.out = nil
	}
	if c.dead != nil {
		return c.dead
	}
	if err != nil {
		return err
	}
	if c.w > c.r && !said[c.in[c.r]] {
		return c.wrong("a message %q that nobody asked for", c.in[c.r])
	}
	if _, err := c.s.Write(out); err != nil {
		return c.unsent(err)
	}
	return nil
}

// said are the messages that may come while nothing was asked: a notice, a setting, a notification, an error that ends
// the connection.
var said = [256]bool{'N': true, 'S': true, 'A': true, 'E': true}

// unsent is why something could not be sent: a server that ends a connection says why before.
func (c *Conn) unsent(err error) error {
	for range 4 { // notices and settings may stand before it
		kind, e := c.head()
		if e != nil {
			break
		}
		body, e := c.most()
		if e != nil {
			break
		}
		if kind == 'E' {
			return errors.Join(parseError(body), c.gone("send to the server", err))
		}
	}
	return c.gone("send to the server", err)
}

// begin begins a message in the unit at hand and returns where it stands.
func (c *Conn) begin(kind byte) (at int) {
	at = len(c.out)
	c.out = append(c.out, kind, 0, 0, 0, 0)
	return at
}

// end ends it.
func (c *Conn) end(at int) {
	n := len(c.out) - at - 1
	if n > maxLength {
		c.refuse(fmt.Errorf("a message of %d bytes is longer than PostgreSQL takes", n))
	}
	binary.BigEndian.PutUint32(c.out[at+1:], uint32(n))
}
