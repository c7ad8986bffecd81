//go:build !linux || !(amd64 || arm64)

package durability

import "errors"

// Watcher counts flushes of files. There is none on this system.
type Watcher struct{}

// NewWatcher says that flushes cannot be watched on this system.
func NewWatcher(string) (*Watcher, error) {
	return nil, errors.New("flushes are watched on Linux (amd64, arm64) only")
}

// File is never called: there is no Watcher.
func (*Watcher) File(string) (int, error) { return 0, errors.ErrUnsupported }

// Caller is never called: there is no Watcher.
func (*Watcher) Caller(string) string { return "" }

// Close is never called: there is no Watcher.
func (*Watcher) Close() error { return nil }
