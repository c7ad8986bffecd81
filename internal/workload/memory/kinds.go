// Package memory is being written.
package memory

import "tare/internal/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return nil }
