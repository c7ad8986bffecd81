//go:build unix

package main

import (
	"errors"
	"fmt"
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

// mayOpen says whether programs started here may have so many files open.
func mayOpen(n int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if uint64(l.Max) < uint64(n) {
		return missing{fmt.Sprintf("a process may have %d open files here, and %d are needed: raise ulimit -Hn", l.Max,
			n)}
	}
	return nil
}
