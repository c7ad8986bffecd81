//go:build !linux

package developer

import "tare/internal/workload/file"

func dropCaches() error { return file.ErrUnsupported }

func cachedEntries() (int64, error) { return 0, file.ErrUnsupported }
