// Package null is being written.
package null

import "tare/internal/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return nil }
