package netpeer

import "encoding/binary"

// Fill fills b with bytes that do not repeat, from a seed (xorshift64*).
func Fill(b []byte, seed uint64) {
	x := seed | 1
	var word [8]byte
	for i := 0; i < len(b); i += 8 {
		x ^= x >> 12
		x ^= x << 25
		x ^= x >> 27
		binary.LittleEndian.PutUint64(word[:], x*0x2545f4914f6cdd1d)
		copy(b[i:], word[:])
	}
}
