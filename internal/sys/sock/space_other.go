//go:build !linux

package sock

import "errors"

// In calls f in a network namespace, which this system does not have; "" is the process's own.
func In(space string, f func() error) error {
	if space != "" {
		return errors.ErrUnsupported
	}
	return f()
}
