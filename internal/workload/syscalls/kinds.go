// Package syscalls is being written.
package syscalls

import "tare/internal/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return nil }
