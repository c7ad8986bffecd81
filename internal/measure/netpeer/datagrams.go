package netpeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// A datagram is a number, the time at which it left by its sender's clock, and filling. The number is the request that
// it belongs to, in 16 bits, and its place in it; the last place of all is the mark after the last datagram.
const (
	placeBits = 48
	lastPlace = 1<<placeBits - 1
)

// silence bounds the wait of a receiver for a datagram.
const silence = 10 * time.Second

// maxGap bounds the time between two datagrams.
const maxGap = time.Second

// introSize is the length of what the peer says when it has admitted a connection for datagrams: its port for them, and
// a cookie that the first datagrams of the client must be.
const introSize = 2 + cookieSize

const cookieSize = 16

// orderSize is the length of a request for datagrams after its amount: the direction and the time between two.
const orderSize = 1 + 8

// arrivalsSize is the length of a receiver's account.
const arrivalsSize = 32

func putArrivals(b []byte, a *sock.Arrivals) {
	for i, v := range []uint64{uint64(a.Received), uint64(a.Next), uint64(a.Late), math.Float64bits(a.Jitter)} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
}

var errAccount = errors.New("this is not an account of datagrams")

func parseArrivals(b []byte) (a sock.Arrivals, err error) {
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	a = sock.Arrivals{Received: int64(field(0)), Next: int64(field(1)), Late: int64(field(2)),
		Jitter: math.Float64frombits(field(3))}
	if a.Received < 0 || a.Late < 0 || a.Late > a.Received || a.Next < 0 || a.Next > lastPlace ||
		!(a.Jitter >= 0 && a.Jitter < math.MaxInt64) {
		return sock.Arrivals{}, errAccount
	}
	return a, nil
}

// flow is an exchange of datagrams with a TCP connection beside it.
type flow struct {
	tcp, udp sock.FD
	packet   []byte
	round    uint64
}

// send sends so many datagrams and returns the receiver's account of them.
func (f *flow) send(amount int64, gap time.Duration) (sock.Arrivals, error) {
	defer thread.Quiet()()
	f.round++
	pace := sock.Pace{Gap: gap}
	pace.Start()
	for i := range amount {
		f.number(uint64(i), pace.Wait(i))
		if err := sock.Put(f.udp, f.packet); err != nil {
			return sock.Arrivals{}, err
		}
	}
	// The mark may be lost as well: it is repeated until the account comes.
	f.number(lastPlace, 0)
	account := make([]byte, arrivalsSize)
	pause, end := time.Millisecond, time.Now().Add(silence)
	for got := 0; got < len(account); {
		if time.Now().After(end) {
			return sock.Arrivals{}, sock.ErrStalled
		}
		if err := sock.Put(f.udp, f.packet); err != nil {
			return sock.Arrivals{}, err
		}
		if err := sock.Limit(f.tcp, pause); err != nil {
			return sock.Arrivals{}, err
		}
		n, err := sock.Read(f.tcp, account[got:])
		if err != nil && !errors.Is(err, sock.ErrStalled) {
			return sock.Arrivals{}, err
		}
		got, pause = got+n, min(2*pause, 200*time.Millisecond)
	}
	if err := sock.Limit(f.tcp, stallTime); err != nil {
		return sock.Arrivals{}, err
	}
	return parseArrivals(account)
}

func (f *flow) number(place uint64, left time.Duration) {
	binary.LittleEndian.PutUint64(f.packet, f.round<<placeBits|place)
	binary.LittleEndian.PutUint64(f.packet[8:], uint64(left))
}

// receive receives datagrams, with a time between two, up to the mark after the last one.
func (f *flow) receive(amount int64, gap time.Duration) (a sock.Arrivals, err error) {
	defer thread.Quiet()()
	f.round++
	began := time.Now()
	for {
		n, waited, err := sock.Get(f.udp, f.packet)
		if err != nil {
			return a, err
		}
		number := binary.LittleEndian.Uint64(f.packet)
		place := number & lastPlace
		switch {
		case n < MinDatagram || uint16(number>>placeBits) != uint16(f.round): // of an earlier request, or a cookie
		case place == lastPlace:
			account := make([]byte, arrivalsSize)
			putArrivals(account, &a)
			return a, sock.WriteFull(f.tcp, account)
		case place < uint64(amount):
			a.Add(int64(place), time.Duration(binary.LittleEndian.Uint64(f.packet[8:])), time.Since(began))
		}
		if waited && gap == 0 {
			sock.Rest()
		}
	}
}

// Flow is an exchange of datagrams with a peer. It is used by one thread at a time, which waits in the kernel.
type Flow struct {
	conn *Conn
	flow
}

// Flow makes the exchange that the dialer's operation Datagrams is for.
func (d *Dialer) Flow() (_ *Flow, err error) {
	c, err := d.Dial()
	if err != nil {
		return nil, err
	}
	f := &Flow{conn: c, flow: flow{tcp: c.fd, udp: sock.None, packet: make([]byte, d.size)}}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	intro := make([]byte, introSize)
	if err := c.Read(intro); err != nil {
		return nil, err
	}
	at := d.to.WithPort(binary.LittleEndian.Uint16(intro))
	if f.udp, err = at.UDP(); err != nil {
		return nil, fmt.Errorf("make a socket for datagrams: %w", err)
	}
	for end := time.Now().Add(silence); ; {
		if err := errors.Join(sock.Put(f.udp, intro[2:]), sock.Limit(f.tcp, 100*time.Millisecond)); err != nil {
			return nil, broken("send a datagram to the peer", err)
		}
		var met [1]byte
		_, err := sock.Read(f.tcp, met[:])
		switch {
		case err == nil:
			Fill(f.packet, 1)
			return f, errors.Join(sock.Limit(f.tcp, stallTime), sock.Limit(f.udp, silence))
		case !errors.Is(err, sock.ErrStalled):
			return nil, broken("wait for the peer to see a datagram", err)
		case time.Now().After(end):
			return nil, fmt.Errorf("no datagram reached the peer in %v: TCP gets through, UDP does not", silence)
		}
	}
}

// Up sends so many datagrams, with a time between two, and returns what the peer received.
func (f *Flow) Up(amount int64, gap time.Duration) (sock.Arrivals, error) {
	if err := f.order(amount, 0, gap); err != nil {
		return sock.Arrivals{}, err
	}
	a, err := f.send(amount, gap)
	if err != nil {
		err = silent("send datagrams to the peer", err)
	}
	return a, err
}

// Down has the peer send so many datagrams, and returns what was received.
func (f *Flow) Down(amount int64, gap time.Duration) (sock.Arrivals, error) {
	if err := f.order(amount, 1, gap); err != nil {
		return sock.Arrivals{}, err
	}
	a, err := f.receive(amount, gap)
	if err != nil {
		err = silent("receive datagrams from the peer", err)
	}
	return a, err
}

// silent is broken for datagrams, whose patience is another.
func silent(what string, err error) error {
	if errors.Is(err, sock.ErrStalled) {
		return fmt.Errorf("%s: %w (%v): the link is down, or UDP is not let through", what, sock.ErrStalled, silence)
	}
	return broken(what, err)
}

func (f *Flow) order(amount int64, direction byte, gap time.Duration) error {
	if err := f.conn.Ask(amount); err != nil {
		return err
	}
	return f.conn.Write(binary.LittleEndian.AppendUint64([]byte{direction}, uint64(gap)))
}

// Close ends the exchange.
func (f *Flow) Close() error {
	err := f.conn.Close()
	if f.udp != sock.None {
		err = errors.Join(err, sock.Close(f.udp))
		f.udp = sock.None
	}
	return err
}
