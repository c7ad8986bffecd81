package mountinfo

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got := Parse("22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\r\n" +
		"broken line\n1 2 3\n41 22 0:39 /s\\040b /mnt/a ro shared:2 master:1 - 9p share\n")
	want := []Mount{
		{"254:1", "/", "/", "rw,relatime", "ext4", "/dev/vda1", "rw,errors=remount-ro"},
		{"0:39", "/s b", "/mnt/a", "ro", "9p", "share", ""},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`a\040b`: "a b", `\134`: `\`, `\04`: `\04`, `\999x`: `\999x`, `\`: `\`,
		`x\011`: "x\t"} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("1 2 3:4 / / rw - a b")
	f.Add(`1 2 3:4 \057 \057\134 rw -  `)
	f.Fuzz(func(t *testing.T, text string) {
		if all := Parse(text); len(all) > strings.Count(text, "\n")+1 {
			t.Fatalf("%d mounts in %d lines", len(all), strings.Count(text, "\n")+1)
		}
	})
}
