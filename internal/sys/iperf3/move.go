package iperf3

import (
	"errors"
	"math"
	"time"

	"tare/internal/sys/sock"
)

// Lane is one stream.
type Lane struct {
	Down   bool
	Amount int64         // of an endless test: the amount that was moved
	Got    sock.Arrivals // over UDP, downwards
	fd     sock.FD
	block  []byte
}

// laneSet are the lanes that one thread serves: every n-th of n threads from its first one on.
type laneSet struct {
	socks  []sock.Lane
	served *sock.Lanes
	amount int64 // of all of them together
}

// share has the threads serve the lanes.
func (c *Client) share() {
	n := len(c.Lanes)
	if t := c.test.Threads; t > 0 && t < n {
		n = t
	}
	c.sets = make([]laneSet, n)
	for i := range c.Lanes {
		l, s := &c.Lanes[i], &c.sets[i%n]
		s.socks = append(s.socks, sock.Lane{FD: l.fd, Sends: !l.Down, Block: l.block})
		if s.amount += l.Amount; c.test.Endless {
			s.amount = math.MaxInt64
		}
	}
	for i := range c.sets {
		c.sets[i].served = sock.NewLanes(c.sets[i].socks)
	}
}

// Move does the work of a thread. It returns when the data of its lanes has arrived; over UDP when it has left. It
// hides its waits from Go's scheduler: the caller has made room for all threads (thread.Room) and turned the garbage
// collector off, which would wait for lanes that wait for each other.
func (c *Client) Move(i int) error {
	if err := c.start(); err != nil {
		return err
	}
	if c.sets != nil {
		return c.moveSet(i)
	}
	l := &c.Lanes[i]
	var err error
	switch {
	case l.Amount == 0:
	case l.Down:
		err = c.receiveDatagrams(l)
	default:
		err = c.sendDatagrams(l)
	}
	if err == nil {
		c.emptied(l)
	}
	return err
}

// emptied has a lane that is done read on: the server sends until it hears of the end, which it may not if nobody
// reads.
func (c *Client) emptied(l *Lane) {
	if l.Down {
		c.drains.Add(1)
		go c.drain(l)
	}
}

// moveSet moves the amount of the i-th thread, on whichever of its lanes is ready, as iperf3 does.
func (c *Client) moveSet(i int) error {
	s := &c.sets[i]
	err := s.served.MoveAny(s.amount, &c.stopped, c.test.Stall)
	for k := range s.socks {
		l := &c.Lanes[i+k*len(c.sets)]
		l.Amount = s.socks[k].Moved
		if err == nil && !l.Down {
			err = c.arrived(l.fd)
		}
	}
	for k := range s.socks {
		if err == nil {
			c.emptied(&c.Lanes[i+k*len(c.sets)])
		}
	}
	return err
}

// Stop ends the work of the lanes of an endless test.
func (c *Client) Stop() { c.stopped.Store(true) }

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
		n, waited, err := sock.Get(l.fd, l.block)
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
		if waited && c.test.Gap == 0 {
			sock.Rest()
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
