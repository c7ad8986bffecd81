//go:build linux || darwin || freebsd

package line

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenDevice opens a serial device, so that all bytes pass unchanged: 8 bits without parity, no flow control, no echo.
// It does not wait for a carrier.
func OpenDevice(name string, baud int) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err := setRaw(fd, baud); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up serial device %s with %d baud: %w", name, baud, err)
	}
	return os.NewFile(uintptr(fd), name), nil // it is non-blocking, so a read ends when it is closed
}

// raw is cfmakeraw, with a read that returns the first byte, and without hardware's flow control.
func raw(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL |
		unix.IXON | unix.IXOFF
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB | unix.CSTOPB | unix.CRTSCTS
	t.Cflag |= unix.CS8 | unix.CREAD | unix.CLOCAL
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
}
