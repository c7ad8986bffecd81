//go:build !windows && !darwin && !freebsd && (portable || !linux || !(amd64 || arm64))

package developer

import "os"

func plainSync(f *os.File) error { return f.Sync() }

// flushDir does for a directory's entries what flush does for data.
func (h handle) flushDir() error { return h.flush() }
