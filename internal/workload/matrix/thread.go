package matrix

import (
	"runtime"

	"tare/internal/workload/file"
)

// alone runs do on a thread that does nothing else, that ends with it, and that has its own table of open files where
// the system has such; private tells whether. What do opens it must close. The clock's tick does not disturb it.
func alone(do func(private bool) error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread's table of files must not serve another goroutine
		restore := file.Quiet()
		err := do(unshareFiles())
		restore()
		done <- err
	}()
	return <-done
}
