package fileio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Journal tells whether the ext4 that holds path keeps a journal: "none", "yes", or "" where it is no ext4, or lies
// below another file system, or the kernel does not tell. Without one, ext4 passes over inodes that were deleted within
// the last minutes (recently_deleted in fs/ext4/ialloc.c), so that making files becomes slower the more were deleted
// before.
func Journal(path string) string {
	v, err := StatVolume(path)
	if err != nil || v.FS != "ext4" {
		return ""
	}
	var st unix.Stat_t
	if err := Retry(func() error { return unix.Stat(path, &st) }); err != nil {
		return ""
	}
	dev := uint64(st.Dev)
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(dev), unix.Minor(dev)))
	if err != nil {
		return ""
	}
	options, err := os.ReadFile(filepath.Join("/proc/fs/ext4", filepath.Base(device), "options"))
	if err != nil {
		return ""
	}
	// The kernel lists how data relate to the journal only where there is one.
	for line := range strings.Lines(string(options)) {
		if strings.HasPrefix(line, "data=") {
			return "yes"
		}
	}
	return "none"
}
