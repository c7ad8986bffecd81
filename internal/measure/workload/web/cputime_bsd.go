//go:build unix && !linux

package web

import "time"

// cpuTime is not known: what other processes used is not to be had portably.
func cpuTime(int) (time.Duration, bool) { return 0, false }
