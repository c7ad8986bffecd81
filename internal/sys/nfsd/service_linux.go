package nfsd

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// service answers calls at a socket. It uses the socket's system calls directly, because the agent does not include
// package net.
type service struct {
	socket   *os.File
	client   []byte // IPv4 address of the only client; nil if the socket has no addresses
	programs []program

	mu    sync.Mutex
	peers map[*os.File]bool
	over  bool
	all   sync.WaitGroup
}

// Bounds of a service that has one client.
const (
	maxPeers = 32
	// idleTime is how long a client over the network may be idle. The kernel keeps its connection to the port mapper.
	idleTime = time.Minute
	// pause is the wait after an error of accept(2), which is most likely a lack of descriptors.
	pause = 100 * time.Millisecond
)

// listenTCP listens at a port of all IPv4 addresses of the calling thread's network namespace.
func listenTCP(port int) (*os.File, error) {
	return listen(unix.AF_INET, &unix.SockaddrInet4{Port: port})
}

// listenLocal listens at a name in the file system that the calling thread sees.
func listenLocal(path string) (*os.File, error) {
	return listen(unix.AF_UNIX, &unix.SockaddrUnix{Name: path})
}

func listen(family int, at unix.Sockaddr) (*os.File, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if family == unix.AF_INET {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, at))
	}
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, maxPeers))
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// offer answers calls to programs at a listening socket, which it closes at its end.
func offer(socket *os.File, client []byte, programs ...program) *service {
	s := &service{socket: socket, client: client, programs: programs, peers: map[*os.File]bool{}}
	s.all.Add(1)
	go s.accept()
	return s
}

func (s *service) accept() {
	defer s.all.Done()
	conn, err := s.socket.SyscallConn()
	if err != nil {
		return
	}
	for {
		fd, from, failed := -1, unix.Sockaddr(nil), error(nil)
		err := conn.Read(func(socket uintptr) bool {
			fd, from, failed = unix.Accept4(int(socket), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return // closed
		case failed != nil:
			time.Sleep(pause)
			continue
		}
		peer := os.NewFile(uintptr(fd), "peer")
		if !s.welcome(from) || !s.join(peer) {
			peer.Close()
			continue
		}
		go s.talk(peer)
	}
}

// welcome tells whether a peer is the allowed client.
func (s *service) welcome(from unix.Sockaddr) bool {
	if s.client == nil {
		return true
	}
	a, ok := from.(*unix.SockaddrInet4)
	return ok && bytes.Equal(a.Addr[:], s.client)
}

func (s *service) join(peer *os.File) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || len(s.peers) == maxPeers {
		return false
	}
	s.peers[peer] = true
	s.all.Add(1)
	return true
}

// talk answers a peer until it leaves or sends an invalid message.
func (s *service) talk(peer *os.File) {
	defer s.all.Done()
	defer func() {
		s.mu.Lock()
		delete(s.peers, peer)
		s.mu.Unlock()
		peer.Close()
	}()
	for {
		if s.client != nil {
			peer.SetDeadline(time.Now().Add(idleTime))
		}
		message, err := readMessage(peer)
		if err != nil {
			return
		}
		reply, err := answer(message, s.programs)
		if err != nil {
			return
		}
		if _, err := peer.Write(framed(reply)); err != nil {
			return
		}
	}
}

// close ends the service and waits until no call is in progress.
func (s *service) close() {
	s.mu.Lock()
	s.over = true
	for peer := range s.peers {
		peer.Close() // talk reads no more
	}
	s.mu.Unlock()
	s.socket.Close()
	s.all.Wait()
}
