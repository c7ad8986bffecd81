//go:build linux && !amd64 && !arm64

package trace

import (
	"errors"
	"runtime"
)

// OpenBPF is not possible here.
func OpenBPF() (Tracer, error) {
	return nil, errors.New("tracing by BPF is for amd64 and arm64, and this is " + runtime.GOARCH)
}
