package developer

import "os"

func plainSync(f *os.File) error { return f.Sync() }

// flushDir does nothing: Windows has no way to flush a directory, and SQLite does not try either.
func (h handle) flushDir() error { return nil }
