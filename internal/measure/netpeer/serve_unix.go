//go:build unix

package netpeer

import (
	"bufio"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

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
	listener  int
	pages     Pages // nil: it serves none
	strangers atomic.Int32
	served    atomic.Int32
	moving    atomic.Int32 // that send or receive without informing the scheduler
	room      sync.Mutex
}

// Serve runs the peer: it reads the token, a line, from in, writes its port, a line, to out, and serves until in ends.
// Open connections then end with the process. The caller closes pages, which may be nil.
func Serve(in io.Reader, out io.Writer, pages Pages) error { return serve(in, out, greetTime, pages) }

func serve(in io.Reader, out io.Writer, patience time.Duration, pages Pages) error {
	lines := bufio.NewReaderSize(io.LimitReader(in, 4096), 256)
	line, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	s := &server{patience: patience, pages: pages}
	if s.token, err = ParseToken(strings.TrimSpace(line)); err != nil {
		return err
	}
	port, err := s.listen()
	if err != nil {
		return fmt.Errorf("listen on the loopback: %w", err)
	}
	if _, err := fmt.Fprintln(out, port); err != nil {
		return fmt.Errorf("write the port: %w", err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	go func() { ended <- s.accept() }()
	return <-ended
}

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

func (s *server) listen() (port int, err error) {
	if s.listener, err = newSocket(); err != nil {
		return 0, err
	}
	if err := unix.Bind(s.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	if err := unix.Listen(s.listener, 1024); err != nil {
		return 0, err
	}
	at, err := unix.Getsockname(s.listener)
	if err != nil {
		return 0, err
	}
	return at.(*unix.SockaddrInet4).Port, nil
}

func (s *server) accept() error {
	for {
		fd, _, err := unix.Accept(s.listener)
		switch err {
		case nil:
		case unix.EINTR, unix.ECONNABORTED:
			continue
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			time.Sleep(10 * time.Millisecond)
			continue
		default:
			return fmt.Errorf("accept: %w", err)
		}
		unix.CloseOnExec(fd)
		if s.strangers.Load() >= maxStrangers {
			unix.Close(fd)
			continue
		}
		s.strangers.Add(1)
		go s.attend(fd)
	}
}

// attend serves a connection until its end. It reports no errors, because the client sees the connection end.
func (s *server) attend(fd int) {
	defer unix.Close(fd)
	h, answer, err := s.greet(fd)
	s.strangers.Add(-1)
	if err != nil {
		return
	}
	if answer == admitted {
		if s.served.Add(1) > maxAdmitted {
			answer = full
		}
		defer s.served.Add(-1)
		if answer == admitted && (h.Op == Up || h.Op == Down) {
			s.makeRoom(s.moving.Add(1)) // before the answer, and so before the client asks any connection to move bytes
			defer s.moving.Add(-1)
		}
	}
	if err := limit(fd, stallTime); err != nil || writeFull(fd, []byte{answer}) != nil || answer != admitted {
		return
	}
	if err := s.serve(fd, h); errors.Is(err, io.EOF) {
		reset(fd)
	}
}

// greet reads a greeting and returns the answer.
func (s *server) greet(fd int) (h Hello, answer byte, err error) {
	var b [helloSize]byte
	if err := readBy(fd, b[:], time.Now().Add(s.patience)); err != nil {
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
func (s *server) serve(fd int, h Hello) error {
	if h.Op == Touch {
		var b [1]byte
		return readFull(fd, b[:])
	}
	if h.Op == Echo || h.Op == Usage || h.Op == Page {
		if err := noDelay(fd); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf, ask, receipt := make([]byte, h.Size), make([]byte, 8), make([]byte, receiptSize)
	if h.Op == Down {
		Fill(buf, 1)
	}
	for {
		if err := limit(fd, askTime); err != nil {
			return err
		}
		if err := readFull(fd, ask); err != nil {
			return err
		}
		amount, err := parseAmount(ask)
		if err != nil {
			return err
		}
		if err := limit(fd, stallTime); err != nil {
			return err
		}
		switch h.Op {
		case Up:
			err = receive(fd, buf, amount)
		case Down:
			err = send(fd, buf, amount)
		case Echo:
			err = echo(fd, buf, amount)
		case Usage:
			err = writeFull(fd, Used{CPU: CPUTime(), CPUs: CPUs()}.pack())
		case Page:
			err = s.page(fd, ask, amount)
		}
		if err == nil && (h.Op == Up || h.Op == Down) {
			Receipt{Bytes: amount, Retransmits: retransmits(fd)}.put(receipt)
			err = writeFull(fd, receipt)
		}
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF // in the middle
		}
		if err != nil {
			return err
		}
	}
}

// makeRoom lets n connections send and receive at the same time. The room is never reduced.
func (s *server) makeRoom(n int32) {
	s.room.Lock()
	defer s.room.Unlock()
	thread.Room(int(n))
}

// echo sends so many messages back.
func echo(fd int, message []byte, times int64) error {
	for ; times > 0; times-- {
		if err := readFull(fd, message); err != nil {
			return err
		}
		if err := writeFull(fd, message); err != nil {
			return err
		}
	}
	return nil
}

// page reads the seed of a page into the buffer ask, and answers where the page is served.
func (s *server) page(fd int, ask []byte, size int64) error {
	if err := readFull(fd, ask); err != nil {
		return err
	}
	served, err := Served{}, errors.New("this peer does not serve pages")
	if s.pages != nil {
		served, err = s.pages.Serve(size, binary.LittleEndian.Uint64(ask))
	}
	return writeFull(fd, served.pack(err))
}
