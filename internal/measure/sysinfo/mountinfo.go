package sysinfo

import (
	"os"
	"strings"

	"tare/internal/sys/mountinfo"
)

// MountAt returns what the kernel shows of the mount that an absolute path is on: the file system's type, its source,
// and the options of the mount and of its file system. point is the mount's own place. ok is false where the kernel has
// no such list.
func MountAt(path string) (point, kind, source, opts string, ok bool) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", "", "", false
	}
	m, ok := mountOf(mountinfo.Parse(string(text)), path)
	return m.Point, m.Kind, m.Source, options(&m), ok
}

// options are those of a mount, then of its file system, without repetition.
func options(m *mountinfo.Mount) string { return join(m.Options, m.Super) }

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
func mountOf(mounts []mountinfo.Mount, path string) (best mountinfo.Mount, ok bool) {
	for _, m := range mounts {
		in := m.Point == "/" && strings.HasPrefix(path, "/") || path == m.Point || strings.HasPrefix(path, m.Point+"/")
		if in && len(m.Point) >= len(best.Point) {
			best, ok = m, true
		}
	}
	return best, ok
}
