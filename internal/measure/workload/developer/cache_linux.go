package developer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// dropCaches makes the kernel drop clean pages, directory entries and inodes.
func dropCaches() error { return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0) }

// cachedEntries is the number of directory entries that the kernel caches, over all file systems.
func cachedEntries() (int64, error) {
	const path = "/proc/sys/fs/dentry-state"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\t")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	return n, nil
}
