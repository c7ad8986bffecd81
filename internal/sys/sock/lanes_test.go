package sock_test

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// joined are the two ends of so many connections.
func joined(t *testing.T, n int) (here, there []sock.FD) {
	t.Helper()
	listener, port, err := sock.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close(listener)
	parsed, err := sock.ParseAddress(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port)).String())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		fd, err := parsed.TCP()
		if err == nil {
			err = sock.Connect(fd, &parsed, 10*time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		other, err := sock.Accept(listener)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			sock.Close(fd)
			sock.Close(other)
		})
		here, there = append(here, fd), append(there, other)
	}
	return here, there
}

// Both ends move what was asked for in each direction, each lane the same at both, and wait again afterwards.
func TestLanes(t *testing.T) {
	defer thread.Room(2)()
	const n = 4
	here, there := joined(t, n)
	for size, amounts := range map[int][2]int64{
		1000: {1_000_003, 5}, 256 << 10: {7, 70_000_001}, 64 << 10: {9 << 20, 0},
	} {
		ends := [2][]sock.Lane{}
		for i := range n {
			for end, fd := range []sock.FD{here[i], there[i]} {
				sends := (end == 0) == (i%2 == 0)
				block := make([]byte, size)
				if sends {
					block = bytes.Repeat([]byte{byte(i + 1)}, size)
				}
				ends[end] = append(ends[end], sock.Lane{FD: fd, Sends: sends, Block: block})
			}
		}
		ended := make(chan error, 2)
		for end, lanes := range ends {
			go func() {
				defer thread.Quiet()()
				ended <- sock.NewLanes(lanes).Move(amounts[end], amounts[1-end], time.Minute)
			}()
		}
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			a, b := &ends[0][i], &ends[1][i]
			amounts[i%2] -= a.Moved
			if a.Moved != b.Moved {
				t.Errorf("lane %d: one end moved %d bytes, the other one %d", i, a.Moved, b.Moved)
			}
			for _, l := range []*sock.Lane{a, b} {
				if l.Moved > 0 && l.Block[0] != byte(i+1) {
					t.Errorf("lane %d: another lane's bytes came: %d", i, l.Block[0])
				}
			}
			if err := sock.Limit(here[i], 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err := sock.Read(here[i], make([]byte, 1))
			if took := time.Since(began); err != sock.ErrStalled || took < 40*time.Millisecond {
				t.Errorf("lane %d: %v after %v: more than its bytes came, or it does not wait", i, err, took)
			}
		}
		if amounts != [2]int64{} {
			t.Errorf("blocks of %d: %d bytes were not moved", size, amounts)
		}
	}
}

// What any lane moves counts for all of them, until there is enough or it is stopped.
func TestAnyLanes(t *testing.T) {
	defer thread.Room(2)()
	here, there := joined(t, 3)
	lanes := [2][]sock.Lane{}
	for i := range here {
		lanes[0] = append(lanes[0], sock.Lane{FD: here[i], Sends: true, Block: make([]byte, 64<<10)})
		lanes[1] = append(lanes[1], sock.Lane{FD: there[i], Block: make([]byte, 64<<10)})
	}
	sum := func(lanes []sock.Lane) (n int64) {
		for _, l := range lanes {
			n += l.Moved
		}
		return n
	}
	const amount = 20<<20 + 7
	ended := make(chan error, 2)
	var stop, never atomic.Bool
	for _, end := range lanes {
		go func() { ended <- sock.NewLanes(end).MoveAny(amount, &never, time.Minute) }()
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	if a, b := sum(lanes[0]), sum(lanes[1]); a != amount || b != amount {
		t.Errorf("%d bytes were sent and %d received, of %d", a, b, amount)
	}
	// Nothing comes any more: it ends when it is stopped.
	go func() { ended <- sock.NewLanes(lanes[1]).MoveAny(1<<60, &stop, time.Minute) }()
	stop.Store(true)
	if err := <-ended; err != nil || sum(lanes[1]) != amount {
		t.Errorf("stopped: %v, %d bytes", err, sum(lanes[1]))
	}
	// The end of a connection, and one that breaks.
	sock.Shut(here[0])
	if err := sock.NewLanes(lanes[1]).MoveAny(1<<60, &never, time.Minute); err != io.EOF && !sock.Broken(err) {
		t.Errorf("a connection that has ended: %v", err)
	}
}
