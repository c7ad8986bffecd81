// Package sock has sockets that are used by bare system calls and block, each in a thread of its own.
//
// It is opinionated: Go's poller would put its own wake-ups into every round trip, and package net would make the agent
// larger. Deadlines are the kernel's (SO_RCVTIMEO, SO_SNDTIMEO) and cost the loops nothing. Addresses are numeric: in
// different places a name may mean different machines.
package sock

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// ErrStalled is a socket's deadline.
var ErrStalled = errors.New("no data was transferred for too long")

// Info has the kernel's statistics of the sending half of a TCP connection.
type Info struct {
	Resent int64         // segments sent again
	RTT    time.Duration // smoothed
	Window int64         // congestion window, in segments
}

// NoInfo says why there is no Info on other systems than Linux.
const NoInfo = "only Linux tells (TCP_INFO)"

// ParseAddress reads a numeric address with a port.
func ParseAddress(text string) (Address, error) {
	at, err := netip.ParseAddrPort(text)
	if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return Address{}, fmt.Errorf("%q is not a numeric address with a port, such as 192.0.2.7:5201 or "+
			"[2001:db8::7]:5201: names are not looked up", text)
	}
	return address(netip.AddrPortFrom(at.Addr().Unmap(), at.Port())), nil
}

// NoDelay has the kernel send small messages at once, or not any more.
func NoDelay(fd FD, on bool) error {
	if on {
		return noDelay(fd, 1)
	}
	return noDelay(fd, 0)
}

// Read reads once; 0 bytes come with io.EOF.
func Read(fd FD, b []byte) (int, error) {
	var p waitDeadline
	for {
		n, err := readOnce(fd, b)
		switch {
		case again(err):
			if p.over(fd, false) {
				return 0, ErrStalled
			}
			continue
		case stalled(err):
			return 0, ErrStalled
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// ReadFull fills b. The end of the connection before its first byte is io.EOF, later io.ErrUnexpectedEOF.
func ReadFull(fd FD, b []byte) error {
	for got := 0; got < len(b); {
		n, err := Read(fd, b[got:])
		if err == io.EOF && got > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

// ReadBy fills b before a point in time, however slowly the bytes come.
func ReadBy(fd FD, b []byte, end time.Time) error {
	for got := 0; got < len(b); {
		left := time.Until(end)
		if left <= 0 {
			return ErrStalled
		}
		if err := Limit(fd, left); err != nil {
			return err
		}
		n, err := Read(fd, b[got:])
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

// WriteFull sends all of b.
func WriteFull(fd FD, b []byte) error { return writeWith(writeOnce, fd, b) }

func writeWith(call func(fd FD, b []byte) (int, error), fd FD, b []byte) error {
	var p waitDeadline
	for len(b) > 0 {
		n, err := call(fd, b)
		switch {
		case again(err):
			if p.over(fd, true) {
				return ErrStalled
			}
			continue
		case stalled(err):
			return ErrStalled
		case err != nil:
			return err
		}
		b, p = b[n:], waitDeadline{}
	}
	return nil
}

// Send sends so many bytes, a block at a time. See thread.Room.
func Send(fd FD, block []byte, amount int64) error {
	for amount > 0 {
		n := min(amount, int64(len(block)))
		if err := writeWith(bareWrite, fd, block[:n]); err != nil {
			return err
		}
		amount -= n
	}
	return nil
}

// Put sends a datagram on a connected socket. A network that has no room for it drops it, which is no error here. See
// thread.Room.
func Put(fd FD, b []byte) error {
	var p waitDeadline
	for {
		_, err := bareWrite(fd, b)
		switch {
		case again(err):
			if p.over(fd, true) {
				return ErrStalled
			}
			continue
		case stalled(err):
			return ErrStalled
		case full(err):
			return nil
		}
		return err
	}
}

// Get receives a datagram and tells, on Linux, whether it had to wait for it. See thread.Room.
func Get(fd FD, b []byte) (n int, waited bool, err error) {
	var p waitDeadline
	for {
		var slept bool
		n, slept, err = askGet(fd, b)
		waited = waited || slept
		if again(err) && !p.over(fd, false) {
			continue
		}
		if again(err) || stalled(err) {
			return 0, waited, ErrStalled
		}
		return n, waited, err
	}
}

// rest is the pause between two reads, which makes up for how little a receiver does there. Decision 0080 has the
// measurements.
const rest = 1200 * time.Nanosecond

// Rest is for a receiver that had to wait for a datagram of a sender that sends as fast as it can: more come meanwhile,
// and the sender, who is the bottleneck, need not wake the receiver for each of them.
func Rest() {
	for began := time.Now(); time.Since(began) < rest; {
	}
}

// waitDeadline is a socket's deadline over the signals that interrupt a wait. The kernel's begins anew after each, and
// Go's runtime sends one every few milliseconds to a thread that waits without its knowledge. The clock is only looked
// at after a signal.
type waitDeadline struct{ end time.Time }

// over tells, after an interrupted call, whether the deadline has passed.
func (p *waitDeadline) over(fd FD, writes bool) bool {
	now := time.Now()
	if p.end.IsZero() {
		d := limit(fd, writes)
		if d <= 0 {
			return false
		}
		p.end = now.Add(d)
	}
	return now.After(p.end)
}
