//go:build !linux

package fileio

// Journal returns "": only Linux reports whether a file system has a journal.
func Journal(string) string { return "" }
