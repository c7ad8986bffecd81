//go:build !linux

package fs

import "tare/internal/measure/fileio"

// dropAll is for Linux only.
func dropAll() error { return fileio.ErrUnsupported }
