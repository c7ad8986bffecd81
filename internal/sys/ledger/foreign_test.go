package ledger

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

func TestForeign(t *testing.T) {
	const line = "2026-11-29 05:16:00 UTC [7] LOG:  statement: SELECT 1\n"
	wide := func(text string, order binary.ByteOrder) string {
		b := new(bytes.Buffer)
		for _, c := range utf16.Encode([]rune(text)) {
			var two [2]byte
			order.PutUint16(two[:], c)
			b.Write(two[:])
		}
		return b.String()
	}
	archive := func(format tar.Format) string {
		b := new(bytes.Buffer)
		w := tar.NewWriter(b)
		if err := w.WriteHeader(&tar.Header{Name: "a/log", Mode: 0o600, Size: 3, Format: format}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	old := []byte(archive(tar.FormatUSTAR)) // version 7 had no magic
	sum := 0
	copy(old[257:], make([]byte, 512-257))
	copy(old[148:], "        ")
	for _, c := range old[:512] {
		sum += int(c)
	}
	copy(old[148:], "0000000\x00")
	for i := 5; i >= 0; i, sum = i-1, sum/8 {
		old[148+i] = byte('0' + sum%8)
	}
	old[154], old[155] = 0, ' '
	for _, c := range []struct{ name, head, want string }{
		{"ustar", archive(tar.FormatUSTAR), "tar"}, {"GNU's tar", archive(tar.FormatGNU), "tar"},
		{"pax", archive(tar.FormatPAX), "tar"}, {"tar of version 7", string(old), "tar"},
		{"zip", "PK\x03\x04\x14\x00", "zip"}, {"gzip", "\x1f\x8b\x08\x00", "gzip"},
		{"UTF-16 with a mark", wide("\ufeff"+line, binary.LittleEndian), "UTF-16 "},
		{"the other order", wide("\ufeff"+line, binary.BigEndian), "UTF-16 "},
		{"UTF-16 without", wide(line, binary.LittleEndian), "UTF-16LE"},
		{"UTF-16 without, the other order", wide(line, binary.BigEndian), "UTF-16BE"},
		{"short UTF-16", wide("# x\n", binary.LittleEndian), "UTF-16LE"},
		{"UTF-16 with other letters", wide("# größe 大 x y z\n", binary.LittleEndian), "UTF-16LE"},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "UTF-32"},
		{"SQLite", "SQLite format 3\x00\x10\x00", "SQLite"}, {"pcapng", "\x0a\x0d\x0d\x0a\x1c", "pcapng"},
		{"the journal", "LPKSHHRH\x00\x00", "journalctl"}, {"ELF", "\x7fELF\x02", "ELF"},
		{"a program for Windows", "MZ\x90\x00\x03", "Windows"}, {"bzip2", "BZh91AY&SY\x00", "bzip2"},
		{"text", line, ""}, {"text that begins as a program", "MZ is a user\n", ""}, {"BZh", "BZh is a user\n", ""},
		{"a mark of UTF-8", "\ufeff" + line, ""}, {"nothing", "", ""}, {"zeros", strings.Repeat("\x00", 600), ""},
		{"zeros before a line", strings.Repeat("\x00", 16) + line, ""}, {"long text", strings.Repeat(line, 20), ""},
	} {
		if got := Foreign([]byte(c.head)); !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestUnrecognised(t *testing.T) {
	for _, c := range []struct{ head, want string }{
		{"hello\x1b[31m\n", `it begins with "hello\x1b[31m\n"`},
		{strings.Repeat("x", 59) + "ü and more", `it begins with "` + strings.Repeat("x", 59) + `"`},
		{strings.Repeat("x", 58) + "ü and more", `it begins with "` + strings.Repeat("x", 58) + `ü"`},
		{strings.Repeat("\x80", 70), `it begins with "` + strings.Repeat(`\x80`, 60) + `"`},
		{"", `it begins with ""`},
	} {
		if got := Unrecognised([]byte(c.head)); got != c.want {
			t.Errorf("%q: %s, want %s", c.head, got, c.want)
		}
	}
}

func FuzzForeign(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add(bytes.Repeat([]byte("x\x00"), 300))
	f.Fuzz(func(t *testing.T, head []byte) {
		Foreign(head)
		if len(Unrecognised(head)) > 300 {
			t.Fatal("the beginning is long")
		}
	})
}
