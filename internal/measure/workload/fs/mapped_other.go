//go:build !linux && !darwin && !freebsd

package fs

import "tare/internal/measure/fileio"

// mapFile is not done here.
func mapFile(*file.Handle, int64, bool) ([]byte, error) { return nil, file.ErrUnsupported }

func unmapFile([]byte) error { return nil }

func syncMapped([]byte) error { return file.ErrUnsupported }
