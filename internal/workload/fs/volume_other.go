//go:build !linux

package fs

func directAlignment(string) int64 { return 0 }

// resident is known on Linux only.
func resident(string) (float64, error) { return 0, ErrUnsupported }
