package thread

import (
	"errors"
	"fmt"

	"tare/internal/unit"
)

// reserve is left for the system and for this process, so that a workload that just fits does not trigger the
// out-of-memory killer: the agent itself may grow by 16 MiB.
const reserve = 16 << 20

// Memory is the memory that can still be allocated, and what sets the limit.
type Memory struct {
	Bytes int64
	Limit string // "the system" or a cgroup's directory
}

// CheckMemory returns an error if need bytes cannot be allocated without swapping or being killed. If the platform does
// not report the limit, it returns nil.
func CheckMemory(need int64) error {
	m, err := Available()
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check memory: %w", err)
	}
	if need > m.Bytes-reserve {
		return fmt.Errorf("check memory: %s are needed, but only %d MiB are available (%s); use a smaller size, or "+
			"give the environment more memory",
			unit.FormatSize(need), max(0, m.Bytes)>>20, m.Limit)
	}
	return nil
}
