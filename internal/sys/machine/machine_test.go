package machine

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestIdentityStays(t *testing.T) {
	a, weak := Identity()
	b, again := Identity()
	if a != b || weak != again {
		t.Errorf("%q (weak %v), then %q (weak %v)", a, weak, b, again)
	}
	if a != "" && (len(a) != 32 || strings.Trim(a, "0123456789abcdef") != "") {
		t.Errorf("%q is not 32 hexadecimal digits", a)
	}
	if digest([]string{"id a", "card b"}) == digest([]string{"id a", "card c"}) {
		t.Error("another card makes no difference")
	}
}

// device makes the structure of a memory device with its texts.
func device(size uint16, extended uint32, speed uint16) []byte {
	b := make([]byte, 0x28)
	b[0], b[1] = memoryDevice, byte(len(b))
	binary.LittleEndian.PutUint16(b[sizeAt:], size)
	binary.LittleEndian.PutUint32(b[extendedAt:], extended)
	binary.LittleEndian.PutUint16(b[clockAt:], speed)
	return append(b, "DIMM_A1\x00Bank 0\x00\x00"...)
}

func TestModules(t *testing.T) {
	other := []byte{1, 4, 0, 0, 0, 0} // a structure without texts
	var tables []byte
	for _, part := range [][]byte{other, device(16384, 0, 2933), device(0x7fff, 65536, 2933), device(16384, 0, 2933),
		device(0, 0, 0), device(0x8000|512<<10>>10, 0, 0), {endOfTable, 4, 0, 0, 0, 0}, device(16384, 0, 1)} {
		tables = append(tables, part...)
	}
	want := "4 of 5 slots: 1 x 0 MiB, 1 x 64 GiB at 2933 MT/s, 2 x 16 GiB at 2933 MT/s"
	if got := modules(tables); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := modules(other); got != "" {
		t.Errorf("%q of tables without memory", got)
	}
}

func FuzzModules(f *testing.F) {
	f.Add(append(device(16384, 0, 2933), endOfTable, 4, 0, 0, 0, 0))
	f.Add([]byte{memoryDevice, 255, 0, 0})
	f.Fuzz(func(t *testing.T, tables []byte) {
		if len(tables) > mostTables {
			t.Skip()
		}
		if got := modules(tables); len(got) > 64*(len(tables)+1) {
			t.Errorf("%d bytes of text of %d bytes of tables", len(got), len(tables))
		}
	})
}
