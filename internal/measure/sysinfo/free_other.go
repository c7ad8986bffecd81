//go:build !linux && !darwin && !freebsd && !windows

package sysinfo

// Free returns -1: the system does not say.
func Free(string) int64 { return -1 }
