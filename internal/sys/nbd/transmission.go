package nbd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// maxFlight bounds the requests that are served at once.
const maxFlight = 32

// small is the largest write, in bytes, that is done before the next request is read: copying it into the host's page
// cache costs less than starting a goroutine.
const small = 64 << 10

// transmission is a connection after its handshake.
type transmission struct {
	conn   net.Conn
	in     *bufio.Reader
	medium medium
	size   int64
	flight chan struct{}
	wait   sync.WaitGroup
	small  []byte // for small writes

	mu sync.Mutex // guards writes to conn
}

func newTransmission(c net.Conn, m medium, size int64) *transmission {
	return &transmission{
		conn: c, in: bufio.NewReaderSize(c, 128<<10), medium: m, size: size,
		flight: make(chan struct{}, maxFlight), small: make([]byte, small),
	}
}

// serve reads commands until the client disconnects or the connection breaks.
func (t *transmission) serve() error {
	defer t.wait.Wait()
	var header [requestSize]byte
	for {
		q, err := readRequest(t.in, &header)
		switch {
		case errors.Is(err, io.EOF):
			return nil // a killed client ends like this
		case err != nil:
			return err
		}
		if q.cmd == cmdDisconnect {
			return nil
		}
		bad := q.check(t.size)
		if q.cmd == cmdWrite {
			err = t.write(q, bad)
		} else if bad != 0 {
			err = t.reply(q.handle, bad)
		} else {
			t.beside(func() error { return t.do(q) })
		}
		if err != nil {
			return err
		}
	}
}

// beside serves a request while the next one is read.
func (t *transmission) beside(do func() error) {
	t.flight <- struct{}{}
	t.wait.Go(func() {
		if do() != nil {
			t.conn.Close() // the reader will see the error
		}
		<-t.flight
	})
}

// write reads the data of a write, which follows its header even if the write is refused.
func (t *transmission) write(q request, bad uint32) error {
	if bad != 0 {
		if q.length > MaxTransfer {
			return fmt.Errorf("the client writes %d bytes at once, above the limit of %d", q.length, MaxTransfer)
		}
		if _, err := t.in.Discard(int(q.length)); err != nil {
			return err
		}
		return t.reply(q.handle, bad)
	}
	fua := q.flags&cmdFlagFUA != 0
	if q.length <= small && !fua {
		p := t.small[:q.length]
		if _, err := io.ReadFull(t.in, p); err != nil {
			return err
		}
		return t.reply(q.handle, errno(t.medium.write(p, int64(q.offset), false)))
	}
	p := make([]byte, q.length)
	if _, err := io.ReadFull(t.in, p); err != nil {
		return err
	}
	t.beside(func() error { return t.reply(q.handle, errno(t.medium.write(p, int64(q.offset), fua))) })
	return nil
}

// do serves a request without data.
func (t *transmission) do(q request) error {
	off, n := int64(q.offset), int64(q.length)
	fua := q.flags&cmdFlagFUA != 0
	switch q.cmd {
	case cmdRead:
		b := make([]byte, replySize+q.length)
		if err := t.medium.read(b[replySize:], off); err != nil {
			return t.reply(q.handle, errno(err))
		}
		marshalReply(b, 0, q.handle)
		return t.send(b)
	case cmdFlush:
		return t.reply(q.handle, errno(t.medium.flush()))
	case cmdTrim:
		err := t.medium.trim(off, n)
		if err == nil && fua {
			err = t.medium.flush()
		}
		return t.reply(q.handle, errno(err))
	}
	return t.reply(q.handle, errno(t.medium.zero(off, n, fua, q.flags&cmdFlagNoHole == 0)))
}

func (t *transmission) reply(handle uint64, errno uint32) error {
	var b [replySize]byte
	marshalReply(b[:], errno, handle)
	return t.send(b[:])
}

func (t *transmission) send(b []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.conn.Write(b)
	return err
}
