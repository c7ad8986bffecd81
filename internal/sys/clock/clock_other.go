//go:build !windows

package clock

import "time"

// Instant is a reading of the clock.
type Instant = time.Time

// Now reads the clock.
func Now() Instant { return time.Now() }

// Since is the time that has passed since a reading.
func Since(i Instant) time.Duration { return time.Since(i) }
