//go:build slim

package all

import "tare/internal/measure/workload"

// controllers are none: an agent does not need what the controller does.
func controllers() []workload.Kind { return nil }
