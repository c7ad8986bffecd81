package mysql

import (
	"encoding/binary"
	"io"

	"tare/internal/sys/sql"
)

// buffer is the size of the read buffer, in bytes.
const buffer = sql.BufferSize

// maxChunk is the length of a packet that continues in the next packet, in bytes.
const maxChunk = 1<<24 - 1

// maxOut is the size in bytes up to which a buffer is kept for the next command.
const maxOut = 1 << 20

// fill reads until the buffer contains at least n unread bytes, n <= buffer.
func (c *Conn) fill(n int) error {
	if c.w-c.r >= n {
		return nil
	}
	if c.dead != nil {
		return c.dead
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
		if err != nil && c.w-c.r < n {
			return c.fail("read from the server", err)
		}
		if k == 0 && err == nil {
			return c.fail("read from the server", io.ErrNoProgress)
		}
	}
	return nil
}

// begin reads the header of the next packet. The functions below read its payload.
func (c *Conn) begin() error {
	if err := c.fill(4); err != nil {
		return err
	}
	h := c.in[c.r : c.r+4]
	if h[3] != c.seq {
		return c.unexpected("packet number %d, want %d", h[3], c.seq)
	}
	c.seq++
	c.left = int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	c.more = c.left == maxChunk
	c.r += 4
	return nil
}

// first returns the first byte of the payload without consuming it.
func (c *Conn) first() (byte, error) {
	if c.left == 0 {
		return 0, c.violation("an empty packet")
	}
	if err := c.fill(1); err != nil {
		return 0, err
	}
	return c.in[c.r], nil
}

// next returns the next bytes of the payload, as many as the buffer contains, or none at the end of the payload. They
// are valid until the next read. A payload may consist of several packets.
func (c *Conn) next() ([]byte, error) {
	for c.left == 0 {
		if !c.more {
			return nil, nil
		}
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	if err := c.fill(1); err != nil {
		return nil, err
	}
	n := min(c.left, c.w-c.r)
	p := c.in[c.r : c.r+n]
	c.r += n
	c.left -= n
	return p, nil
}

// whole returns the rest of the payload, at most limit bytes. It is valid until the next read.
func (c *Conn) whole(limit int) ([]byte, error) {
	if c.fits() && c.left <= limit {
		return c.here()
	}
	c.big = c.big[:0]
	for {
		p, err := c.next()
		if err != nil || len(p) == 0 {
			return c.big, err
		}
		if len(c.big)+len(p) > limit {
			return nil, c.violation("a payload of more than %d bytes", limit)
		}
		c.big = append(c.big, p...)
	}
}

// fits reports whether the rest of the payload fits into the buffer.
func (c *Conn) fits() bool { return !c.more && c.left <= len(c.in) }

// here returns the rest of a payload that fits.
func (c *Conn) here() ([]byte, error) {
	n := c.left
	if err := c.fill(n); err != nil {
		return nil, err
	}
	p := c.in[c.r : c.r+n]
	c.r += n
	c.left = 0
	return p, nil
}

// skip reads the rest of the payload and drops it.
func (c *Conn) skip() error {
	for {
		if p, err := c.next(); err != nil || len(p) == 0 {
			return err
		}
	}
}

// command sends a command with its argument.
func (c *Conn) command(kind byte, body []byte) error {
	if c.dead != nil {
		return c.dead
	}
	if c.r != c.w {
		if err := c.fill(4); err != nil {
			return err
		}
		return c.unexpected("data that was not requested")
	}
	c.seq = 0
	c.out = append(c.out[:0], 0, 0, 0, 0, kind)
	return c.send(body)
}

// send sends a payload: the bytes of c.out after the first four, which are for the header, and then body. It splits a
// long payload into packets. A short payload is one write.
func (c *Conn) send(body []byte) error {
	head := c.out
	for {
		n := len(head) - 4 + len(body)
		n = min(n, maxChunk)
		binary.LittleEndian.PutUint32(head, uint32(n)|uint32(c.seq)<<24)
		c.seq++
		mine := min(len(head)-4, n) // bytes of this packet from head
		theirs := n - mine          // and from body
		var err error
		if len(head)-4 == mine && len(head)+theirs <= buffer {
			head = append(head, body[:theirs]...)
			c.out = head
			_, err = c.s.Write(head)
		} else if _, err = c.s.Write(head[:4+mine]); err == nil && theirs > 0 {
			_, err = c.s.Write(body[:theirs])
		}
		if err != nil {
			return c.unsent(err)
		}
		body = body[theirs:]
		if len(head)-4 > mine {
			head = head[mine:] // the next header overwrites bytes that were sent
		} else {
			head = head[:4]
		}
		if n < maxChunk {
			if cap(c.out) > maxOut {
				c.out = nil
			}
			return nil
		}
	}
}

// maxFarewell is the limit for an error that a server sends without a request, in bytes.
const maxFarewell = 4 << 10

// unexpected closes the connection, on which an unexpected packet arrived. A server that closes a connection on its
// own, for example after a timeout, first sends an error; then this error is returned.
func (c *Conn) unexpected(format string, args ...any) error {
	h := c.in[c.r : c.r+4]
	if n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16; n >= 3 && n <= maxFarewell {
		if err := c.fill(4 + n); err != nil {
			return err
		}
		if p := c.in[c.r+4 : c.r+4+n]; p[0] == 0xff {
			return c.fail("read from the server", parseError(p))
		}
	}
	return c.violation(format, args...)
}

// unsent returns the reason why a command could not be sent. A server that rejects a command, for example because it is
// too large, sends an error before it closes the connection.
func (c *Conn) unsent(err error) error {
	if c.fill(4) != nil {
		c.dead = nil // the error of the write says more than the error of the read
		return c.fail("send to the server", err)
	}
	return c.unexpected("an answer before the end of the command")
}

// lenenc reads a number of variable length (MySQL Internals, "Length-Encoded Integer") and returns the number of bytes
// it consists of, or 0 if the bytes are not such a number.
func lenenc(p []byte) (v uint64, n int) {
	if len(p) == 0 {
		return 0, 0
	}
	switch b := p[0]; {
	case b < 0xfb:
		return uint64(b), 1
	case b == 0xfc && len(p) >= 3:
		return uint64(binary.LittleEndian.Uint16(p[1:])), 3
	case b == 0xfd && len(p) >= 4:
		return uint64(p[1]) | uint64(p[2])<<8 | uint64(p[3])<<16, 4
	case b == 0xfe && len(p) >= 9:
		return binary.LittleEndian.Uint64(p[1:]), 9
	}
	return 0, 0
}

func appendLenenc(dst []byte, n uint64) []byte {
	switch {
	case n < 0xfb:
		return append(dst, byte(n))
	case n < 1<<16:
		return append(dst, 0xfc, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0xfe), n)
}

// cut splits p at the first zero byte; ok is false if there is none.
func cut(p []byte) (text, rest []byte, ok bool) {
	for i, b := range p {
		if b == 0 {
			return p[:i], p[i+1:], true
		}
	}
	return p, nil, false
}
