package fileio

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Journal tells whether the ext4 of path has a journal: "none", "yes", or "" if it is not an ext4, is below another
// file system, or the kernel does not report it. Without a journal, ext4 skips inodes that were deleted within the last
// minutes (recently_deleted in fs/ext4/ialloc.c), so that making files becomes slower the more files were deleted
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
	// The kernel lists the data mode only if there is a journal.
	for line := range strings.Lines(string(options)) {
		if strings.HasPrefix(line, "data=") {
			return "yes"
		}
	}
	return "none"
}
