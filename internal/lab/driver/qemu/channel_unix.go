//go:build unix

package qemu

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// channel is a connection to QEMU that is made before QEMU starts. QEMU inherits its end as an open file. So there is
// no name in a file system, no limit on the name's length and no race for it.
type channel struct {
	ours   net.Conn
	theirs *os.File
}

func newChannel() (*channel, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("make a connection for QEMU: %w", err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	f := os.NewFile(uintptr(fds[0]), "qemu")
	defer f.Close()
	theirs := os.NewFile(uintptr(fds[1]), "qemu")
	ours, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, fmt.Errorf("make a connection for QEMU: %w", err)
	}
	return &channel{ours, theirs}, nil
}

// give passes QEMU's end to the command and returns the arguments for -chardev socket.
func (c *channel) give(cmd *proc.Cmd) string {
	cmd.ExtraFiles = append(cmd.ExtraFiles, c.theirs)
	return "fd=" + strconv.Itoa(2+len(cmd.ExtraFiles))
}

// connect returns the connection once QEMU has started.
func (c *channel) connect(context.Context) (net.Conn, error) {
	c.theirs.Close()
	return c.ours, nil
}

// close closes both ends.
func (c *channel) close() {
	c.theirs.Close()
	c.ours.Close()
}
