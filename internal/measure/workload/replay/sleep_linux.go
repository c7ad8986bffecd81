package replay

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep waits for some time. Timers of Go would end up to 1 ms late.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // who calls it looks at the clock
}

// wakeExactly makes the waits of the calling thread end as exactly as the kernel can, and returns a function that
// undoes it. By default the kernel may let them end 50 us late.
func wakeExactly() (undo func()) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) }
}
