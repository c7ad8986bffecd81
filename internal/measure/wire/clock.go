package wire

import "tare/internal/sys/clock"

var began = clock.Now()

// Now is the process's monotonic clock, in ns since the program began. Both ends stamp with it.
func Now() int64 { return int64(clock.Since(began)) }
