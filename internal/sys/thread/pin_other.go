//go:build !linux

package thread

import (
	"fmt"
	"runtime"
)

func pinMember(int, int) (int, error) {
	return 0, fmt.Errorf("bind thread to a processor: %w on %s", ErrUnsupported, runtime.GOOS)
}

// UsableCPUs lists the processors that the calling thread may run on, in ascending order, at least one.
func UsableCPUs() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}
