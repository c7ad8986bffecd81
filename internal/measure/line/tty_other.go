//go:build !linux && !darwin && !freebsd && !windows

package line

import (
	"errors"
	"os"
)

// OpenDevice cannot open a serial device here.
func OpenDevice(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }
