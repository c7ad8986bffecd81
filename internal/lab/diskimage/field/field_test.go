package field

import (
	"encoding/binary"
	"testing"
)

func TestGUID(t *testing.T) {
	// The type of an EFI system partition, as bytes on a disk; the UEFI specification writes it as a GUID.
	efi := []byte{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b, 0xff}
	if got, want := GUID(efi), "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, b := range [][]byte{nil, efi[:15], make([]byte, 16)} {
		if got := GUID(b); got != "" {
			t.Errorf("%x: %q", b, got)
		}
	}
}

func TestUTF16(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, c := range []struct {
		b     string
		order binary.ByteOrder
		want  string
	}{
		{"a\x00\xe9\x00", le, "aé"}, {"\x00a\x00\xe9", be, "aé"}, {"a\x00\x00\x00b\x00", le, "a"}, {"a\x00b", le, "a"},
		{"", le, ""},
		{"\x3d\xd8\x00\xde", le, "😀"}, {"\x00\xd8", le, "\uFFFD"},
	} {
		if got := UTF16([]byte(c.b), c.order); got != c.want {
			t.Errorf("%q: %q, want %q", c.b, got, c.want)
		}
	}
}
