package mount

import (
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// family is a process with its descendants, as pidfds. A pidfd never comes to mean another process, unlike a process
// id. The zero family is empty.
type family struct {
	head    int
	members []int
	found   bool
}

// descendants finds the family of one of our children. sshd gives each connection a session of its own; such processes
// outlive it, and signals to the process group do not reach them. ended is closed when the child is reaped: then the
// family is empty, because the process id may be reused.
func descendants(pid int, ended <-chan struct{}) family {
	head, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return family{} // it has ended, or the kernel is older than 5.3
	}
	f := family{head: head, found: true}
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range proc.Children(queue[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			if fd, err := unix.PidfdOpen(child, 0); err == nil {
				f.members = append(f.members, fd)
				queue = append(queue, child)
			}
		}
	}
	select {
	case <-ended:
		f.close()
		return family{}
	default:
		return f
	}
}

// end waits until the first process, which was already asked to end, has ended. Then it kills the other processes and
// waits for them.
func (f family) end(within time.Duration) {
	if !f.found {
		return
	}
	await(f.head, time.Now().Add(within))
	for _, fd := range f.members {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error says that it has already ended
	}
	limit := time.Now().Add(10 * time.Second)
	for _, fd := range f.members {
		await(fd, limit)
	}
	f.close()
}

// await returns when a process has ended, or at limit. A pidfd is readable once the process has ended.
func await(fd int, limit time.Time) {
	for {
		left := max(0, time.Until(limit).Milliseconds())
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left)); err != unix.EINTR {
			return
		}
	}
}

func (f family) close() {
	unix.Close(f.head)
	for _, fd := range f.members {
		unix.Close(fd)
	}
}
