//go:build !unix

package qemu

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"tare/internal/sys/proc"
)

// channel is a connection to QEMU over a Unix socket on which tare listens. Only Windows needs it; it has not been run
// yet.
type channel struct {
	dir  string
	ln   *net.UnixListener
	ours net.Conn
}

func newChannel() (*channel, error) {
	dir, err := os.MkdirTemp("", "tare-") // short, because the path of a socket has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("make a connection for QEMU: %w", err)
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("make a connection for QEMU: %w", err)
	}
	return &channel{dir: dir, ln: ln}, nil
}

func (c *channel) give(*proc.Cmd) string { return "path=" + filepath.Join(c.dir, "s") }

func (c *channel) connect(ctx context.Context) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { c.ln.Close() })
	defer stop()
	conn, err := c.ln.Accept()
	if err != nil {
		return nil, fmt.Errorf("wait for QEMU to connect: %w", err)
	}
	c.ours = conn
	return conn, nil
}

func (c *channel) close() {
	c.ln.Close()
	if c.ours != nil {
		c.ours.Close()
	}
	os.RemoveAll(c.dir)
}
