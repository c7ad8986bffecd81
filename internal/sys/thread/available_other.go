//go:build !linux

package thread

// Available is not known here: the error wraps ErrUnsupported.
func Available() (Memory, error) { return Memory{}, ErrUnsupported }
