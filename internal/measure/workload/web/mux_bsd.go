//go:build unix && !linux

package web

import "golang.org/x/sys/unix"

// both watches a descriptor for reading and writing.
func (p *poller) both(fd, conn int) error {
	p.fds[conn] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLOUT}
	return nil
}
