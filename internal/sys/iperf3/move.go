package iperf3

import (
	"errors"
	"time"

	"tare/internal/sys/sock"
)

// Lane is one stream.
type Lane struct {
	Down   bool
	Amount int64         // of an endless test: what was moved
	Got    sock.Arrivals // over UDP, downwards
	fd     sock.FD
	block  []byte
}

// Move does the work of a lane. It returns when the data of this lane has arrived; over UDP when it has left. It hides
// its waits from Go's scheduler: the caller has made room for all lanes (thread.Room) and turned the garbage collector
// off, which would wait for lanes that wait for each other.
func (c *Client) Move(i int) error {
	if err := c.start(); err != nil {
		return err
	}
	l := &c.Lanes[i]
	var err error
	switch {
	case c.test.Endless:
		err = c.untilStopped(l)
	case l.Amount == 0:
	case c.test.UDP && l.Down:
		err = c.receiveDatagrams(l)
	case c.test.UDP:
		err = c.sendDatagrams(l)
	case l.Down:
		err = sock.Receive(l.fd, l.block, l.Amount)
	default:
		if err = sock.Send(l.fd, l.block, l.Amount); err == nil {
			err = c.arrived(l.fd)
		}
	}
	if err == nil && l.Down {
		// The server sends until it hears of the end, which it may not if nobody reads.
		c.drains.Add(1)
		go c.drain(l)
	}
	return err
}

// Stop ends the work of the lanes of an endless test.
func (c *Client) Stop() { c.stopped.Store(true) }

// untilStopped moves blocks until Stop.
func (c *Client) untilStopped(l *Lane) (err error) {
	for err == nil && !c.stopped.Load() {
		if l.Down {
			err = sock.Receive(l.fd, l.block, int64(len(l.block)))
		} else {
			err = sock.Send(l.fd, l.block, int64(len(l.block)))
		}
		if err == nil {
			l.Amount += int64(len(l.block))
		}
	}
	if err == nil && !l.Down {
		err = c.arrived(l.fd)
	}
	return err
}

// arrived waits until the other end's kernel has every byte.
func (c *Client) arrived(fd sock.FD) error {
	for end := time.Now().Add(c.test.Stall); !sock.Drained(fd); {
		if time.Now().After(end) {
			return sock.ErrStalled
		}
		time.Sleep(20 * time.Microsecond)
	}
	return nil
}

func (c *Client) drain(l *Lane) {
	defer c.drains.Done()
	for {
		if _, err := sock.Read(l.fd, l.block); err != nil {
			return
		}
	}
}

func (c *Client) sendDatagrams(l *Lane) error {
	p := sock.Pace{Gap: c.test.Gap}
	p.Start()
	offset := time.Since(c.began)
	for i := range l.Amount {
		PutHeader(l.block, true, i+1, offset+p.Wait(i))
		if err := sock.Put(l.fd, l.block); err != nil {
			return err
		}
	}
	return nil
}

// receiveDatagrams receives until the last of so many datagrams, or a later one, has come.
func (c *Client) receiveDatagrams(l *Lane) error {
	var end time.Time // of the patience with a server that sends nothing
	seen := int64(-1) // datagrams when it began
	for l.Got.Next < l.Amount {
		n, err := sock.Get(l.fd, l.block)
		if errors.Is(err, sock.ErrStalled) {
			if seen != l.Got.Received {
				seen, end = l.Got.Received, time.Now().Add(c.test.Stall-min(glance, c.test.Stall))
			}
			if time.Now().Before(end) {
				if err = c.alive(); err == nil {
					continue
				}
			}
		}
		if err != nil {
			return err
		}
		if number, left, ok := ParseHeader(l.block[:n], true); ok {
			l.Got.Add(number-1, left, time.Since(c.began))
		}
	}
	return nil
}

// alive looks whether the server has ended, or has something to say, while datagrams do not come.
func (c *Client) alive() error {
	c.asks.Lock()
	defer c.asks.Unlock()
	if err := sock.Limit(c.control, time.Millisecond); err != nil {
		return err
	}
	var b [1]byte
	err := sock.ReadFull(c.control, b[:])
	switch {
	case errors.Is(err, sock.ErrStalled):
		return sock.Limit(c.control, c.test.Stall)
	case err != nil:
		return err
	}
	return c.said(b[0])
}
