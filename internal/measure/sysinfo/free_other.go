//go:build !linux && !darwin && !freebsd && !windows

package sysinfo

// Free returns -1: the free space is not known.
func Free(string) int64 { return -1 }
