package serve

import (
	"errors"
	"net"
	"time"

	"tare/internal/sys/iperf3"
	"tare/internal/sys/sock"
)

// move starts the streams.
func (t *test) move() {
	receives := false
	for _, l := range t.lanes {
		switch {
		case t.params.UDP && l.sends:
			t.moving.Go(func() { l.err = t.sendDatagrams(l) })
		case t.params.UDP:
			receives = true
		case l.sends:
			t.moving.Go(func() { l.err = t.send(l) })
		default:
			t.moving.Go(func() { l.err = t.receive(l) })
		}
	}
	if receives {
		t.moving.Go(t.receiveDatagrams)
	}
	if omit := t.params.Omit; omit > 0 {
		time.AfterFunc(time.Duration(omit*float64(time.Second)), func() {
			for _, l := range t.lanes {
				l.mu.Lock()
				l.omitted = l.bytes.Load()
				l.mu.Unlock()
			}
		})
	}
}

// soon is the time at which a stream of a test that is over counts as empty.
func (t *test) soon() time.Time {
	soon, last := time.Now().Add(quiet), time.Unix(0, t.last.Load())
	if soon.After(last) {
		return last
	}
	return soon
}

// pace is how the sender of a stream keeps to the rate that the client asked for.
func (t *test) pace() *sock.Pace {
	p := &sock.Pace{}
	if t.params.Rate > 0 {
		p.Gap = time.Duration(t.params.Block * 8 / t.params.Rate * float64(time.Second))
	}
	p.Start()
	return p
}

func (t *test) send(l *lane) error {
	block, pace := make([]byte, int(t.params.Block)), t.pace()
	for i := int64(0); !t.over.Load(); i++ {
		if pace.Gap > 0 {
			pace.Wait(i)
		}
		l.tcp.SetWriteDeadline(time.Now().Add(stallTime))
		if t.over.Load() {
			return nil
		}
		n, err := l.tcp.Write(block)
		l.bytes.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *test) receive(l *lane) error {
	block := make([]byte, max(int(t.params.Block), 64<<10))
	for {
		if !t.over.Load() {
			l.tcp.SetReadDeadline(time.Now().Add(stallTime))
		}
		if t.over.Load() { // what is left of it
			l.tcp.SetReadDeadline(t.soon())
		}
		n, err := l.tcp.Read(block)
		l.bytes.Add(int64(n))
		if err != nil {
			return err
		}
	}
}

func (t *test) sendDatagrams(l *lane) error {
	b, pace := make([]byte, int(t.params.Block)), t.pace()
	wide := t.params.Counters64 > 0
	for i := int64(0); !t.over.Load(); i++ {
		left := pace.Wait(i)
		iperf3.PutHeader(b, wide, i+1, left)
		// A full buffer or an answer that nobody listens is a loss, not an end.
		n, err := t.udp.WriteToUDPAddrPort(b, l.to)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		l.sent.Store(i + 1)
		l.bytes.Add(int64(n))
	}
	return nil
}

// receiveDatagrams receives those of all streams: the sockets of several streams would need the same port.
func (t *test) receiveDatagrams() {
	b := make([]byte, 65536)
	wide := t.params.Counters64 > 0
	var last *lane
	for {
		until := time.Now().Add(quiet)
		if t.over.Load() {
			until = t.soon()
		}
		t.udp.SetReadDeadline(until)
		n, from, err := t.udp.ReadFromUDPAddrPort(b)
		switch {
		case isTimeout(err):
			if t.over.Load() {
				return
			}
			continue
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue
		}
		if last == nil || last.to != from {
			last = t.lane(from)
		}
		if l := last; l != nil && !l.sends {
			if number, left, ok := iperf3.ParseHeader(b[:n], wide); ok {
				l.mu.Lock()
				l.got.Add(number-1, left, time.Since(t.began))
				l.mu.Unlock()
				l.bytes.Add(int64(n))
			}
		}
	}
}

// moved is how many bytes all streams have moved so far.
func (t *test) moved() (n int64) {
	for _, l := range t.lanes {
		n += l.bytes.Load()
	}
	return n
}
