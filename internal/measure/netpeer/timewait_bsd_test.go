//go:build unix && !linux

package netpeer

import "testing"

// timeWait is read on Linux only.
func timeWait(*testing.T, string) int { return 0 }
