package sock

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// In calls f in a network namespace, which a file stands for; "" is the process's own. What f opens belongs to the
// namespace also afterwards.
func In(space string, f func() error) error {
	if space == "" {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open(space, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err != nil {
			done <- fmt.Errorf("enter the network %s: %w", space, err)
			return
		}
		done <- f()
	}()
	return <-done
}
