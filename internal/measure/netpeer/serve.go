package netpeer

import (
	"bufio"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// Bounds of concurrent connections: those that have not sent the token yet, and those that have.
const (
	maxStrangers = 64
	maxAdmitted  = 1024
)

// server is a peer at work.
type server struct {
	token     Token
	patience  time.Duration // for a greeting
	pages     Pages         // nil: it serves none
	strangers atomic.Int32
	served    atomic.Int32
	moving    atomic.Int32 // that send or receive without informing the scheduler
	room      sync.Mutex
	groups    map[string]*group // by cookie; guarded by room
}

// door is a socket on which the peer listens.
type door struct {
	listener sock.FD
	at       Place
	loopback bool // the process's own
}

// Serve runs the peer: it reads the token, a line, from in, writes its port, a line, to out, and serves until in ends.
// Each further line of in is a Place where it listens as well; the answer is a line with the port there, or what went
// wrong after an exclamation mark. Open connections end with the process. The caller closes pages, which may be nil.
func Serve(in io.Reader, out io.Writer, pages Pages) error { return serve(in, out, greetTime, pages) }

func serve(in io.Reader, out io.Writer, patience time.Duration, pages Pages) error {
	lines := bufio.NewReaderSize(in, maxLine)
	line, err := lines.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	s := &server{patience: patience, pages: pages, groups: map[string]*group{}}
	if s.token, err = ParseToken(strings.TrimSpace(string(line))); err != nil {
		return err
	}
	ended := make(chan error, 1)
	port, err := s.listen(Place{Address: netip.AddrFrom4([4]byte{127, 0, 0, 1})}, ended)
	if err != nil {
		return fmt.Errorf("listen on the loopback: %w", err)
	}
	if _, err := fmt.Fprintln(out, port); err != nil {
		return fmt.Errorf("write the port: %w", err)
	}
	go func() {
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				if err == io.EOF {
					err = nil
				}
				ended <- err
				return
			}
			p, err := parsePlace(strings.TrimSpace(string(line)))
			if err == nil {
				port, err = s.listen(p, ended)
			}
			if err != nil {
				fmt.Fprintln(out, "!", err)
			} else {
				fmt.Fprintln(out, port)
			}
		}
	}()
	return <-ended
}

// maxLine bounds a line of the peer's input.
const maxLine = 4096

// Main is the role of an executable that is the peer. It returns the exit code.
func Main(in io.Reader, out, errOut io.Writer, pages Pages) int {
	err := Serve(in, out, pages)
	if pages != nil {
		err = errors.Join(err, pages.Close())
	}
	if err != nil {
		fmt.Fprintf(errOut, "tare: peer: %v\n", err)
		return 1
	}
	return 0
}

