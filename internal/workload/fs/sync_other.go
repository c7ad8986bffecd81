//go:build !linux && !darwin && !freebsd

package fs

import "os"

func plainSync(f *os.File) error { return f.Sync() }
