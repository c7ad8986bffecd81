//go:build !linux

package matrix

// syncAll does nothing outside Linux.
func syncAll() {}
