// Package mountinfo reads the kernel's list of mounts, /proc/self/mountinfo (proc(5)).
package mountinfo

import (
	"strconv"
	"strings"
)

// Mount is a line of the list. Texts that the kernel escapes are plain here.
type Mount struct {
	Device  string // "8:1"
	Root    string // which part of the file system is mounted: "/" for all of it
	Point   string // where
	Options string // of the mount, with commas between
	Kind    string // of the file system: "ext4"
	Source  string // "/dev/sda1"
	Super   string // options of the file system, with commas between
}

// Parse reads the text of the list; lines that it does not understand are left out.
func Parse(text string) (mounts []Mount) {
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimRight(line, "\r\n"), " - ")
		l, r := strings.Split(left, " "), strings.Split(right, " ")
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := Mount{Device: l[2], Root: unescape(l[3]), Point: unescape(l[4]), Options: l[5], Kind: unescape(r[0]),
			Source: unescape(r[1])}
		if len(r) > 2 {
			m.Super = r[2]
		}
		mounts = append(mounts, m)
	}
	return mounts
}

// unescape turns \040 and other octal escapes back into characters.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
