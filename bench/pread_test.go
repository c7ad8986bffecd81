package main

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestPreadTime(t *testing.T) {
	sums := func(v ...uint64) []byte {
		var b []byte
		for _, x := range v {
			b = binary.NativeEndian.AppendUint64(b, x)
		}
		return b
	}
	if s, err := preadTime(sums(4, 4400, 100), 4); err != nil || s != 1e-6 {
		t.Errorf("four calls in 4400 ns, of which 100 each are the clock's: %v s, %v", s, err)
	}
	for what, b := range map[string][]byte{"nothing": {}, "no calls": sums(0, 0, 20), "others too": sums(5, 4400, 100),
		"half a count": slices.Clone(sums(4, 4400, 100)[:20])} {
		if s, err := preadTime(b, 4); err == nil {
			t.Errorf("%s: %v s", what, s)
		}
	}
}
