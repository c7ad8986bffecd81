//go:build !linux

package proc

import (
	"errors"
	"time"
)

// CPUTime is not known: there is no portable way to read the CPU time of other processes.
func CPUTime(int) (time.Duration, bool) { return 0, false }

// FamilyCPUTime is not known.
func FamilyCPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
