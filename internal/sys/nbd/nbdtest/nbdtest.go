// Package nbdtest is the other end of a network block device, for tests and the bench. It implements the protocol
// independently (doc/proto.md of the NetworkBlockDevice project), so that it does not share the server's bugs.
package nbdtest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
)

const (
	magicServer  = 0x4e42444d41474943 // "NBDMAGIC"
	magicOption  = 0x49484156454f5054 // "IHAVEOPT"
	magicRequest = 0x25609513
	magicReply   = 0x67446698

	flagsWanted   = 1<<0 | 1<<1 // fixed newstyle, no zeroes behind the export
	optExportName = 1

	cmdRead        = 0
	cmdWrite       = 1
	cmdDisconnect  = 2
	cmdFlush       = 3
	cmdWriteZeroes = 6

	flagFUA = 1 << 0

	replySize = 16
)

// Request is the header of a command. It may be invalid.
type Request struct {
	Flags   uint16
	Command uint16
	Offset  uint64
	Length  uint32
}

// Append appends the request as it is sent, under a handle that its answer will have.
func (q Request) Append(b []byte, handle uint64) []byte {
	b = binary.BigEndian.AppendUint32(b, magicRequest)
	b = binary.BigEndian.AppendUint16(b, q.Flags)
	b = binary.BigEndian.AppendUint16(b, q.Command)
	b = binary.BigEndian.AppendUint64(b, handle)
	b = binary.BigEndian.AppendUint64(b, q.Offset)
	return binary.BigEndian.AppendUint32(b, q.Length)
}

// Client uses a device that is served on a unix socket. It is safe for concurrent use; concurrent requests are in
// flight together.
type Client struct {
	Size int64
	conn net.Conn

	write sync.Mutex
	mu    sync.Mutex
	next  uint64
	waits map[uint64]*pendingReply
	dead  error
}

type pendingReply struct {
	into []byte
	done chan error
}

// Error is an error number that a server answered with.
type Error uint32

func (e Error) Error() string {
	return fmt.Sprintf("the server answered with error %d (%v)", uint32(e), syscall.Errno(e))
}

// Dial connects to the export without a name.
func Dial(ctx context.Context, socket string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	c := &Client{conn: conn, waits: map[uint64]*pendingReply{}}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = c.handshake()
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("handshake with %s: %w", socket, err)
	}
	go c.read()
	return c, nil
}

func (c *Client) handshake() error {
	var hello [18]byte
	if _, err := io.ReadFull(c.conn, hello[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint64(hello[0:]) != magicServer || binary.BigEndian.Uint64(hello[8:]) != magicOption {
		return errors.New("it does not speak newstyle NBD")
	}
	b := binary.BigEndian.AppendUint32(nil, flagsWanted)
	b = binary.BigEndian.AppendUint64(b, magicOption)
	b = binary.BigEndian.AppendUint32(b, optExportName)
	b = binary.BigEndian.AppendUint32(b, 0)
	if _, err := c.conn.Write(b); err != nil {
		return err
	}
	var export [10]byte
	if _, err := io.ReadFull(c.conn, export[:]); err != nil {
		return err
	}
	c.Size = int64(binary.BigEndian.Uint64(export[:]))
	return nil
}

func (c *Client) read() {
	in := bufio.NewReaderSize(c.conn, 128<<10)
	var b [replySize]byte
	for {
		_, err := io.ReadFull(in, b[:])
		if err == nil && binary.BigEndian.Uint32(b[:]) != magicReply {
			err = errors.New("read reply: it has the wrong magic")
		}
		if err != nil {
			c.fail(err)
			return
		}
		handle := binary.BigEndian.Uint64(b[8:])
		c.mu.Lock()
		w := c.waits[handle]
		delete(c.waits, handle)
		c.mu.Unlock()
		if w == nil {
			c.fail(fmt.Errorf("read reply: it answers request %d, which was not made", handle))
			return
		}
		if e := binary.BigEndian.Uint32(b[4:]); e != 0 {
			w.done <- Error(e)
			continue
		}
		if _, err := io.ReadFull(in, w.into); err != nil {
			w.done <- err
			c.fail(err)
			return
		}
		w.done <- nil
	}
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = err
	for h, w := range c.waits {
		w.done <- err
		delete(c.waits, h)
	}
}

// Do sends a request and waits for its answer. data follows the request; into takes what is read.
func (c *Client) Do(q Request, data, into []byte) error {
	w := &pendingReply{into: into, done: make(chan error, 1)}
	c.mu.Lock()
	if c.dead != nil {
		defer c.mu.Unlock()
		return c.dead
	}
	c.next++
	handle := c.next
	c.waits[handle] = w
	c.mu.Unlock()
	c.write.Lock()
	parts := net.Buffers{q.Append(nil, handle), data}
	_, err := parts.WriteTo(c.conn)
	c.write.Unlock()
	if err != nil {
		c.fail(err)
	}
	return <-w.done
}

// ReadAt fills p from off.
func (c *Client) ReadAt(p []byte, off int64) (int, error) {
	err := c.Do(Request{Command: cmdRead, Offset: uint64(off), Length: uint32(len(p))}, nil, p)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAt writes p at off; the data may stay in a volatile cache.
func (c *Client) WriteAt(p []byte, off int64) (int, error) { return c.put(p, off, 0) }

// WriteFUA writes p at off past any cache.
func (c *Client) WriteFUA(p []byte, off int64) (int, error) { return c.put(p, off, flagFUA) }

func (c *Client) put(p []byte, off int64, flags uint16) (int, error) {
	err := c.Do(Request{Command: cmdWrite, Flags: flags, Offset: uint64(off), Length: uint32(len(p))}, p, nil)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Zero writes n zeroes at off.
func (c *Client) Zero(off int64, n uint32) error {
	return c.Do(Request{Command: cmdWriteZeroes, Offset: uint64(off), Length: n}, nil, nil)
}

// Flush makes all writes acknowledged before it durable.
func (c *Client) Flush() error { return c.Do(Request{Command: cmdFlush}, nil, nil) }

// Close disconnects.
func (c *Client) Close() error {
	c.write.Lock()
	c.conn.Write(Request{Command: cmdDisconnect}.Append(nil, 0)) // a courtesy: the connection ends either way
	c.write.Unlock()
	return c.conn.Close()
}
