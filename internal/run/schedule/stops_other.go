//go:build !unix

package schedule

import "os"

// notifyContinued does nothing: no terminal stops a process here.
func notifyContinued(chan<- os.Signal) (ignore func()) { return func() {} }
