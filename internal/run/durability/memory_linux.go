package durability

import "golang.org/x/sys/unix"

// InMemory names the file system of a path when it keeps its files in memory; else it is empty.
func InMemory(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch int64(st.Type) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	}
	return ""
}
