// Package command is being written.
package command

import "tare/internal/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return nil }
