package thread

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Quiet locks the calling goroutine to its thread and keeps the scheduler's preemption signal from it, until the
// returned function is called. Go sends SIGURG to a thread that has run for 10 ms, or waits without the scheduler's
// knowledge. Network and user-space file systems abort a request in flight when a signal arrives, and a stream over the
// loopback loses a tenth of its throughput. The garbage collector waits for a thread that waits so.
func Quiet() (restore func()) {
	runtime.LockOSThread()
	var set, old unix.Sigset_t
	n := uint(unix.SIGURG) - 1
	word := uint(unsafe.Sizeof(set.Val[0])) * 8
	set.Val[n/word] |= 1 << (n % word)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		runtime.UnlockOSThread()
	}
}
