//go:build !linux && !darwin && !freebsd

package fs

import "tare/internal/measure/fileio"

// mapFile is not done here.
func mapFile(*fileio.Handle, int64, bool) ([]byte, error) { return nil, fileio.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func syncMapped([]byte) error { return fileio.ErrUnsupported }
