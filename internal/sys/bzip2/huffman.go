package bzip2

import "errors"

// quickBits is the number of bits that index the first table of a code. Longer codes are rare: a symbol with one comes
// less than once in a thousand.
const quickBits = 10

var (
	errOversubscribed = errors.New("a Huffman code has more words than its lengths allow")
	errCode           = errors.New("a code without a symbol")
)

// huffman is a canonical code for reading.
type huffman struct {
	quick [1 << quickBits]uint16 // symbol<<5 | length; 0 where the code is longer or stands for nothing
	// limit[n] is the first word, left-aligned in 32 bits, that is longer than n bits; first[n] is the number to
	// subtract from a word of n bits to find its symbol's place in order.
	limit [maxLength + 1]uint64
	first [maxLength + 1]int32
	order [maxSymbols]uint16 // symbols by length, then by number
	n     int                // of symbols that have a code
}

// make makes the code from the lengths of its words, each from 1 to maxLength.
func (h *huffman) make(lengths []uint8) error {
	var count [maxLength + 1]int32
	for _, n := range lengths {
		count[n]++
	}
	clear(h.quick[:])
	var code uint32 // of the current length
	var next [maxLength + 1]uint32
	at := int32(0)
	for n := 1; n <= maxLength; n++ {
		code <<= 1
		next[n] = code
		h.first[n] = int32(code) - at
		code += uint32(count[n])
		at += count[n]
		if code > 1<<n {
			return errOversubscribed
		}
		h.limit[n] = uint64(code) << (32 - n)
	}
	h.n = 0
	for n := uint8(1); n <= maxLength; n++ {
		if count[n] == 0 {
			continue
		}
		for s, l := range lengths {
			if l != n {
				continue
			}
			h.order[h.n] = uint16(s)
			h.n++
			if n <= quickBits {
				w := next[n] << (quickBits - n)
				for i := range uint32(1) << (quickBits - n) {
					h.quick[w+i] = uint16(s)<<5 | uint16(n)
				}
			}
			next[n]++
		}
	}
	return nil
}

// slow reads the symbol of a word longer than quickBits from the next 32 bits.
func (h *huffman) slow(word uint32) (symbol, length uint, err error) {
	for n := quickBits + 1; n <= maxLength; n++ {
		if uint64(word) < h.limit[n] {
			i := int32(word>>(32-n)) - h.first[n]
			if i < 0 || int(i) >= h.n {
				break
			}
			return uint(h.order[i]), uint(n), nil
		}
	}
	return 0, 0, errCode
}
