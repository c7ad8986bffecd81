package thread

import (
	"errors"
	"fmt"

	"tare/internal/unit"
)

// reserve is left to the rest of the system and to this process, so that a workload that just fits does not bring in
// the out-of-memory killer: 16 MiB is what the agent itself may grow by.
const reserve = 16 << 20

// Memory is how much memory can still be taken, and what sets the limit.
type Memory struct {
	Bytes int64
	Limit string // "the system" or a cgroup's directory
}

// CheckMemory returns an error when need bytes are more than can be taken without swapping or being killed. Where the
// platform does not tell, it returns nil.
func CheckMemory(need int64) error {
	m, err := Available()
	if errors.Is(err, ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check memory: %w", err)
	}
	if need > m.Bytes-reserve {
		return fmt.Errorf("check memory: %s are needed and %d MiB are available (%s); choose a smaller size or give "+
			"the environment more memory",
			unit.FormatSize(need), max(0, m.Bytes)>>20, m.Limit)
	}
	return nil
}
