//go:build unix

package netpeer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// OS lists the systems (GOOS) on which the peer and its clients work.
func OS() []string { return []string{"linux", "darwin", "freebsd"} }

// The sockets are used by bare system calls and block, each in a thread of its own: Go's poller would put its own
// wake-ups into every round trip. Deadlines are the kernel's (SO_RCVTIMEO, SO_SNDTIMEO) and cost the loops nothing.

// errStalled is a socket's deadline.
var errStalled = errors.New("no data was transferred for too long")

func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// limit bounds how long each following read and write of a socket may wait.
func limit(fd int, d time.Duration) error {
	tv := unix.NsecToTimeval(int64(max(d, time.Millisecond)))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
}

// read reads once; 0 bytes come with io.EOF.
func read(fd int, b []byte) (int, error) {
	return readWith(unix.Read, fd, b)
}

// readWith is read by a call of one's own.
func readWith(call func(fd int, b []byte) (int, error), fd int, b []byte) (int, error) {
	for {
		n, err := call(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, errStalled
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// readFull fills b. The end of the connection before its first byte is io.EOF, later io.ErrUnexpectedEOF.
func readFull(fd int, b []byte) error {
	for got := 0; got < len(b); {
		n, err := read(fd, b[got:])
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

// readBy fills b before a point in time, however slowly the bytes come.
func readBy(fd int, b []byte, end time.Time) error {
	for got := 0; got < len(b); {
		left := time.Until(end)
		if left <= 0 {
			return errStalled
		}
		if err := limit(fd, left); err != nil {
			return err
		}
		n, err := read(fd, b[got:])
		if err != nil {
			return err
		}
		got += n
	}
	return nil
}

func writeFull(fd int, b []byte) error { return writeWith(unix.Write, fd, b) }

func writeWith(call func(fd int, b []byte) (int, error), fd int, b []byte) error {
	for len(b) > 0 {
		n, err := call(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return errStalled
		case err != nil:
			return err
		}
		b = b[n:]
	}
	return nil
}

// cpus is Go's default number of processors when the process began.
var cpus = runtime.GOMAXPROCS(0)

// CPUs is how many processors this process may use.
func CPUs() int { return cpus }

// send sends so many bytes, a block at a time. See thread.Room.
func send(fd int, block []byte, amount int64) error {
	for amount > 0 {
		n := min(amount, int64(len(block)))
		if err := writeWith(bareWrite, fd, block[:n]); err != nil {
			return err
		}
		amount -= n
	}
	return nil
}

// receive reads exactly so many bytes, a block at a time. It waits for whole blocks: otherwise the receiver would wake
// up for a few segments at a time, which over a loopback costs a quarter of the throughput. See thread.Room.
func receive(fd int, block []byte, amount int64) error {
	for amount > 0 {
		n, err := readWith(bareRead, fd, block[:min(amount, int64(len(block)))])
		if err != nil {
			return err
		}
		amount -= int64(n)
	}
	return nil
}

// noDelay makes the kernel send small messages at once.
func noDelay(fd int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// reset makes close reset the connection on both ends instead of waiting for data in flight.
func reset(fd int) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// CPUTime is the CPU time that this process has used, of all its threads.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return -1
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// broken explains a connection that failed during an operation.
func broken(what string, err error) error {
	switch {
	case errors.Is(err, errStalled):
		return fmt.Errorf("%s: %w (%v)", what, errStalled, stallTime)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s: the peer closed the connection: it has ended, or the network in between failed",
			what)
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return fmt.Errorf("%s: the connection to the peer broke (%w): it has ended, or the network in between failed",
			what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
