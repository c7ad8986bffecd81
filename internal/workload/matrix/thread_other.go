//go:build !linux

package matrix

// unshareFiles does nothing: other systems have no such table.
func unshareFiles() bool { return false }
