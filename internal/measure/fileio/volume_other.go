//go:build !linux

package fileio

// DirectAlignment is known on Linux only.
func DirectAlignment(string) int64 { return 0 }

// Resident is known on Linux only.
func Resident(string) (float64, error) { return 0, ErrUnsupported }
