//go:build !linux

package durability

import "os"

func syncData(f *os.File) error { return f.Sync() }
