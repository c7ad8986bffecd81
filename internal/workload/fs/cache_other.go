//go:build !linux

package fs

import "tare/internal/workload/file"

// dropAll is for Linux only.
func dropAll() error { return file.ErrUnsupported }
