package sysinfo

import (
	"os"
	"strconv"
	"strings"
)

// mount is a line of /proc/self/mountinfo.
type mount struct {
	device  string // "8:1"
	root    string // which part of the file system is mounted: "/" for all of it
	point   string
	options string // of the mount, then of the file system, without repetition
	kind    string // "ext4"
	source  string // "/dev/sda1"
}

// MountAt returns what the kernel shows of the mount that an absolute path is on: the file system's type, its source,
// and the options of the mount and of its file system. point is the mount's own place. ok is false where the kernel has
// no such list.
func MountAt(path string) (point, kind, source, options string, ok bool) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", "", "", false
	}
	m, ok := mountOf(parseMountInfo(string(text)), path)
	return m.point, m.kind, m.source, m.options, ok
}

// parseMountInfo reads /proc/self/mountinfo (proc(5)); lines it does not understand are skipped.
func parseMountInfo(text string) (mounts []mount) {
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		l, r := strings.Split(left, " "), strings.Split(right, " ")
		if !ok || len(l) < 6 || len(r) < 2 {
			continue
		}
		m := mount{device: l[2], root: unescape(l[3]), point: unescape(l[4]), options: l[5], kind: unescape(r[0]),
			source: unescape(r[1])}
		if len(r) > 2 {
			m.options = join(m.options, r[2])
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

// join adds the options of b that a lacks. A file system's "rw" says nothing about a mount that is "ro".
func join(a, b string) string {
	have := map[string]bool{"rw": true, "ro": true}
	for _, o := range strings.Split(a, ",") {
		have[o] = true
	}
	for _, o := range strings.Split(b, ",") {
		if !have[o] && o != "" {
			a += "," + o
		}
	}
	return a
}

// mountOf returns the mount that a clean absolute path is on: the last one mounted on the longest prefix.
func mountOf(mounts []mount, path string) (best mount, ok bool) {
	for _, m := range mounts {
		in := m.point == "/" && strings.HasPrefix(path, "/") || path == m.point || strings.HasPrefix(path, m.point+"/")
		if in && len(m.point) >= len(best.point) {
			best, ok = m, true
		}
	}
	return best, ok
}
