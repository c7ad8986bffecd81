// Package fs is being written.
package fs

import "tare/internal/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return nil }
