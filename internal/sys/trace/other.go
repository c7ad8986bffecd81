//go:build !linux

package trace

import (
	"errors"
	"strconv"
)

func errnoName(n int) string { return "error " + strconv.Itoa(n) }

// errLinux says where there is tracing.
var errLinux = errors.New("system calls are traced on Linux only")

// OpenBPF is not possible here.
func OpenBPF() (Tracer, error) { return nil, errLinux }

// OpenPtrace is not possible here.
func OpenPtrace() (Tracer, error) { return nil, errLinux }
