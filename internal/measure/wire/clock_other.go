//go:build !windows

package wire

import "time"

var began = time.Now()

// Now is the process's monotonic clock, in ns since the program began. Both ends stamp with it.
func Now() int64 { return int64(time.Since(began)) }
