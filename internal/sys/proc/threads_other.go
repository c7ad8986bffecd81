//go:build !linux

package proc

import (
	"errors"
	"time"
)

// ThreadTimes is not known here.
func ThreadTimes(int) (map[Thread]time.Duration, error) {
	return nil, errors.ErrUnsupported
}