// listen serves at a place until ended is told that it cannot.
func (s *server) listen(p Place, ended chan<- error) (port int, err error) {
	d := door{at: p, loopback: p.Space == "" && p.Address == netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	err = sock.In(p.Space, func() (err error) {
		d.listener, port, err = sock.Listen(netip.AddrPortFrom(p.Address, 0))
		return err
	})
	if err != nil {
		return 0, err
	}
	go func() {
		err := s.accept(d)
		select {
		case ended <- err:
		default: // another one has ended before
		}
	}()
	return port, nil
}

func (s *server) accept(d door) error {
	for {
		fd, err := sock.Accept(d.listener)
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		if s.strangers.Load() >= maxStrangers {
			sock.Close(fd)
			continue
		}
		s.strangers.Add(1)
		go s.attend(fd, d)
	}
}

// attend serves a connection until its end. It reports no errors, because the client sees the connection end.
func (s *server) attend(fd sock.FD, d door) {
	defer sock.Close(fd)
	h, answer, err := s.greet(fd)
	var cookie [cookieSize]byte
	if err == nil && answer == admitted && h.Member {
		err = sock.ReadBy(fd, cookie[:], time.Now().Add(s.patience))
	}
	s.strangers.Add(-1)
	if err != nil {
		return
	}
	if answer == admitted {
		if s.served.Add(1) > maxAdmitted {
			answer = full
		}
		defer s.served.Add(-1)
		if answer == admitted && h.Member {
			s.join(fd, h, cookie)
			return
		}
		if answer == admitted && (h.Op == Up || h.Op == Down || h.Op == Datagrams || h.Op == Gather) {
			s.makeRoom(s.moving.Add(1)) // before the answer, and so before the client asks any connection to move bytes
			defer s.moving.Add(-1)
		}
	}
	if err := sock.Limit(fd, stallTime); err != nil || sock.WriteFull(fd, []byte{answer}) != nil || answer != admitted {
		return
	}
	if err := s.serve(fd, h, d); errors.Is(err, io.EOF) {
		sock.Reset(fd)
	}
}

// greet reads a greeting and returns the answer.
func (s *server) greet(fd sock.FD) (h Hello, answer byte, err error) {
	var b [helloSize]byte
	if err := sock.ReadBy(fd, b[:], time.Now().Add(s.patience)); err != nil {
		return h, 0, err
	}
	if subtle.ConstantTimeCompare(b[:len(s.token)], s.token[:]) != 1 {
		return h, wrongToken, nil
	}
	if h, err = parseHello(b[:]); err != nil {
		return h, wrongHello, nil
	}
	return h, admitted, nil
}

// serve serves a connection's operation until the client closes it: then the error is io.EOF.
func (s *server) serve(fd sock.FD, h Hello, d door) error {
	if h.Op == Touch {
		var b [1]byte
		return sock.ReadFull(fd, b[:])
	}
	if h.Op != Up && h.Op != Down {
		if err := sock.NoDelay(fd, true); err != nil {
			return err
		}
	}
	if h.Op == Gather {
		return s.gather(fd, h.Size)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf, ask, receipt := make([]byte, h.Size), make([]byte, 8), make([]byte, receiptSize)
	if h.Op == Down {
		Fill(buf, 1)
	}
	f := flow{tcp: fd, udp: sock.None, packet: buf}
	if h.Op == Datagrams {
		var err error
		if f.udp, err = d.meet(fd); err != nil {
			return err
		}
		defer sock.Close(f.udp)
	}
	for {
		if err := sock.Limit(fd, askTime); err != nil {
			return err
		}
		if err := sock.ReadFull(fd, ask); err != nil {
			return err
		}
		amount, err := parseAmount(ask)
		if err != nil {
			return err
		}
		if err := sock.Limit(fd, stallTime); err != nil {
			return err
		}
		switch h.Op {
		case Up, Down:
			err = move(fd, h.Op, buf, amount)
		case Echo:
			err = echo(fd, buf, amount)
		case Usage:
			err = sock.WriteFull(fd, Used{CPU: CPUTime(), CPUs: CPUs()}.pack())
		case Page:
			err = s.page(fd, ask, amount, d)
		case Datagrams:
			err = f.serve(amount)
		}
		if err == nil && (h.Op == Up || h.Op == Down) {
			Receipt{Bytes: amount, Info: infoOf(fd)}.put(receipt)
			err = atOnce(fd, receipt)
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // in the middle
		}
		if err != nil {
			return err
		}
	}
}

// move moves a stream's bytes.
func move(fd sock.FD, op Op, block []byte, amount int64) error {
	defer thread.Quiet()()
	if op == Up {
		return sock.Receive(fd, block, amount, stallTime)
	}
	return sock.Send(fd, block, amount)
}

// atOnce sends a receipt. The kernel would keep it until the client has confirmed the end of the data before it, which
// may take the client's kernel 40 ms.
func atOnce(fd sock.FD, receipt []byte) error {
	if err := sock.NoDelay(fd, true); err != nil {
		return err
	}
	return errors.Join(sock.WriteFull(fd, receipt), sock.NoDelay(fd, false))
}

// makeRoom lets n connections send and receive at the same time. The room is never reduced.
func (s *server) makeRoom(n int32) {
	s.room.Lock()
	defer s.room.Unlock()
	thread.Room(int(n))
}

// echo sends so many messages back.
func echo(fd sock.FD, message []byte, times int64) error {
	for ; times > 0; times-- {
		if err := sock.ReadFull(fd, message); err != nil {
			return err
		}
		if err := sock.WriteFull(fd, message); err != nil {
			return err
		}
	}
	return nil
}

// meet opens a socket for datagrams beside a connection, and waits for the client's first.
func (d door) meet(fd sock.FD) (_ sock.FD, err error) {
	here, err := sock.Here(fd)
	if err != nil {
		return sock.None, err
	}
	udp, port := sock.None, 0
	err = sock.In(d.at.Space, func() (err error) {
		udp, port, err = sock.ListenUDP(netip.AddrPortFrom(here.Addr(), 0))
		return err
	})
	if err != nil {
		return sock.None, err
	}
	defer func() {
		if err != nil {
			sock.Close(udp)
		}
	}()
	intro := binary.LittleEndian.AppendUint16(nil, uint16(port))
	intro = append(intro, rand.Text()[:cookieSize]...)
	if err := errors.Join(sock.WriteFull(fd, intro), sock.Limit(udp, silence)); err != nil {
		return sock.None, err
	}
	b := make([]byte, cookieSize+1)
	for end := time.Now().Add(silence); time.Now().Before(end); {
		n, from, err := sock.GetFrom(udp, b)
		if err != nil {
			return sock.None, err
		}
		if subtle.ConstantTimeCompare(b[:n], intro[2:]) == 1 {
			return udp, errors.Join(sock.Meet(udp, &from), sock.WriteFull(fd, []byte{1}))
		}
	}
	return sock.None, sock.ErrStalled
}

// serve serves a request for datagrams.
func (f *flow) serve(amount int64) (err error) {
	var order [orderSize]byte
	if err := sock.ReadFull(f.tcp, order[:]); err != nil {
		return err
	}
	gap := time.Duration(binary.LittleEndian.Uint64(order[1:]))
	if gap < 0 || gap > maxGap || order[0] > 1 {
		return errors.New("this is not a valid order")
	}
	if order[0] == 0 {
		_, err = f.receive(amount, gap)
	} else {
		_, err = f.send(amount, gap)
	}
	return err
}

// page reads the seed of a page into the buffer ask, and answers where the page is served.
func (s *server) page(fd sock.FD, ask []byte, size int64, d door) error {
	if err := sock.ReadFull(fd, ask); err != nil {
		return err
	}
	served, err := Served{}, errors.New("this peer does not serve pages")
	switch {
	case !d.loopback && d.at.Space == "": // others reach that address as well, and a page asks for no token
		err = errors.New("a page is only reached by way of the controller's loopback")
	case s.pages != nil:
		served, err = s.pages.Serve(d.at, size, binary.LittleEndian.Uint64(ask))
	}
	return sock.WriteFull(fd, served.pack(err))
}
