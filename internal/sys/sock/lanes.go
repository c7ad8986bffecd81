package sock

import (
	"io"
	"sync/atomic"
	"time"
)

// Lane is one connection of Lanes.
type Lane struct {
	FD    FD
	Sends bool
	Block []byte // sent, or received into
	Moved int64  // bytes, by all calls of Move and MoveAny
}

// Lanes are connections that one thread serves, each when it is ready, as iperf3 before 3.16 serves all of a test.
type Lanes struct {
	lanes []*Lane
	polls []poll
}

// NewLanes makes lanes of connections, which stay the caller's.
func NewLanes(lanes []Lane) *Lanes {
	l := &Lanes{make([]*Lane, len(lanes)), make([]poll, len(lanes))}
	for i := range lanes {
		l.lanes[i] = &lanes[i]
	}
	return l
}

// rounds is how often the lanes that are ready are served before they are asked again. iperf3 writes as many blocks to
// each.
const rounds = 10

// Move sends and receives so many bytes, by whichever lanes are ready. No progress at all for so long, or up to a
// second more, is ErrStalled; the end of a connection that receives is io.EOF. See thread.Room.
func (l *Lanes) Move(send, receive int64, stall time.Duration) error {
	return l.with(&send, &receive, nil, stall)
}

// MoveAny moves so many bytes, whatever their direction, or fewer if it is stopped.
func (l *Lanes) MoveAny(amount int64, stop *atomic.Bool, stall time.Duration) error {
	return l.with(&amount, &amount, stop, stall)
}

// with has the connections not wait meanwhile. One that receives may have answered a greeting or an order before: Linux
// would then take it for a conversation, in which each answer confirms what was asked, and delay its confirmations.
// Four streams over the loopback that had just begun lost 8 % of their throughput by that.
func (l *Lanes) with(send, receive *int64, stop *atomic.Bool, stall time.Duration) (err error) {
	for i, lane := range l.lanes {
		if err = nonblocking(lane.FD, true); err != nil {
			l.block(i)
			return err
		}
		if !lane.Sends {
			confirmSoon(lane.FD)
		}
	}
	err = l.move(send, receive, stop, stall)
	l.block(len(l.lanes))
	return err
}

func (l *Lanes) block(n int) {
	for _, lane := range l.lanes[:n] {
		nonblocking(lane.FD, false) // fails only where the connection is of no more use
	}
}

func (l *Lanes) move(send, receive *int64, stop *atomic.Bool, stall time.Duration) error {
	var end time.Time // of the patience; the clock is only looked at when nothing was ready
	empty := false    // all that had come is read
	for {
		open := 0
		for i, lane := range l.lanes {
			if left := lane.of(send, receive); *left > 0 {
				l.lanes[open], l.lanes[i] = lane, l.lanes[open]
				l.polls[open] = pollFor(lane.FD, lane.Sends)
				open++
			}
		}
		if open == 0 || stop != nil && stop.Load() {
			return nil
		}
		n, err := l.wait(open, empty, min(time.Second, stall))
		switch {
		case err != nil && !again(err):
			return err
		case n > 0:
			end = time.Time{}
		case end.IsZero():
			end = time.Now().Add(stall)
		case time.Now().After(end):
			return ErrStalled
		}
		empty = n > 0
		for round := 0; n > 0 && round < rounds; round++ {
			for i, lane := range l.lanes[:open] {
				if !l.polls[i].ready() {
					continue
				}
				whole, err := lane.step(lane.of(send, receive))
				if err != nil {
					return err
				}
				empty = empty && !whole && !lane.Sends
				if !whole || !lane.Sends { // more may have come for others
					l.polls[i].done()
					n--
				}
			}
		}
	}
}

// asks is how often a receiver that has read all that came asks again before it sleeps: more may come meanwhile, and to
// wake it costs the sender an interrupt, which is dear in a virtual machine.
const asks = 3

// wait waits until one of the lanes that are open is ready, at most so long, and returns how many are. empty: all that
// had come is read.
func (l *Lanes) wait(open int, empty bool, most time.Duration) (n int, err error) {
	for i := 0; empty && i < asks && n == 0 && err == nil; i++ {
		n, err = ready(l.polls[:open], 0)
	}
	if n > 0 || err != nil {
		return n, err
	}
	return ready(l.polls[:open], most)
}

// of is the one that the lane counts down.
func (l *Lane) of(send, receive *int64) *int64 {
	if l.Sends {
		return send
	}
	return receive
}

// step moves at most a block, and tells whether it was a whole one.
func (l *Lane) step(left *int64) (whole bool, err error) {
	b := l.Block[:min(*left, int64(len(l.Block)))]
	if len(b) == 0 {
		return false, nil
	}
	var n int
	if l.Sends {
		n, err = bareWrite(l.FD, b)
	} else {
		n, err = take(l.FD, b)
	}
	switch {
	case again(err), blocked(err):
		return again(err), nil
	case err != nil:
		return false, err
	}
	*left -= int64(n)
	l.Moved += int64(n)
	return n == len(b), nil
}

// take fills b with the bytes that have come, as iperf3 does, and returns when nothing more is there.
func take(fd FD, b []byte) (n int, err error) {
	for n < len(b) {
		got, err := bareGet(fd, b[n:])
		if err == nil && got == 0 {
			err = io.EOF
		}
		switch {
		case err == nil:
			n += got
		case again(err):
		case n > 0 && (err == io.EOF || blocked(err)):
			return n, nil // the next call meets it again
		default:
			return 0, err
		}
	}
	return n, nil
}

// Receive reads exactly so many bytes, at most a block at a time. See Lanes.Move.
func Receive(fd FD, block []byte, amount int64, stall time.Duration) error {
	return NewLanes([]Lane{{FD: fd, Block: block}}).Move(0, amount, stall)
}
