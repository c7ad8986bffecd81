//go:build !linux

package sql

import "time"

// serverCPU is not known: private servers exist on Linux only.
func serverCPU(int) (time.Duration, bool) { return 0, false }
