//go:build unix && !linux

package web

import "time"

// cpuTime is not known: there is no portable way to read the CPU time of other processes.
func cpuTime(int) (time.Duration, bool) { return 0, false }
