//go:build !linux

package trace

import (
	"errors"
	"io"
	"strconv"
)

func errnoName(n int) string { return "error " + strconv.Itoa(n) }

// errLinux says where there is tracing.
var errLinux = errors.New("system calls are traced on Linux only")

// OpenBPF is not possible here.
func OpenBPF() (Tracer, error) { return nil, errLinux }

// Main is not possible here.
func Main(io.Reader, io.Writer) int { return 1 }
