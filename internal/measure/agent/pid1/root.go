package pid1

import (
	"path/filepath"
	"slices"
	"strings"
)

// partitions returns those of a disk among the names in its folder of /sys/block, in the order of their numbers: vdb1,
// vdb2, vdb10.
func partitions(disk string, entries []string) []string {
	parts := slices.DeleteFunc(slices.Clone(entries), func(name string) bool {
		number := strings.TrimPrefix(name, disk)
		return number == name || strings.Trim(strings.TrimPrefix(number, "p"), "0123456789") != "" ||
			strings.Trim(number, "p") == ""
	})
	slices.Sort(parts)
	slices.SortStableFunc(parts, func(a, b string) int { return len(a) - len(b) }) // which the agent has anyway
	return parts
}

// shared are the folders that a worker in a root image shares with the agent, which stays outside: the kernel's file
// systems, and the work directories. A folder below one of them has the same path for both.
var shared = []string{"/proc", "/sys", "/dev", "/run", "/tmp"}

// within turns a path of the guest into one inside a root.
func within(root, path string) string { return filepath.Join(root, path) }
