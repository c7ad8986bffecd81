//go:build !unix

package schedule

import "os"

// notifyContinued does nothing: no terminal stops a process here.
var notifyContinued = func(chan<- os.Signal) (ignore func()) { return func() {} }
