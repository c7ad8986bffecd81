//go:build !linux

package developer

import "tare/internal/measure/fileio"

func dropCaches() error { return fileio.ErrUnsupported }

func cachedEntries() (int64, error) { return 0, fileio.ErrUnsupported }
