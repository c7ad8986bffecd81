package thread

import "runtime"

// Room makes Go's scheduler run n threads that wait in system calls without telling it, with one more for all else, and
// returns how to undo that. It stops every thread, and so must be called before the first of them begins.
func Room(n int) (undo func()) {
	have := runtime.GOMAXPROCS(0)
	if have > n {
		return func() {}
	}
	runtime.GOMAXPROCS(n + 1)
	return func() { runtime.GOMAXPROCS(have) }
}
