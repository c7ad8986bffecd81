//go:build !linux

package durability

// InMemory names the file system of a path when it keeps its files in memory. On this system that is not known.
func InMemory(string) string { return "" }
