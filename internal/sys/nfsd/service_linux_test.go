package nfsd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds what must come at some time, on a machine that has other things to do.
const patience = 3 * time.Minute

// ask makes a call over a connection.
func ask(t *testing.T, c net.Conn, call []byte) ([]byte, error) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(framed(call)); err != nil {
		return nil, err
	}
	return readMessage(c)
}

func portOf(t *testing.T, f *os.File) int {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var a unix.Sockaddr
	if e := conn.Control(func(fd uintptr) { a, err = unix.Getsockname(int(fd)) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return a.(*unix.SockaddrInet4).Port
}

func TestServiceAnswersItsClient(t *testing.T) {
	socket, err := listenTCP(0)
	if err != nil {
		t.Fatal(err)
	}
	at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: portOf(t, socket)}
	s := offer(socket, []byte{127, 0, 0, 1}, mountProtocol(handle))
	c, err := net.DialTCP("tcp4", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		got, err := ask(t, c, asked(100005, 3, 1, opaque([]byte("/"))...))
		if err != nil || !bytes.Contains(got, handle) {
			t.Fatalf("%x, %v", got, err)
		}
	}
	// What is no call ends the conversation.
	if got, err := ask(t, c, []byte("hello")); err == nil {
		t.Errorf("it answers %q", got)
	}
	stranger, err := net.DialTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, at)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if got, err := ask(t, stranger, asked(100005, 3, 0)); err == nil {
		t.Errorf("a stranger is answered: %x", got)
	}
	silent, err := net.DialTCP("tcp4", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := ask(t, silent, asked(100005, 3, 0)); err != nil {
		t.Fatal(err)
	}
	s.close()
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("after the end a client reads %v", err)
	}
	if c, err := net.DialTCP("tcp4", nil, at); err == nil {
		c.Close()
		t.Error("after the end somebody listens")
	}
}

func TestServiceAtAName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "socket")
	socket, err := listenLocal(name)
	if err != nil {
		t.Fatal(err)
	}
	s := offer(socket, nil, portMapper())
	var peers []net.Conn
	for range maxPeers {
		c, err := net.Dial("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		peers = append(peers, c)
		if got, err := ask(t, c, asked(100000, 4, 1)); err != nil || len(got) != 28 {
			t.Fatalf("%x, %v", got, err)
		}
	}
	over, err := net.Dial("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	if got, err := ask(t, over, asked(100000, 4, 0)); err == nil {
		t.Errorf("one more than %d is answered: %x", maxPeers, got)
	}
	s.close()
	for _, c := range peers {
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the end a client reads %v", err)
		}
	}
	if _, err := listenLocal(name); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a name that is taken: %v", err)
	}
}
