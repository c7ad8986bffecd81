//go:build !darwin

package fileio

// FullSync is Sync, which reaches the medium by itself; only on macOS does it take another call.
func (h *Handle) FullSync() error { return h.Sync() }
