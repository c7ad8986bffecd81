//go:build !unix

package datadir

// lockedBy returns 0: here other processes cannot read a locked file anyway.
func lockedBy(string) (int, error) { return 0, nil }
