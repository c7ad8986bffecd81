package netpeer

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// maxGroup bounds the connections that one thread serves.
const maxGroup = 128

// Together are connections that one thread serves at each end, each when it is ready.
type Together struct {
	// Conns has those that send first.
	Conns []*Conn
	// Receipts are of the last Move.
	Receipts []Receipt

	lead  *Conn
	said  []byte // an order, then receipts
	lanes []sock.Lane
	set   *sock.Lanes
}

// Together makes so many connections of the dialer's block size; the dialer is for either direction. It must be closed,
// also after an error.
func (d *Dialer) Together(up, down int) (*Together, error) {
	n := up + down
	g := &Together{Conns: make([]*Conn, n), Receipts: make([]Receipt, n), said: make([]byte, n*receiptSize),
		lanes: make([]sock.Lane, n)}
	var err error
	if g.lead, err = d.with(Hello{Token: d.token, Op: Gather, Size: n}).Dial(); err != nil {
		return g, err
	}
	cookie := make([]byte, cookieSize)
	if err := g.lead.Read(cookie); err != nil {
		return g, err
	}
	h := Hello{Token: d.token, Op: Up, Member: true, Size: d.size}
	for i := range n {
		if i == up {
			h.Op = Down
		}
		member := d.with(h)
		member.hello = append(member.hello, cookie...)
		if g.Conns[i], err = member.Dial(); err != nil {
			return g, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		block := make([]byte, d.size)
		Fill(block, uint64(i)) // written to, so that its pages are resident
		g.lanes[i] = sock.Lane{FD: g.Conns[i].fd, Sends: i < up, Block: block}
	}
	g.set = sock.NewLanes(g.lanes)
	return g, nil
}

// Move moves so many bytes in each direction, on whichever connections are ready, and returns when their receivers have
// all of them.
func (g *Together) Move(up, down int64) error {
	binary.LittleEndian.PutUint64(g.said, uint64(up))
	binary.LittleEndian.PutUint64(g.said[8:], uint64(down))
	if err := sock.WriteFull(g.lead.fd, g.said[:16]); err != nil {
		return broken("ask the peer", err)
	}
	for i := range g.lanes {
		g.lanes[i].Moved = 0
	}
	if err := moved(g.set, up, down); err != nil {
		return broken("send to the peer, or receive from it", err)
	}
	said := g.said[:len(g.lanes)*receiptSize]
	if err := sock.ReadFull(g.lead.fd, said); err != nil {
		return broken("wait for the peer's receipt", err)
	}
	for i := range g.Receipts {
		r := parseReceipt(said[i*receiptSize:])
		if r.Bytes != g.lanes[i].Moved {
			return fmt.Errorf("the peer counted %d bytes on connection %d, and this end %d", r.Bytes, i+1,
				g.lanes[i].Moved)
		}
		g.Receipts[i] = r
	}
	return nil
}

// moved moves a group's bytes.
func moved(set *sock.Lanes, send, receive int64) error {
	defer thread.Quiet()()
	return set.Move(send, receive, stallTime)
}

// Close closes the connections.
func (g *Together) Close() error {
	var errs []error
	for _, c := range append(g.Conns, g.lead) {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// group are connections that come for the thread that serves them; guarded by server.room.
type group struct {
	lanes []sock.Lane
	left  chan struct{} // closed when that thread is done with them
}

// join passes a connection to the thread that serves its group, and waits until that is done with it.
func (s *server) join(fd sock.FD, h Hello, cookie [cookieSize]byte) {
	block := make([]byte, h.Size)
	Fill(block, 1)
	s.room.Lock()
	g := s.groups[string(cookie[:])]
	known := g != nil && len(g.lanes) < cap(g.lanes)
	if known {
		g.lanes = append(g.lanes, sock.Lane{FD: fd, Sends: h.Op == Down, Block: block})
	}
	s.room.Unlock()
	if known {
		sock.WriteFull(fd, []byte{admitted}) // that thread sees what becomes of the connection
		<-g.left
	}
}

// gather serves a group of so many connections until their end. They are there when the first order is.
func (s *server) gather(fd sock.FD, n int) error {
	cookie := rand.Text()[:cookieSize]
	g := &group{lanes: make([]sock.Lane, 0, n), left: make(chan struct{})}
	s.room.Lock()
	s.groups[cookie] = g
	s.room.Unlock()
	defer s.end(cookie, g)
	said := make([]byte, n*receiptSize)
	order := said[:16]
	copy(order, cookie)
	err := sock.WriteFull(fd, order)
	if err == nil {
		err = sock.Limit(fd, s.patience)
	}
	if err == nil {
		err = sock.ReadFull(fd, order)
	}
	s.room.Lock()
	lanes := g.lanes
	s.room.Unlock()
	if err == nil && len(lanes) < n {
		err = errOrder
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for set := sock.NewLanes(lanes); err == nil; {
		if err = sock.Limit(fd, stallTime); err == nil {
			err = serveGroup(fd, set, lanes, said)
		}
		if err == nil {
			err = sock.Limit(fd, askTime)
		}
		if err == nil {
			err = sock.ReadFull(fd, order)
		}
	}
	return err
}

var errOrder = errors.New("this is not a valid order")

// serveGroup carries out the order that said begins with, and answers.
func serveGroup(fd sock.FD, set *sock.Lanes, lanes []sock.Lane, said []byte) error {
	up, down := binary.LittleEndian.Uint64(said), binary.LittleEndian.Uint64(said[8:])
	if up > maxAmount || down > maxAmount || up == 0 && down == 0 {
		return errOrder
	}
	for i := range lanes {
		lanes[i].Moved = 0
	}
	if err := moved(set, int64(down), int64(up)); err != nil {
		if err == io.EOF {
			return io.ErrUnexpectedEOF // in the middle
		}
		return err
	}
	for i := range lanes {
		Receipt{Bytes: lanes[i].Moved, Info: infoOf(lanes[i].FD)}.put(said[i*receiptSize:])
	}
	return sock.WriteFull(fd, said)
}

// end forgets a group.
func (s *server) end(cookie string, g *group) {
	s.room.Lock()
	delete(s.groups, cookie)
	g.lanes = g.lanes[:len(g.lanes):len(g.lanes)] // nobody else comes
	s.room.Unlock()
	for i := range g.lanes {
		sock.Reset(g.lanes[i].FD)
	}
	close(g.left)
}
