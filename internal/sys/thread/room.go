package thread

import "runtime"

// Room raises GOMAXPROCS for n threads that wait in system calls of which the scheduler does not know, plus one for
// everything else, and returns a function that undoes it. It stops all threads, so it must be called before the first
// of them starts.
func Room(n int) (undo func()) {
	have := runtime.GOMAXPROCS(0)
	if have > n {
		return func() {}
	}
	runtime.GOMAXPROCS(n + 1)
	return func() { runtime.GOMAXPROCS(have) }
}
