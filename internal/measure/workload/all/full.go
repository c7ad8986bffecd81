//go:build !slim

package all

import (
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/launch"
)

// controllers are the kinds that the controller does.
func controllers() []workload.Kind { return launch.Kinds() }
