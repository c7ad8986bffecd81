//go:build unix

package schedule

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyContinued has it told when this process goes on after it was stopped, until the function it returns is called.
// Tests in which no time passes tell it themselves.
var notifyContinued = func(to chan<- os.Signal) (ignore func()) {
	signal.Notify(to, syscall.SIGCONT)
	return func() { signal.Stop(to) }
}
