package sql

import "tare/internal/measure/workload"

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return []workload.Kind{replayKind(), oltpKind()} }
