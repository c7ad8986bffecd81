//go:build !amd64

package memory

import "runtime"

// theRules are those of Go's memmove: tare does not know those of the C library on these processors.
var theRules rules

// lacks returns why a way is not available on this processor, else "".
func lacks(m move) string {
	if m == byMemmove {
		return ""
	}
	return "tare has these instructions only for amd64, and this is " + runtime.GOARCH
}

// copyBy copies src to dst.
func copyBy(_ move, dst, src []byte) { copy(dst, src) }
