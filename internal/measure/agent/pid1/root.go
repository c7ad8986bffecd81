package pid1

import (
	"path/filepath"
	"slices"
	"sort"
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
	sort.Sort(byLength(parts)) // slices.SortFunc would add 4 KB to the agent
	return parts
}

// byLength sorts names by length, and those of the same length by letters.
type byLength []string

func (b byLength) Len() int { return len(b) }
func (b byLength) Less(i, j int) bool {
	return len(b[i]) < len(b[j]) || len(b[i]) == len(b[j]) && b[i] < b[j]
}
func (b byLength) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

// shared are the folders that a worker in a root image shares with the agent, which stays outside: the kernel's file
// systems, and the work directories. A folder below one of them has the same path for both.
var shared = []string{"/proc", "/sys", "/dev", "/run", "/tmp"}

// within turns a path of the guest into one inside a root.
func within(root, path string) string { return filepath.Join(root, path) }
