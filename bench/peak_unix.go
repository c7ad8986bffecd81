//go:build unix

package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
)

// peakMB is the largest resident set that a process had which has ended.
func peakMB(s *os.ProcessState) (float64, error) {
	usage, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("this system does not tell how much memory a process had")
	}
	unit := 1024.0
	if runtime.GOOS == "darwin" {
		unit = 1
	}
	return float64(usage.Maxrss) * unit / 1e6, nil
}
