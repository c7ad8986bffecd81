//go:build !linux

package matrix

// syncAll does nothing: where it exists, it is not worth a difference between systems.
func syncAll() {}
