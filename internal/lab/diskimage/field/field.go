// Package field reads fields that several disk formats and partition tables have in common.
package field

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf16"
)

// GUID formats the 16 bytes at the start of b, an identifier in Microsoft's formats and GPT: three little-endian
// numbers, then eight bytes (UEFI specification, appendix A). It is "" if all are zero or b is shorter.
func GUID(b []byte) string {
	if len(b) < 16 || !slices.ContainsFunc(b[:16], func(c byte) bool { return c != 0 }) {
		return ""
	}
	le := binary.LittleEndian
	return fmt.Sprintf("%08x-%04x-%04x-%x-%x", le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), b[8:10], b[10:16])
}

// UTF16 decodes text in the given byte order, up to the first zero or the end.
func UTF16(b []byte, order binary.ByteOrder) string {
	var u []uint16
	for ; len(b) >= 2; b = b[2:] {
		c := order.Uint16(b)
		if c == 0 {
			break
		}
		u = append(u, c)
	}
	return string(utf16.Decode(u))
}
