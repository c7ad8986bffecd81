package developer

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// dirent writes one entry as getdents64 does.
func dirent(name string, kind byte) []byte {
	n := (19 + len(name) + 1 + 7) &^ 7
	p := make([]byte, n)
	binary.NativeEndian.PutUint64(p, 12)
	binary.NativeEndian.PutUint16(p[16:], uint16(n))
	p[18] = kind
	copy(p[19:], name)
	return p
}

func TestNextDirent(t *testing.T) {
	long := strings.Repeat("n", 255)
	p := bytes.Join([][]byte{dirent(".", 4), dirent("a\nb", 8), dirent(long, 4), dirent("x", 0)}, nil)
	for _, want := range []struct {
		name string
		kind int
	}{{".", entryDirectory}, {"a\nb", entryOther}, {long, entryDirectory}, {"x", entryUnknown}} {
		name, kind, rest, err := nextDirent(p)
		if err != nil || string(name) != want.name+"\x00" || kind != want.kind {
			t.Fatalf("%q %d, %v, want %q %d", name, kind, err, want.name, want.kind)
		}
		p = rest
	}
	if len(p) > 0 {
		t.Errorf("%d bytes are left", len(p))
	}
	whole := dirent("name", 8)
	for n := range whole[:len(whole)-1] {
		if _, _, _, err := nextDirent(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are an entry", n, len(whole))
		}
	}
	if _, _, _, err := nextDirent(dirent("", 8)); err == nil {
		t.Error("an entry without a name is read")
	}
}

func FuzzNextDirent(f *testing.F) {
	f.Add(dirent("name", 4))
	f.Add(append(dirent("a", 8), dirent("b", 0)...))
	f.Fuzz(func(t *testing.T, p []byte) {
		for steps := 0; len(p) > 0; steps++ {
			name, _, rest, err := nextDirent(p)
			if err != nil {
				return
			}
			if len(rest) >= len(p) || len(name) < 2 || name[len(name)-1] != 0 ||
				bytes.IndexByte(name, 0) != len(name)-1 {
				t.Fatalf("%q of %d bytes, %d left", name, len(p), len(rest))
			}
			p = rest
		}
	})
}
