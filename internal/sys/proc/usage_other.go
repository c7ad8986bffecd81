//go:build !linux

package proc

import (
	"errors"
	"time"
)

// Memory returns the memory of a process.
func Memory(int) (resident, proportional int64, err error) {
	return 0, 0, errors.New("the memory of a process can be read on Linux only")
}

// Usage returns the resources of a process: CPU time of all its threads, and resident memory in bytes.
func Usage(int) (cpu time.Duration, rss int64, err error) {
	return 0, 0, errors.New("the usage of a process can be read on Linux only")
}
