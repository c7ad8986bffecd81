package machine

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// mostTables bounds the tables of the firmware that are read, in bytes. Their own length field has 16 bits in the
// older form and servers have seldom more.
const mostTables = 256 << 10

// Numbers of the System Management BIOS Reference Specification (DMTF DSP0134), 7.18: Memory Device.
const (
	memoryDevice = 17
	endOfTable   = 127
	sizeAt       = 0x0c // word: MiB, or KiB if bit 15 is set; 0 no module, 0xffff unknown, 0x7fff see extendedAt
	extendedAt   = 0x1c // double word: MiB
	clockAt      = 0x20 // word: configured speed, MT/s; 0 unknown
)

// modules says of the firmware's tables which memory modules the machine has: how many of how many slots, of which size
// and at which speed. How many channels work is seen in that. "" where the tables do not tell.
func modules(tables []byte) string {
	slots, count := 0, map[string]int{}
	for len(tables) >= 4 {
		kind, length := tables[0], int(tables[1])
		if kind == endOfTable || length < 4 || length > len(tables) {
			break
		}
		if kind == memoryDevice && length >= sizeAt+2 {
			slots++
			if text := module(tables[:length]); text != "" {
				count[text]++
			}
		}
		// Behind the fields come texts, each ended by a zero, and one more zero.
		rest := tables[length:]
		end := 0
		for end+1 < len(rest) && (rest[end] != 0 || rest[end+1] != 0) {
			end++
		}
		tables = rest[min(end+2, len(rest)):]
	}
	if len(count) == 0 {
		return ""
	}
	used, parts := 0, []string{}
	for text, n := range count {
		used += n
		parts = append(parts, fmt.Sprintf("%d x %s", n, text))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d of %d slots: %s", used, slots, strings.Join(parts, ", "))
}

// module describes what is in one slot; "" for nothing.
func module(fields []byte) string {
	size := uint64(binary.LittleEndian.Uint16(fields[sizeAt:]))
	switch {
	case size == 0:
		return ""
	case size == 0xffff:
		return "unknown size"
	case size == 0x7fff && len(fields) >= extendedAt+4:
		size = uint64(binary.LittleEndian.Uint32(fields[extendedAt:]) &^ (1 << 31))
	case size&0x8000 != 0:
		size = (size &^ 0x8000) >> 10
	}
	text := fmt.Sprintf("%d MiB", size)
	if size >= 1024 && size%1024 == 0 {
		text = fmt.Sprintf("%d GiB", size/1024)
	}
	if len(fields) >= clockAt+2 {
		if speed := binary.LittleEndian.Uint16(fields[clockAt:]); speed != 0 && speed != 0xffff {
			text += fmt.Sprintf(" at %d MT/s", speed)
		}
	}
	return text
}
