package mount

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// family are processes by file descriptor, which, other than a number, never comes to mean another process.
type family []int

// descendants finds the children of a living process and theirs. sshd gives each connection a session of its own, out of
// reach of signals to the process group, and they outlive it. ended is closed when the process is reaped: then nothing is
// returned, because its number may be another's.
func descendants(pid int, ended <-chan struct{}) family {
	var f family
	seen := map[int]bool{pid: true}
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, child := range children(queue[0]) {
			if seen[child] {
				continue
			}
			seen[child] = true
			fd, err := unix.PidfdOpen(child, 0)
			if err != nil {
				continue // it has ended, or the kernel is older than 5.3
			}
			f = append(f, fd)
			queue = append(queue, child)
		}
	}
	select {
	case <-ended:
		f.close()
		return nil
	default:
		return f
	}
}

// children reads the kernel's list, which each thread of a process has one of.
func children(pid int) (pids []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for _, word := range bytes.Fields(b) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// kill ends those that still live and waits until they are gone.
func (f family) kill() {
	for _, fd := range f {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // an error says that it has ended
	}
	end := time.Now().Add(2 * time.Second)
	for _, fd := range f {
		for {
			// A descriptor of a process is readable once it has ended.
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(end).Milliseconds())))
			if err != unix.EINTR {
				break
			}
		}
	}
	f.close()
}

func (f family) close() {
	for _, fd := range f {
		unix.Close(fd)
	}
}
