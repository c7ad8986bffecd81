package web

import (
	"os"

	"golang.org/x/sys/unix"
)

// both watches a descriptor for reading and writing.
func (p *poller) both(fd, conn int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT, Fd: int32(conn)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &e))
}
