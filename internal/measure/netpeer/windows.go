//go:build windows

package netpeer

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/windows"
)

var errUnsupported = errors.New("the peer of network workloads needs Linux, macOS or FreeBSD")

// Main is the role of an executable that is the peer. It returns the exit code.
func Main(_ io.Reader, _, errOut io.Writer, _ Pages) int {
	fmt.Fprintf(errOut, "tare: peer: %v\n", errUnsupported)
	return 1
}

// CPUTime is the CPU time that this process has used, of all its threads; below 0: not known.
func CPUTime() time.Duration {
	var made, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &made, &ended, &kernel, &user) != nil {
		return -1
	}
	const tick = 100 * time.Nanosecond
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * tick
}
