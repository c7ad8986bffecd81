//go:build !linux

package restore

import (
	"time"

	"tare/internal/measure/fileio"
)

// cpu is not known: there is no portable way to read the CPU time of other processes.
func (d *database) cpu() (time.Duration, error) { return 0, fileio.ErrUnsupported }
