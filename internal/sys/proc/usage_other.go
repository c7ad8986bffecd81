//go:build !linux

package proc

import (
	"errors"
	"time"
)

// Usage returns what a process has used so far: processor time of all its threads, and its resident memory in bytes.
func Usage(int) (cpu time.Duration, rss int64, err error) {
	return 0, 0, errors.New("the usage of a process is read on Linux only")
}
