package fileio

import (
	"bytes"
	"testing"
)

// TestCopy holds Copy to the built-in: every size around its pieces, and either side the longer.
func TestCopy(t *testing.T) {
	src := make([]byte, 5*piece)
	FillRandom(src, 7)
	for _, n := range []int{0, 1, 4096, piece - 1, piece, piece + 1, 4 * piece, 4*piece + 13} {
		for _, more := range []int{0, 5} {
			want, got := make([]byte, n), make([]byte, n)
			copy(want, src[:n+more])
			if Copy(got, src[:n+more]); !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d came otherwise", n, n+more)
			}
			got = make([]byte, n+more)
			if Copy(got, src[:n]); !bytes.Equal(got[:n], want) || !bytes.Equal(got[n:], make([]byte, more)) {
				t.Errorf("%d bytes into %d came otherwise", n, n+more)
			}
		}
	}
}
