//go:build !linux

package restore

import (
	"time"

	"tare/internal/measure/fileio"
)

// cpu is not known: what other processes used is not to be had portably.
func (d *database) cpu() (time.Duration, error) { return 0, fileio.ErrUnsupported }
