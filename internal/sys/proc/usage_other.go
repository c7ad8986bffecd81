//go:build !linux

package proc

import (
	"errors"
	"time"
)

// Usage returns the resources of a process: CPU time of all its threads, and resident memory in bytes.
func Usage(int) (cpu time.Duration, rss int64, err error) {
	return 0, 0, errors.New("the usage of a process can be read on Linux only")
}
