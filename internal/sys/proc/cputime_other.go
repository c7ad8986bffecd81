//go:build !linux

package proc

import "time"

// CPUTime is not known: there is no portable way to read the CPU time of other processes.
func CPUTime(int) (time.Duration, bool) { return 0, false }
