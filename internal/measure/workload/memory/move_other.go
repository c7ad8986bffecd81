//go:build !amd64

package memory

import "runtime"

// theRules are those of Go's memmove: what the C library does on these processors, tare does not know.
var theRules rules

// lacks says why a way cannot be had on this processor, or nothing.
func lacks(m move) string {
	if m == byMemmove {
		return ""
	}
	return "tare has these instructions for amd64, and this is " + runtime.GOARCH
}

// copyBy copies src to dst.
func copyBy(_ move, dst, src []byte) { copy(dst, src) }
